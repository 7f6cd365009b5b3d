"""Where text comes from, one file a source.

A config's `read()` gives a `Text`. The order of the documents is always the same: the splits of a task are made of it.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from partwise.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Text:
    """Documents as they were written, in one order.

    Args:
        documents: at least one, none empty.
        labels: one a document, an index into `label_names`; None where there are none.
        label_names: what the labels mean.
        name: what messages call it.
    """

    documents: tuple[str, ...]
    labels: tuple[int, ...] | None = None
    label_names: tuple[str, ...] = ()
    name: str


@runtime_checkable
class Corpus(Protocol):
    """The config of a source of text: a frozen dataclass."""

    def read(self) -> Text: ...


CORPORA = Registry("corpus", package=__name__)
