"""Data sets of the Hugging Face hub, by name, through the package datasets."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from partwise.corpora import CORPORA, Text, documents_of
from partwise.errors import ConfigError, did_you_mean
from partwise.hub import asked, is_path
from partwise.optional import imported


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What a short name stands for; what the corpus's own fields say goes before it."""

    dataset: str
    subset: str
    streaming: bool = False
    begins: str | None = None
    limit: int | None = None


KNOWN = {
    # Its rows are lines. An article begins with a heading of one '='; so no article is in two splits.
    "wikitext-103-raw-v1": _Known(
        dataset="Salesforce/wikitext", subset="wikitext-103-raw-v1", begins=r"^ = [^=].*[^=] = \n?$"
    ),
    "wikitext-2-raw-v1": _Known(
        dataset="Salesforce/wikitext", subset="wikitext-2-raw-v1", begins=r"^ = [^=].*[^=] = \n?$"
    ),
    # As many as were published to train and test on (mixit.md 2.7).
    "fineweb-edu": _Known(
        dataset="HuggingFaceFW/fineweb-edu", subset="sample-10BT", streaming=True, limit=2**20 + 4096
    ),
}


@CORPORA.register("hub")
@dataclass(frozen=True, kw_only=True)
class Hub:
    """A data set of the hub, or of a local folder that `datasets` can read: a row a document. Needs `hf`.

    Short names: wikitext-103-raw-v1 and wikitext-2-raw-v1 (rows joined to articles), fineweb-edu (sample-10BT, its
    first 1,052,672 documents, streamed).

    Args:
        dataset: a short name, owner/name, or a folder.
        subset: its configuration.
        split: which of its own splits is read; the task makes its splits of that.
        column: where the text stands.
        streaming: read it as it comes, without keeping the whole of it.
        limit: documents, at most.
        begins: a regular expression that the first row of a document matches; then rows are joined to documents.
    """

    dataset: str = "wikitext-2-raw-v1"
    subset: str | None = None
    split: str = "train"
    column: str = "text"
    streaming: bool = False
    limit: int | None = None
    begins: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit is {self.limit}: at least 1 document was expected.")
        try:
            re.compile(self.begins or "")
        except re.error as error:
            raise ConfigError(f"begins is {self.begins!r}, which is no regular expression: {error}.") from None

    def read(self) -> Text:
        datasets: Any = imported("datasets", extra="hf", what=f"the data set {self.dataset}")
        known = KNOWN.get(self.dataset, _Known(dataset=self.dataset, subset=""))
        subset, streaming = self.subset or known.subset or None, self.streaming or known.streaming
        limit = self.limit or known.limit
        local = self.dataset not in KNOWN and is_path(self.dataset)
        if local:
            rows = self._loaded(datasets, known.dataset, subset, streaming)
            found = self._documents(rows, self.begins, limit)
        else:
            with asked(self.dataset, "data set"):
                rows = self._loaded(datasets, known.dataset, subset, streaming)
                found = self._documents(rows, self.begins or known.begins, limit)
        return Text(documents=documents_of(found, self.dataset), name=self.dataset)

    def _loaded(self, datasets: Any, name: str, subset: str | None, streaming: bool) -> Iterable[dict[str, Any]]:
        return datasets.load_dataset(name, subset, split=self.split, streaming=streaming)

    def _documents(self, rows: Iterable[dict[str, Any]], begins: str | None, limit: int | None) -> list[str]:
        texts = (self._text(row) for row in rows)
        return list(itertools.islice(_joined(texts, begins) if begins else texts, limit))

    def _text(self, row: dict[str, Any]) -> str:
        text = row.get(self.column)
        if isinstance(text, str):
            return text
        raise ConfigError(
            f"the data set {self.dataset} has no text in {self.column!r}: it has {', '.join(row)}."
            f"{did_you_mean(self.column, row)}"
        )


def _joined(texts: Iterable[str], begins: str) -> Iterator[str]:
    """Rows put together; a row that matches begins a new document."""
    parts: list[str] = []
    for text in texts:
        if re.search(begins, text) and parts:
            yield "".join(parts)
            parts = []
        parts.append(text)
    yield "".join(parts)
