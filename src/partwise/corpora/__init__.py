"""Where text comes from, one file a source.

A config's `read()` gives a `Text`. The order of the documents is always the same: the splits of a task are made of it.
"""

import glob
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from partwise.errors import ConfigError, did_you_mean
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


def paths_of(names: Iterable[str]) -> list[Path]:
    """Every file that the names and patterns mean, once, by name.

    Raises:
        ConfigError: a name or pattern matches none.
    """
    paths: dict[Path, None] = {}
    for asked in names:
        matching = [path for path in map(Path, sorted(glob.glob(asked, recursive=True))) if path.is_file()]
        if not matching:
            folder = Path(asked).parent
            near = [path.name for path in folder.iterdir()] if folder.is_dir() else []
            raise ConfigError(f"there is no file {asked}.{did_you_mean(Path(asked).name, near)}")
        paths |= dict.fromkeys(matching)
    return list(paths)


def utf8(path: Path) -> str:
    """The file's text, without a byte order mark.

    Raises:
        ConfigError: it is not UTF-8; the text says where.
    """
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8: byte {content[error.start]:#04x} at place {error.start}; save it as UTF-8."
        ) from None
