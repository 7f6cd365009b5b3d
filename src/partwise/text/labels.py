"""From texts and labels, as files and data sets hold them, to a labelled `Text`."""

from collections.abc import Iterable
from typing import Any

from partwise.corpora import Text
from partwise.errors import ConfigError


def labelled_text(pairs: Iterable[tuple[Any, Any, str]], name: str) -> Text:
    """The text of (text, label, where it stands) triples; labels are named in order, whole numbers as numbers.

    Raises:
        ConfigError: there is nothing, a text that is no text or has no letter or digit, or a missing label.
    """
    documents, labels = [], []
    for document, label, place in pairs:
        if not isinstance(document, str) or not any(map(str.isalnum, document)):
            raise ConfigError(f"{place} has no text, but {document!r}: mend or remove it.")
        label = "" if label is None else str(label).strip()
        if not label:
            raise ConfigError(f"{place} has no label: mend or remove it.")
        documents.append(document)
        labels.append(label)
    if not documents:
        raise ConfigError(f"{name} is empty: there is no text in it.")
    names = sorted(set(labels), key=_in_order)
    number = {label: at for at, label in enumerate(names)}
    return Text(
        documents=tuple(documents),
        labels=tuple(number[label] for label in labels),
        label_names=tuple(names),
        name=name,
    )


def _in_order(label: str) -> tuple[bool, int, str]:
    digits = label.removeprefix("-")
    whole = digits.isascii() and digits.isdigit()
    return (not whole, int(label) if whole else 0, label)
