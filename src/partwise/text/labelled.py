"""From labelled documents to the rows of three splits, which share no text and are balanced where they are scored."""

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.corpora import Text
from partwise.encoders import Codec
from partwise.errors import ConfigError
from partwise.shapes import Split
from partwise.text.splits import stream_of

HELD_OUT: dict[Split, float] = {"test": 0.1, "validation": 0.05}  # of the smallest class, from each class
Labelled = tuple[tuple[str, int], ...]  # texts and their labels, label by label


def allotted(text: Text, *, seed: int) -> dict[Split, Labelled]:
    """The texts of each split. Of equal texts one is kept, and none where their labels differ.

    Within a label, texts stand in the order of a hash of their content and the seed. Test has a tenth and validation a
    twentieth of what the rarest label has, of every label alike, and at least one; training has all the rest.

    Raises:
        ConfigError: there are no labels, only one, or one with fewer than three texts.
    """
    if text.labels is None:
        raise ConfigError(f"the corpus {text.name} has no labels: a labelled one was expected, such as movie_reviews.")
    if len(text.label_names) < 2:
        raise ConfigError(f"{text.name}: {len(text.label_names)} label: at least 2 different ones were expected.")
    label_of: dict[str, int | None] = {}
    for document, label in zip(text.documents, text.labels, strict=True):
        label_of[document] = label if label_of.get(document, label) == label else None
    by_label = [
        sorted((document for document, own in label_of.items() if own == label), key=lambda one: _stirred(one, seed))
        for label in range(len(text.label_names))
    ]
    rarest = min(range(len(by_label)), key=lambda label: len(by_label[label]))
    few = len(by_label[rarest])
    if few < 3:
        raise ConfigError(
            f"{text.name}: {few} different texts have the label {text.label_names[rarest]!r}: three splits need 3."
        )
    n_test, n_validation = (max(1, round(HELD_OUT[split] * few)) for split in ("test", "validation"))
    held_out = n_test + n_validation
    parts: dict[Split, slice] = {
        "train": slice(held_out, None),
        "validation": slice(n_test, held_out),
        "test": slice(n_test),
    }
    return {
        split: tuple((document, label) for label, own in enumerate(by_label) for document in own[part])
        for split, part in parts.items()
    }


def _stirred(document: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{document}".encode()).digest()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Texts as a model is given them: tokens, the separator, padding. The target stands at the separator."""

    documents: tuple[str, ...]
    labels_N: Tensor
    start_N: Tensor  # of what is kept of each text, in the stream
    kept_N: Tensor  # how many tokens of it, without the separator
    stream_T: np.ndarray
    length: int
    codec: Codec

    @classmethod
    def of(cls, texts: Labelled, codec: Codec, *, length: int, keep: Literal["end", "start"]) -> "Rows":
        """The rows of texts, of which one that is too long loses its beginning (keep=end) or its end."""
        documents = tuple(document for document, _ in texts)
        stream_T = stream_of(documents, codec)
        separator_N = torch.from_numpy(np.flatnonzero(stream_T == codec.separator))
        start_N, stop_N = separator_N[:-1] + 1, separator_N[1:]
        kept_N = (stop_N - start_N).clamp(max=length - 1)
        return cls(
            documents=documents,
            labels_N=torch.tensor([label for _, label in texts]),
            start_N=stop_N - kept_N if keep == "end" else start_N,
            kept_N=kept_N,
            stream_T=stream_T,
            length=length,
            codec=codec,
        )

    def __len__(self) -> int:
        return len(self.labels_N)

    def only(self, index_N: Tensor) -> "Rows":
        """The rows of these numbers."""
        return dataclasses.replace(
            self,
            documents=tuple(self.documents[number] for number in index_N.tolist()),
            **{name: getattr(self, name)[index_N] for name in ("labels_N", "start_N", "kept_N")},
        )

    def contents(self) -> list[bytes]:
        """What tells one row from another: its int32 tokens, without the separator."""
        ends = zip(self.start_N.tolist(), (self.start_N + self.kept_N).tolist(), strict=True)
        return [self.stream_T[start:stop].astype(np.int32).tobytes() for start, stop in ends]

    def unlike(self, *others: "Rows") -> "Rows":
        """Those rows that equal no other, there or before them here; as many of each label."""
        seen = {content for rows in others for content in rows.contents()}
        new: list[list[int]] = [[] for _ in range(int(self.labels_N.max()) + 1)]
        for number, (content, label) in enumerate(zip(self.contents(), self.labels_N.tolist(), strict=True)):
            if content not in seen:
                new[label].append(number)
            seen.add(content)
        fewest = min(map(len, new))
        return self.only(torch.tensor([number for own in new for number in own[:fewest]], dtype=torch.int64))

    def numbers(self, index_B: Tensor) -> Batch:
        """The batch of the rows of these numbers."""
        kept_B1 = self.kept_N[index_B][:, None]
        at_L = torch.arange(self.length)
        place_BL = (self.start_N[index_B][:, None] + at_L).clamp(max=len(self.stream_T) - 1)
        tokens_BL = torch.from_numpy(self.stream_T[place_BL.numpy()].astype(np.int64))
        tokens_BL = tokens_BL.masked_fill(at_L == kept_B1, self.codec.separator)
        labels_B1 = self.labels_N[index_B][:, None]
        return Batch(
            tokens_BL=tokens_BL.masked_fill(at_L > kept_B1, self.codec.pad),
            targets_BL=torch.where(at_L == kept_B1, labels_B1, IGNORE),
            lengths_B=kept_B1[:, 0] + 1,
            marks={"answer": kept_B1[:, 0]},
        )

    def at_random(self, n: int, generator: torch.Generator) -> Batch:
        """n rows with replacement, each label equally often: first the label is drawn, then a row of it."""
        count_C = self.labels_N.bincount()
        label_B = torch.randint(len(count_C), (n,), generator=generator)
        share_B = torch.rand(n, generator=generator, dtype=torch.float64)
        before_C = count_C.cumsum(0) - count_C
        return self.numbers(before_C[label_B] + (share_B * count_C[label_B]).long())


def contents(batch: Batch) -> list[bytes]:
    """Of each row of a batch what `Rows.contents` gives."""
    tokens_BL, kept_B = batch.tokens_BL.numpy().astype(np.int32), batch.used_BL.sum(-1) - 1
    return [row[:kept].tobytes() for row, kept in zip(tokens_BL, kept_B.tolist(), strict=True)]
