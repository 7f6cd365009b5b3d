"""Sentiment: read a text and say at its end which label it has, such as whether a review was meant well.

    tokens   a charming film . |          | ends the text
    targets  . . . . positive

Source: the sentiment classification of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (mixit.md 2.6). Unlike there: all
arms are causal, or all two-way, with one width and one budget; the default data need no download.
"""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.corpora import CORPORA, Corpus
from partwise.corpora.movie_reviews import MovieReviews
from partwise.encoders import ENCODERS, Encoder
from partwise.encoders.words import Words
from partwise.errors import ConfigError
from partwise.optional import folder_of
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS, Metric
from partwise.text import bags
from partwise.text.bags import SPLITS
from partwise.text.digest import text_digest
from partwise.text.labelled import HELD_OUT, Rows, allotted, contents
from partwise.user_cache import cached

# Nobody knows the best score, and bags of words are good predictors: what an arm lacks is told by standard, once it has
# learned something.
HEADLINE = Metric(name="accuracy", perfect=None, margin=0.1, margin_over="majority")


@TASKS.register("sentiment")
@dataclass(frozen=True, kw_only=True)
class Sentiment:
    """Which label a text has, read out at its last token: the separator that ends it. The headline is the accuracy.

    A text longer than `length - 1` tokens loses its beginning: what a review comes to mostly stands at its end. Texts
    are split as they were written, without looking at the seed of a run: of equal texts one is kept, and none where
    their labels differ; test and validation hold a tenth and a twentieth of the smallest class from each class, so
    that guessing has 1 / classes; training has the rest and draws each class equally often. Where two texts look alike
    to the model, cut and encoded, the held-out one is dropped, with one of each other class.

    Nobody knows the best score, so no run is solved, and arms are compared by their differences, once standard is .1
    better than `majority`. Floors, on the very same texts: `majority`; and logistic regressions learned from the
    training split, their regularization chosen on validation: `bag_of_words` reads all words of the whole
    text, also what is cut off for the model, `bag_of_tokens` which tokens occur in what the model is given.

    Args:
        corpus: where the texts and labels are from.
        encoder: how text becomes tokens; one that learns its vocabulary sees the training split only.
        length: of the longest input, with the separator.
        keep: which end of a text that is too long: end or start.
        split_seed: which texts are held out; the run's seed does not change that.
    """

    corpus: Annotated[Corpus, CORPORA] = MovieReviews()
    encoder: Annotated[Encoder, ENCODERS] = Words()
    length: int = 128
    keep: Literal["end", "start"] = "end"
    split_seed: int = 0

    def __post_init__(self) -> None:
        if self.length < 2:
            raise ConfigError(f"length is {self.length}: at least 2 tokens were expected.")

    def build(self, *, seed: int) -> "SentimentData":
        return _built(self)


@functools.lru_cache(maxsize=2)
def _built(task: Sentiment) -> "SentimentData":
    """Texts are read and cut once a process, for all seeds and arms."""
    return SentimentData(task)


class SentimentData:
    ceiling = None
    splits_overlap = None
    headline = HEADLINE
    bayes = None  # nobody knows the best predictor of a label

    def __init__(self, task: Sentiment):
        folder_of("sklearn", extra="sentiment", what="the task sentiment, for its floors,")  # now, not in mid-training
        self.task = task
        text = task.corpus.read()
        self.label_names = text.label_names
        texts = allotted(text, seed=task.split_seed)
        self.codec = task.encoder.build([document for document, _ in texts["train"]])
        rows = {split: Rows.of(texts[split], self.codec, length=task.length, keep=task.keep) for split in SPLITS}
        rows["test"] = rows["test"].unlike(rows["train"])
        rows["validation"] = rows["validation"].unlike(rows["train"], rows["test"])
        for split in HELD_OUT:
            if not len(rows[split]):
                raise ConfigError(
                    f"{text.name}: cut to length={task.length}, the {split} texts of some label are all like others; "
                    "a longer task.length tells more of them apart."
                )
        self.rows = rows
        self.shape = TaskShape(length=task.length, vocabulary=self.codec.n_ids, n_outputs=len(text.label_names))

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        """n texts with replacement, each label equally often."""
        return self.rows[split].at_random(n, generator)

    def all_of(self, split: Split) -> Batch:
        """Every text of the split, label by label."""
        return self.rows[split].numbers(torch.arange(len(self.rows[split])))

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent label of the training split; and what each bag says of the texts."""
        number_B = torch.tensor([self._number[content] for content in contents(batch)])
        said = {"majority": self.rows["train"].labels_N.mode().values.expand(len(batch))}
        said |= {name: said_N[number_B] for name, said_N in self._bags.items()}
        return {name: said_B[:, None].expand_as(batch.tokens_BL) for name, said_B in said.items()}

    def keep(self, folder: Path) -> None:
        """Put what the encoder learned beside the model that was trained on it."""
        self.codec.keep(folder)

    @functools.cached_property
    def _number(self) -> dict[bytes, int]:
        """Which text a row is, counted through the splits: from what a model is given to the whole."""
        every = [content for split in SPLITS for content in self.rows[split].contents()]
        return {content: number for number, content in enumerate(every)}

    @functools.cached_property
    def _bags(self) -> dict[str, Tensor]:
        """What each bag says of every text, through the splits; learned once on this machine."""
        key = hashlib.sha256(f"{bags.VERSION}".encode())
        for split in SPLITS:
            rows = self.rows[split]
            key.update(f" {text_digest(rows.documents)} {rows.labels_N.tolist()} ".encode())
            key.update(b"".join(rows.contents()))

        def write(path: Path) -> None:
            labels = {split: self.rows[split].labels_N.numpy() for split in SPLITS}
            words = bags.bag_of_words({split: self.rows[split].documents for split in SPLITS}, labels)
            rows = {split: self.rows[split].contents() for split in SPLITS}
            tokens = bags.bag_of_tokens(rows, labels, n_ids=self.codec.n_ids)
            with open(path, "wb") as file:
                np.savez(file, bag_of_words=words, bag_of_tokens=tokens)

        with np.load(cached(f"floors/bags-{key.hexdigest()[:16]}.npz", write)) as held:
            return {name: torch.from_numpy(held[name]) for name in held.files}
