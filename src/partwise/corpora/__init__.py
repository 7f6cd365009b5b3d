"""Where text comes from, one file a source.

A config's `read()` gives a `Text`. The order of the documents is always the same: the splits of a task are made of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from partwise.errors import ConfigError
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


def documents_of(texts: Iterable[str], name: str) -> tuple[str, ...]:
    """The texts that hold a letter or digit.

    Raises:
        ConfigError: none does.
    """
    found = tuple(text for text in texts if any(map(str.isalnum, text)))
    if not found:
        raise ConfigError(f"{name} is empty: there is no text in it.")
    return found
