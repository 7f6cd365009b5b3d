"""Floors for labelled text: logistic regression over bags, which know what a text holds and nothing of its order."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.encoders.words import words_of
from partwise.optional import imported
from partwise.shapes import Split

SPLITS: tuple[Split, ...] = ("train", "validation", "test")
VERSION = 1  # raised when what a bag says changes
STRENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0)  # 1 / regularization, of which validation chooses; the smallest of equals
WHAT = "a bag of words, a floor of labelled text,"


def bag_of_words(documents: Mapping[Split, Sequence[str]], labels: Mapping[Split, np.ndarray]) -> np.ndarray:
    """The label of every text, int64, in the order of SPLITS: from the tf-idf weights of its lower-cased words.

    tf is 1 + log of the count, idf is counted in the training split, and the weights of a text have norm 1.

    Raises:
        MissingPackage: scikit-learn is not installed.
    """
    text = imported("sklearn.feature_extraction.text", extra="sentiment", what=WHAT)
    weights = text.TfidfVectorizer(analyzer=words_of, sublinear_tf=True, dtype=np.float32)
    weights.fit(documents["train"])
    return _said({split: weights.transform(own) for split, own in documents.items()}, labels)


def bag_of_tokens(
    rows: Mapping[Split, Sequence[bytes]], labels: Mapping[Split, np.ndarray], *, n_ids: int
) -> np.ndarray:
    """The label of every row, int64, in the order of SPLITS: from which of its tokens (int32) occur, by their idf.

    Raises:
        MissingPackage: scikit-learn is not installed.
    """
    text = imported("sklearn.feature_extraction.text", extra="sentiment", what=WHAT)
    occurs = {split: _occurs(own, n_ids) for split, own in rows.items()}
    weights = text.TfidfTransformer().fit(occurs["train"])
    return _said({split: weights.transform(own) for split, own in occurs.items()}, labels)


def _occurs(rows: Sequence[bytes], n_ids: int) -> Any:
    """A sparse matrix, row by token: 1 where the token occurs."""
    import scipy.sparse

    ids = [np.unique(np.frombuffer(row, dtype=np.int32)) for row in rows]
    ends = np.cumsum([0, *map(len, ids)])
    return scipy.sparse.csr_matrix(
        (np.ones(ends[-1], dtype=np.float32), np.concatenate(ids), ends), shape=(len(rows), n_ids)
    )


def _said(known: Mapping[Split, Any], labels: Mapping[Split, np.ndarray]) -> np.ndarray:
    """The predictions of the regression that is best on validation."""
    linear = imported("sklearn.linear_model", extra="sentiment", what=WHAT)
    best, most = None, -1
    for strength in STRENGTHS:
        model = linear.LogisticRegression(C=strength, class_weight="balanced", max_iter=1000)
        model.fit(known["train"], labels["train"])
        right = int((model.predict(known["validation"]) == labels["validation"]).sum())
        if right > most:
            best, most = model, right
    assert best is not None
    return np.concatenate([best.predict(known[split]) for split in SPLITS]).astype(np.int64)
