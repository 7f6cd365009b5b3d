"""How text becomes token ids, one file a way.

A config's `build(documents)` gives a `Codec`; one that learns its vocabulary learns it from these documents, so a task
gives it those of its training split alone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from partwise.registry import Registry


@runtime_checkable
class Codec(Protocol):
    """From text to ids and back.

    n_ids       how many ids there are, with the two special ones
    separator   the id that stands behind each document
    pad         the id that fills a row up
    bytes_V     int64 (n_ids,): the UTF-8 bytes that an id stands for, 0 for the special ones; None where an id
                does not always stand for the same bytes
    digest      stands for everything that changes the ids
    """

    n_ids: int
    separator: int
    pad: int
    bytes_V: np.ndarray | None
    digest: str

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int32, without special ones."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text that the ids stand for; special ones are left out."""
        ...

    def keep(self, folder: Path) -> None:
        """Write down what was learned, so that the folder is enough to decode; nothing where nothing was."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """The config of a way to encode: a frozen dataclass."""

    def build(self, documents: Sequence[str]) -> Any: ...  # Codec


ENCODERS = Registry("encoder", package=__name__)
