"""Labelled text of one's own: tables and JSON lines, by file names and patterns."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partwise.corpora import CORPORA, Text, paths_of, utf8
from partwise.errors import ConfigError, did_you_mean
from partwise.text.labels import labelled_text

Column = str | int


@CORPORA.register("labelled_files")
@dataclass(frozen=True, kw_only=True)
class LabelledFiles:
    """Local files of labelled texts, in UTF-8: a row, or an object, each. Files are read in the order of their names.

    .csv has commas, and quotation marks around what holds one (RFC 4180). .tsv and .txt have tabs, and a quotation mark
    there is a sign like any other: read as .csv, a text that begins with one would swallow the lines up to the next.
    .jsonl has an object a line.

    Args:
        files: names and patterns, such as "reviews/*.csv".
        text: the column of the text: its name in the head, or its number from 0 in a table without a head.
        label: the column of the label, likewise. Labels may be any words or numbers.
    """

    files: tuple[str, ...] = ("*.csv",)
    text: Column = "text"
    label: Column = "label"

    def __post_init__(self) -> None:
        if isinstance(self.text, int) != isinstance(self.label, int):
            raise ConfigError(
                f"text is {self.text!r} and label is {self.label!r}: two names, or two numbers for a table without a"
                " head, were expected."
            )

    def read(self) -> Text:
        pairs = (pair for path in paths_of(self.files) for pair in self._pairs(path))
        return labelled_text(pairs, ", ".join(self.files))

    def _pairs(self, path: Path) -> Iterator[tuple[Any, Any, str]]:
        kinds = {".csv": _quoted, ".tsv": _tabbed, ".txt": _tabbed, ".jsonl": _objects}
        read = kinds.get(path.suffix.lower())
        if read is None:
            raise ConfigError(f"{path} is of no kind that is known here: {', '.join(kinds)} are.")
        rows = read(path)
        if read is not _objects and not isinstance(self.text, int):
            rows = _under_head(rows, path)
        for row, line in rows:
            place = f"{path}, line {line},"
            yield _of(row, self.text, place), _of(row, self.label, place), place


def _of(row: Any, column: Column, place: str) -> Any:
    """What stands in the column of a row, a list or an object."""
    if isinstance(column, int):
        if not isinstance(row, list) or not 0 <= column < len(row):
            has = f"{len(row)} columns" if isinstance(row, list) else "names for its columns"
            raise ConfigError(f"{place} has no column {column}, counted from 0: it has {has}.")
        return row[column]
    if not isinstance(row, dict) or column not in row:
        names = list(row) if isinstance(row, dict) else []
        has = f"it has {', '.join(names)}" if names else f"it is {type(row).__name__}"
        raise ConfigError(f"{place} has no {column!r}: {has}.{did_you_mean(column, names)}")
    return row[column]


def _under_head(rows: Iterator[tuple[Any, int]], path: Path) -> Iterator[tuple[Any, int]]:
    """Rows by the names in the first of them."""
    head, _ = next(rows, ([], 0))
    for row, line in rows:
        if len(row) != len(head):
            raise ConfigError(f"{path}, line {line}, has {len(row)} columns, and the head has {len(head)}.")
        yield dict(zip(head, row, strict=True)), line


def _quoted(path: Path) -> Iterator[tuple[list[str], int]]:
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(utf8(path), newline=""), strict=True)
    try:
        for row in reader:
            if row:
                yield row, reader.line_num
    except csv.Error as error:
        raise ConfigError(
            f"{path}, line {reader.line_num}: {error}; a file whose quotation marks are mere signs is read with tabs as"
            " .tsv."
        ) from None


def _tabbed(path: Path) -> Iterator[tuple[list[str], int]]:
    for line, content in _lines(path):
        yield content.split("\t"), line


def _objects(path: Path) -> Iterator[tuple[Any, int]]:
    for line, content in _lines(path):
        try:
            yield json.loads(content), line
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}, line {line}, is no JSON: {error}.") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1; other signs that end a line are part of a text."""
    for at, content in enumerate(utf8(path).split("\n"), start=1):
        if content.strip():
            yield at, content.removesuffix("\r")
