"""Language modelling in all but the text: random tokens, each scored by the token after it."""

from dataclasses import dataclass

import torch

from partwise.batch import Batch
from partwise.shapes import Split, TaskShape


@dataclass(frozen=True, kw_only=True)
class RandomText:
    """A task whose every position is scored.

    Args:
        length: T.
        vocabulary: V.
    """

    length: int
    vocabulary: int

    @property
    def shape(self) -> TaskShape:
        return TaskShape(length=self.length, vocabulary=self.vocabulary, may_look_ahead=False)

    def build(self, *, seed: int) -> "RandomText":
        return self

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        text = torch.randint(self.vocabulary, (n, self.length + 1), generator=generator)
        return Batch(tokens_BL=text[:, :-1].contiguous(), targets_BL=text[:, 1:].contiguous())
