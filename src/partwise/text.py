"""From documents to the token streams that a task reads: three splits that share no text, and a cache.

A stream is `separator d1 separator d2 ... separator`: each document is announced and ended by the separator, so every
token of it can be predicted from what stands before, and its end as well.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from partwise.encoders import Codec
from partwise.errors import ConfigError
from partwise.shapes import Split
from partwise.user_cache import cached

HELD_OUT = 0.05  # of the text, in each of validation and test
FEW = 10  # documents, below which each of them is cut: to hold one out whole would be too much of the text


def text_digest(documents: Sequence[str]) -> str:
    """16 hex digits that stand for these documents in this order."""
    hashed = hashlib.sha256()
    for document in documents:
        content = document.encode()
        hashed.update(len(content).to_bytes(8, "little"))
        hashed.update(content)
    return hashed.hexdigest()[:16]


def allotted(documents: Sequence[str], *, seed: int, held_out: float = HELD_OUT) -> list[Split]:
    """The split of each document, all of it: equal documents go together, so no text is in two splits.

    Documents are put in the order of a hash of their content and the seed; test takes from the front until it has its
    share of the bytes, then validation, and training has the rest. Each has at least one document.

    Args:
        documents: at least three different ones.
        seed: another one holds others out.
        held_out: the share of the bytes in each of test and validation.

    Raises:
        ConfigError: there are fewer than three different documents.
    """
    different = sorted(set(documents), key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    if len(different) < 3:
        raise ConfigError(f"{len(different)} different documents: three splits need at least 3.")
    sizes = [len(text.encode()) for text in different]
    wanted, at = held_out * sum(sizes), 0
    split_of: dict[str, Split] = {}
    for split, left in (("test", 2), ("validation", 1)):
        taken = 0
        while at < len(different) - left and (not taken or taken < wanted):
            split_of[different[at]] = split  # type: ignore[assignment]
            taken, at = taken + sizes[at], at + 1
    return [split_of.get(text, "train") for text in documents]


def splits(documents: Sequence[str], *, seed: int) -> dict[Split, tuple[str, ...]]:
    """The documents of each split, in their order; fewer than 10 are cut instead, each into three pieces that follow
    one another (training, validation, test; the seed does not matter then). No text is in two splits.

    Raises:
        ConfigError: there is too little text to be split.
    """
    if len(set(documents)) >= FEW:
        of = allotted(documents, seed=seed)
        return {
            split: tuple(text for text, own in zip(documents, of, strict=True) if own == split)
            for split in ("train", "validation", "test")
        }
    pieces = [_cut(document) for document in dict.fromkeys(documents)]
    return {
        split: tuple(parts[place] for parts in pieces if parts[place])
        for place, split in enumerate(("train", "validation", "test"))
    }


def _cut(document: str) -> tuple[str, str, str]:
    """Three pieces, cut after the line, else the word, else the letter in which a share ends."""
    ends = [_boundary(document, round(len(document) * share)) for share in (1 - 2 * HELD_OUT, 1 - HELD_OUT)]
    return document[: ends[0]], document[ends[0] : ends[1]], document[ends[1] :]


def _boundary(document: str, place: int) -> int:
    for sign in ("\n", " "):
        end = document.find(sign, place, place + len(document) // 100 + 1)
        if end >= 0:
            return end + 1
    return place


def stream_of(documents: Sequence[str], codec: Codec) -> np.ndarray:
    """The documents' stream, int32 or uint16 (N,), mapped from a file of the cache: tokenized once on this machine."""

    def write(path: Path) -> None:
        kind = np.uint16 if codec.n_ids <= 2**16 else np.int32
        separator = np.array([codec.separator], dtype=kind)
        parts = [separator]
        for ids in codec.encode(documents):
            parts += [ids.astype(kind), separator]
        np.save(path, np.concatenate(parts))

    name = f"tokens/{text_digest(documents)}-{codec.digest}.npy"
    return np.load(cached(name, write), mmap_mode="r")
