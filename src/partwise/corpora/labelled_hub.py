"""Labelled data sets of the Hugging Face hub, by name, through the package datasets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from partwise.corpora import CORPORA, Text
from partwise.errors import ConfigError, did_you_mean
from partwise.hub import asked, is_path
from partwise.optional import imported
from partwise.text.labels import labelled_text

KNOWN = {"yelp_polarity": "fancyzhx/yelp_polarity", "yelp_review_full": "Yelp/yelp_review_full"}


@CORPORA.register("labelled_hub")
@dataclass(frozen=True, kw_only=True)
class LabelledHub:
    """A labelled data set of the hub, or of a local folder that `datasets` can read: a row a text.

    Short names: yelp_polarity (560,000 reviews, two labels) and yelp_review_full (650,000, five), as the paper's code
    has them (mixit.md 2.6). Needs the extra `hf`.

    Args:
        dataset: a short name, owner/name, or a folder.
        subset: its configuration.
        split: which of its own splits is read, such as train, or a part of it, train[:10%]; the task makes its splits
            of that.
        text: the column of the text.
        label: the column of the label.
    """

    dataset: str = "yelp_polarity"
    subset: str | None = None
    split: str = "train"
    text: str = "text"
    label: str = "label"

    def read(self) -> Text:
        datasets: Any = imported("datasets", extra="hf", what=f"the data set {self.dataset}")
        if self.dataset not in KNOWN and is_path(self.dataset):
            return self._read(datasets, self.dataset)
        with asked(self.dataset, "data set"):
            return self._read(datasets, KNOWN.get(self.dataset, self.dataset))

    def _read(self, datasets: Any, name: str) -> Text:
        rows = datasets.load_dataset(name, self.subset, split=self.split)
        for column in (self.text, self.label):
            if column not in rows.column_names:
                raise ConfigError(
                    f"the data set {self.dataset} has no {column!r}: it has {', '.join(rows.column_names)}."
                    f"{did_you_mean(column, rows.column_names)}"
                )
        return labelled_text(self._pairs(rows), self.dataset)

    def _pairs(self, rows: Any) -> Iterator[tuple[Any, Any, str]]:
        """Texts and labels; a number by the name that the data set has for it, and -1, its sign for none, as none."""
        names = getattr(rows.features[self.label], "names", None)
        for at, (text, label) in enumerate(zip(rows[self.text], rows[self.label], strict=True)):
            if names is not None and label is not None:
                label = names[label] if label >= 0 else None
            yield text, label, f"the data set {self.dataset}, row {at},"
