"""Bytes: one token a byte of UTF-8. Nothing is learned and nothing need be installed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from partwise.encoders import ENCODERS

PAD, SEPARATOR, FIRST = 0, 1, 2  # the byte b is the id FIRST + b


@ENCODERS.register("bytes")
@dataclass(frozen=True, kw_only=True)
class Bytes:
    """The 256 bytes, padding and a separator: 258 ids. Nothing to set."""

    def build(self, documents: Sequence[str]) -> "ByteCodec":
        return ByteCodec()


class ByteCodec:
    """See `Codec`."""

    n_ids, separator, pad = FIRST + 256, SEPARATOR, PAD
    digest = "bytes"

    def __init__(self) -> None:
        self.bytes_V = (np.arange(self.n_ids) >= FIRST).astype(np.int64)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) + FIRST for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """Bytes that are no UTF-8, as where a row is cut inside a character, become U+FFFD."""
        return bytes(int(id) - FIRST for id in ids if id >= FIRST).decode(errors="replace")

    def keep(self, folder: Path) -> None:
        """Nothing was learned."""
