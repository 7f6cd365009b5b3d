"""Text of one's own: plain text, JSON, JSON lines, CSV and Parquet, by file names and patterns."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from partwise.corpora import CORPORA, Text, documents_of, paths_of, utf8
from partwise.errors import ConfigError, did_you_mean
from partwise.optional import imported


@CORPORA.register("files")
@dataclass(frozen=True, kw_only=True)
class Files:
    """Local files. Text is UTF-8, and a document a file, or a line; of the others a document is a row, or an object.

    Files are read in the order of their names; documents without a letter or digit are left out. Parquet needs the
    extra `hf`.

    Args:
        files: names and patterns, such as "texts/**/*.txt". Kinds by suffix: .json, .jsonl, .csv, .parquet; all others
            are plain text.
        documents: file or line, of plain text.
        column: where the text stands in JSON, CSV and Parquet.
    """

    files: tuple[str, ...] = ("*.txt",)
    documents: Literal["file", "line"] = "file"
    column: str = "text"

    def read(self) -> Text:
        name = ", ".join(self.files)
        found = (text for path in paths_of(self.files) for text in self._texts(path))
        return Text(documents=documents_of(found, name), name=name)

    def _texts(self, path: Path) -> Iterator[str]:
        kinds: dict[str, Callable[[Path], Iterator[Any]]] = {
            ".json": _json,
            ".jsonl": _json_lines,
            ".csv": _csv,
            ".parquet": _parquet,
        }
        read = kinds.get(path.suffix.lower())
        if read is None:
            text = utf8(path)
            yield from text.splitlines() if self.documents == "line" else [text]
            return
        try:
            for item in read(path):
                yield self._column(item, path)
        except (json.JSONDecodeError, csv.Error) as error:
            raise ConfigError(f"{path} cannot be read as {path.suffix[1:]}: {error}.") from None

    def _column(self, item: Any, path: Path) -> str:
        text = item.get(self.column) if isinstance(item, dict) else item
        if isinstance(text, str):
            return text
        known = list(item) if isinstance(item, dict) else []
        had = f"it has {', '.join(map(str, known))}" if known else f"it holds {type(item).__name__}"
        raise ConfigError(f"{path} has no text in {self.column!r}: {had}.{did_you_mean(self.column, map(str, known))}")


def _json(path: Path) -> Iterator[Any]:
    """A list of objects or strings; an object alone."""
    held = json.loads(utf8(path))
    yield from held if isinstance(held, list) else [held]


def _json_lines(path: Path) -> Iterator[Any]:
    yield from (json.loads(line) for line in utf8(path).split("\n") if line.strip())


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(2**31 - 1)
    yield from csv.DictReader(io.StringIO(utf8(path), newline=""))


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    parquet: Any = imported("pyarrow.parquet", extra="hf", what="reading Parquet")
    try:
        table = parquet.ParquetFile(path)
    except ValueError as error:  # of pyarrow, which has errors of its own that are this
        raise ConfigError(f"{path} cannot be read as parquet: {error}.") from None
    for part in table.iter_batches():
        yield from part.to_pylist()
