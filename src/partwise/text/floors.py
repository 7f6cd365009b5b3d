"""What is known of a text without a model: n-grams counted in the training split, and a compressor.

A test set is scored ten times a run and by every run, so what was found is kept in the cache.
"""

import functools
import hashlib
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.encoders import Codec
from partwise.text.digest import text_digest
from partwise.text.ngrams import NGrams
from partwise.user_cache import cached

COUNTED = 2**24  # tokens of the training split that n-grams are counted in, and bytes that xz reads, at most
ORDERS = {"unigram": 1, "bigram": 2, "five_gram": 5}
VERSION = 1  # of what is kept; raised when its meaning changes
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 2 * COUNTED}]  # a window over all that is read


class TextFloors:
    """Floors of one training text under one way to encode.

    Args:
        documents: of the training split.
        stream_N: the same, as tokens.
        codec: that made them.
        digest: stands for both.
    """

    def __init__(self, documents: Sequence[str], stream_N: np.ndarray, codec: Codec, digest: str):
        self.documents, self.stream_N, self.codec, self.digest = documents, stream_N[:COUNTED], codec, digest

    @functools.cached_property
    def ngrams(self) -> NGrams:
        """Counted on first use."""
        return NGrams(self.stream_N, order=max(ORDERS.values()), n_ids=self.codec.n_ids)

    @functools.cached_property
    def most_frequent(self) -> int:
        return int(np.bincount(self.stream_N).argmax())

    @functools.cached_property
    def successor_V(self) -> Tensor:
        """What follows each token most often; the most frequent token behind one that nothing follows."""
        pairs, counts = np.unique(
            self.stream_N[:-1].astype(np.int64) * self.codec.n_ids + self.stream_N[1:], return_counts=True
        )
        order = np.argsort(counts, kind="stable")  # the most frequent last, so that it stays
        successor_V = np.full(self.codec.n_ids, self.most_frequent)
        successor_V[pairs[order] // self.codec.n_ids] = pairs[order] % self.codec.n_ids
        return torch.from_numpy(successor_V)

    def predictions(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent token, and the most frequent one behind the last: (B, L) each."""
        tokens_BL = batch.tokens_BL
        return {
            "most_frequent_token": torch.full_like(tokens_BL, self.most_frequent),
            "most_frequent_successor": self.successor_V[tokens_BL],
        }

    def losses(self, batch: Batch, *, keep: bool) -> dict[str, Tensor]:
        """Nats of each scored position by each n-gram, float32 (B, L); 0 where nothing is scored.

        `keep` for examples that are scored again and again: then they are found once on this machine.
        """
        if not keep:
            return {name: torch.from_numpy(nats_BL) for name, nats_BL in self._losses(batch).items()}
        file = cached(f"floors/{self._key(batch)}.npz", lambda path: self._save(batch, path))
        with np.load(file) as held:
            return {name: torch.from_numpy(held[name]) for name in ORDERS}

    def _save(self, batch: Batch, path: Path) -> None:
        found: dict[str, Any] = dict(self._losses(batch))
        np.savez(path, **found)

    def _losses(self, batch: Batch) -> dict[str, np.ndarray]:
        scored_BL = batch.scored_BL.numpy()
        tokens_BL, targets_BL = batch.tokens_BL.numpy(), np.where(scored_BL, batch.targets_BL.numpy(), 0)
        return {
            name: np.where(scored_BL, self.ngrams.nats(tokens_BL, targets_BL, order=order), 0).astype(np.float32)
            for name, order in ORDERS.items()
        }

    def xz_bytes(self, batch: Batch, *, keep: bool) -> dict[str, int]:
        """What the scored text takes when it is compressed: alone, and more than the training text before it."""
        if not keep:
            return self._xz_bytes(batch)
        file = cached(f"floors/{self._key(batch)}.json", lambda path: _write(path, self._xz_bytes(batch)))
        return json.loads(file.read_text(encoding="utf-8"))

    def _xz_bytes(self, batch: Batch) -> dict[str, int]:
        scored = self.codec.decode(batch.targets_BL[batch.scored_BL].tolist()).encode()
        before = "".join(self.documents).encode()[:COUNTED]
        name = f"floors/{text_digest(self.documents)}-{VERSION}.json"
        alone = cached(name, lambda path: _write(path, _compressed(before)))
        after = _compressed(before + scored) - json.loads(alone.read_text(encoding="utf-8"))
        return {"xz": _compressed(scored), "xz_after_training": after}

    def _key(self, batch: Batch) -> str:
        content = hashlib.sha256(batch.tokens_BL.numpy().tobytes() + batch.targets_BL.numpy().tobytes())
        return f"{self.digest}-{content.hexdigest()[:16]}-{VERSION}"


def _compressed(content: bytes) -> int:
    return len(lzma.compress(content, format=lzma.FORMAT_RAW, filters=XZ))


def _write(path: Path, plain: Any) -> None:
    path.write_text(json.dumps(plain), encoding="utf-8")
