"""Language modelling: at each position, the token that comes next.

    tokens   T o   b e
    targets  o   b e ,

Source: the language modelling of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, table 2 (mixit.md 2.7). Unlike there:
documents are packed, by default, to rows without padding; no text is in two splits; the default text and tokens need no
download.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.corpora import CORPORA, Corpus
from partwise.corpora.shakespeare import Shakespeare
from partwise.encoders import ENCODERS, Encoder
from partwise.encoders.bytes import Bytes
from partwise.errors import ConfigError
from partwise.rows import Row
from partwise.sequences import OneDocument, Packed
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS, Metric
from partwise.text import splits, stream_of, text_digest
from partwise.text_floors import TextFloors

SCORED: dict[Split, int] = {"train": 2**15, "validation": 2**15, "test": 2**18}  # tokens, at most
ENOUGH = 0.1  # nats a token that standard must be below the best floor before anything is inferred
LOSS = Metric(name="loss", unit="nat", better="lower", high=None, perfect=None, margin=ENOUGH)


@TASKS.register("language_model")
@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """The next token of real text, in nats per token; and in bits per byte, which no choice of tokens changes.

        bits_per_byte = sum of nats / (ln 2 * UTF-8 bytes of the scored text),    perplexity = exp(nats per token)

    Separators between documents are predicted and their nats counted; they have no bytes. Training rows are drawn at
    random from the training split. Validation and test are fixed rows, the same for every seed and model: whole rows
    one after another, up to 32,768 and 262,144 tokens; of more, as many evenly spread over the split.

    Floors, on the very same tokens: `unigram`, `bigram` and `five_gram` are interpolated n-grams (ngrams.py) counted in
    the training split (its first 16.8 M tokens), which like the model see no further back than the row; `xz` compresses
    the scored text alone, `xz_after_training` behind the training text (its first 16.8 MB).

    Args:
        corpus: where the text is from.
        encoder: how it becomes tokens; one that learns its vocabulary sees the training split only.
        length: tokens of a row, in positions of the model.
        rows: packed: all documents one after another, cut into full rows. one_document: each document begins a row of
            its own, is cut off at its end and padded, as published (where a document is a line).
        split_seed: which documents are held out; the run's seed does not change that.
    """

    corpus: Annotated[Corpus, CORPORA] = Shakespeare()
    encoder: Annotated[Encoder, ENCODERS] = Bytes()
    length: int = 128
    rows: Literal["packed", "one_document"] = "packed"
    split_seed: int = 0

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ConfigError(f"length is {self.length}: at least 2 tokens were expected.")

    def build(self, *, seed: int) -> "LanguageModelData":
        return LanguageModelData(self)


class LanguageModelData:
    ceiling = None
    splits_overlap = None
    headline = LOSS
    bayes = None  # nobody knows the best predictor of a text

    def __init__(self, task: LanguageModel):
        self.task = task
        text = task.corpus.read()
        documents = splits(text.documents, seed=task.split_seed)
        self.codec = task.encoder.build(documents["train"])
        self.shape = TaskShape(length=task.length, vocabulary=self.codec.n_ids, may_look_ahead=False)
        make = Packed if task.rows == "packed" else OneDocument
        self.rows = {
            split: make(stream_of(held, self.codec), task.length, self.codec, f"{text.name}, {split} split")
            for split, held in documents.items()
        }
        digest = f"{text_digest(documents['train'])}-{self.codec.digest}"
        self.known = TextFloors(documents["train"], self.rows["train"].stream_N, self.codec, digest)
        self._fixed: dict[Split, Batch] = {}

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        """n rows at random, with replacement."""
        return self.rows[split].at_random(n, generator)

    def all_of(self, split: Split) -> Batch:
        """The fixed rows that are scored."""
        if split not in self._fixed:
            rows = self.rows[split]
            n = min(len(rows), max(1, SCORED[split] // self.task.length))
            self._fixed[split] = rows.numbers(torch.linspace(0, len(rows) - 1, n).round().long())
        return self._fixed[split]

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent token, and the most frequent successor."""
        return self.known.predictions(batch)

    def floor_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Unigram, bigram and five-gram."""
        return self.known.losses(batch)

    def counts(self, batch: Batch) -> dict[str, float]:
        """Scored tokens and the bytes that they stand for; of these, how many a compressor needs."""
        scored_BL = batch.scored_BL
        tokens = {"scored_tokens": float(scored_BL.sum())}
        if self.codec.bytes_V is None:
            return tokens
        text = torch.from_numpy(self.codec.bytes_V)[batch.targets_BL[scored_BL]].sum().item()
        return tokens | {"scored_bytes": text} | self.known.xz_bytes(batch)

    def derived(self, measured: Mapping[str, float]) -> Iterator[Row]:
        """Nats per token in other units, of the model and of each floor; what compression takes, in the same."""
        tokens, text = measured["scored_tokens"], measured.get("scored_bytes")
        nats = {name.removeprefix("loss"): value for name, value in measured.items() if _is_loss(name)}
        if text:
            for name in ("xz", "xz_after_training"):
                nats[f".floor.{name}"] = each = 8 * math.log(2) * measured[name] / tokens
                yield Row(where="", quantity=f"loss.floor.{name}", value=each, unit="nat", n=int(tokens))
        for name, value in nats.items():
            yield Row(where="", quantity=f"perplexity{name}", value=math.exp(value), n=int(tokens))
            if text:
                bits = value * tokens / math.log(2) / text
                yield Row(where="", quantity=f"bits_per_byte{name}", value=bits, unit="bit", n=int(text))

    def keep(self, folder: Path) -> None:
        """Put what the encoder learned beside the model that was trained on it."""
        self.codec.keep(folder)


def _is_loss(name: str) -> bool:
    return name == "loss" or name.startswith("loss.floor.")
