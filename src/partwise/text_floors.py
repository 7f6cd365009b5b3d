"""What is known of a text without a model: n-grams counted in the training split, and a compressor.

A test set is scored ten times a run and by every run, so what was found is kept in the cache.
"""

import functools
import hashlib
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.encoders import Codec
from partwise.ngrams import NGrams
from partwise.user_cache import cached

COUNTED = 2**24  # tokens of the training split that n-grams are counted in, and bytes that xz reads, at most
ORDERS = {"unigram": 1, "bigram": 2, "five_gram": 5}
VERSION = 1  # of what is kept; raised when its meaning changes
# the presets' strongest way to match, and a window over all that is read
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2 * COUNTED}]


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
        self._losses: dict[str, dict[str, Tensor]] = {}

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

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Nats of each scored position by each n-gram, float32 (B, L); 0 where nothing is scored."""
        key = self._key(batch)
        if key not in self._losses:
            kept = np.load(cached(f"floors/{key}.npz", lambda path: self._save_losses(batch, path)))
            self._losses[key] = {name: torch.from_numpy(kept[name]) for name in ORDERS}
        return self._losses[key]

    def _save_losses(self, batch: Batch, path: Path) -> None:
        tokens_BL = batch.tokens_BL.numpy()
        scored_BL = batch.scored_BL.numpy()
        targets_BL = np.where(scored_BL, batch.targets_BL.numpy(), 0)
        found = {
            name: np.where(scored_BL, self.ngrams.nats(tokens_BL, targets_BL, order=order), 0).astype(np.float32)
            for name, order in ORDERS.items()
        }
        np.savez(path, **found)

    def xz_bytes(self, batch: Batch) -> dict[str, int]:
        """What the scored text takes when it is compressed: alone, and more than the training text before it."""
        path = cached(f"floors/{self._key(batch)}.json", lambda path: self._save_xz(batch, path))
        return json.loads(path.read_text(encoding="utf-8"))

    def _save_xz(self, batch: Batch, path: Path) -> None:
        scored = self.codec.decode(batch.targets_BL[batch.scored_BL].tolist()).encode()
        before = "".join(self.documents).encode()[:COUNTED]
        found = {"xz": _compressed(scored), "xz_after_training": _compressed(before + scored) - _compressed(before)}
        path.write_text(json.dumps(found), encoding="utf-8")

    def _key(self, batch: Batch) -> str:
        content = hashlib.sha256(batch.tokens_BL.numpy().tobytes() + batch.targets_BL.numpy().tobytes())
        return f"{self.digest}-{content.hexdigest()[:16]}-{VERSION}"


def _compressed(content: bytes) -> int:
    return len(lzma.compress(content, format=lzma.FORMAT_RAW, filters=XZ))
