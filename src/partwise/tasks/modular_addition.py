"""Modular addition: give the sum of two numbers modulo p, at the second.

    tokens   a b
    targets  . c        c = (a + b) mod p

Source: the task of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, after Zhong & Andreas 2024, arXiv:2410.04368
(mixit.md 2.2), at p = 599 with 95 % of the p^2 pairs for training and no validation. Unlike there: a pair and its
mirror (b, a) stay on one side of the split (`published_split` parts them), since else nearly every test pair has been
seen the other way round.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.tables import most_frequent


@TASKS.register("modular_addition")
@dataclass(frozen=True, kw_only=True)
class ModularAddition:
    """Adding modulo p: a finite table, part of it held back, which only a rule can fill in.

    Args:
        p: the modulus, and the vocabulary.
        train_share: of the pairs, drawn by the seed; half of the rest is validation, half test.
        published_split: each pair is drawn by itself, as in the paper; the floor `mirror` is then nearly
            `train_share`, for whoever remembers the pairs and takes (a, b) for (b, a).
    """

    p: int = 97
    train_share: float = 0.9
    published_split: bool = False

    def __post_init__(self) -> None:
        if self.p < 2:
            raise ConfigError(f"p={self.p}: at least 2 was expected.")
        if not 0 < self.train_share < 1:
            raise ConfigError(f"train_share={self.train_share}: a share between 0 and 1 was expected.")
        if min(self.sizes) < 1:
            raise ConfigError(
                f"p={self.p} has {sum(self.sizes)} pairs, and train_share={self.train_share} splits them into "
                f"{' + '.join(map(str, self.sizes))} for train, validation and test: at least 1 each was expected."
            )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many pairs train, validation and test draw; a pair and its mirror are one unless `published_split`."""
        n_pairs = self.p**2 if self.published_split else self.p * (self.p + 1) // 2
        n_train = round(self.train_share * n_pairs)
        n_test = (n_pairs - n_train) // 2
        return n_train, n_pairs - n_train - n_test, n_test

    def build(self, *, seed: int) -> "ModularAdditionData":
        return ModularAdditionData(self, seed)


class ModularAdditionData:
    ceiling = None
    splits_overlap = None

    def __init__(self, task: ModularAddition, seed: int):
        self.task = task
        self.shape = TaskShape(length=2, vocabulary=task.p)
        pair_N2 = torch.cartesian_prod(torch.arange(task.p), torch.arange(task.p))
        drawn_N2 = pair_N2 if task.published_split else pair_N2[pair_N2[:, 0] <= pair_N2[:, 1]]
        order_N = torch.randperm(len(drawn_N2), generator=generator_for(seed, "pairs"))
        splits: tuple[Split, ...] = ("train", "validation", "test")
        self.pairs = dict(zip(splits, drawn_N2[order_N].split(task.sizes), strict=True))
        if not task.published_split:
            self.pairs = {split: _with_mirrors(pair_N2) for split, pair_N2 in self.pairs.items()}
        self._learn_tables()

    def _learn_tables(self) -> None:
        p = self.task.p
        known = self.all_of("train")
        first_N, second_N = known.tokens_BL.unbind(1)
        answer_N = known.targets_BL[:, 1]
        self._common = most_frequent(torch.zeros_like(answer_N), answer_N, n_seen=1, n_answers=p)
        self._unmet_P = torch.bincount(second_N * p + answer_N, minlength=p * p).view(p, p).argmin(-1)
        self._mirror_PP = self._common.repeat(p, p)
        self._mirror_PP[second_N, first_N] = answer_N

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        """n pairs of the split at random, with replacement."""
        pair_N2 = self.pairs[split]
        return self._batch(pair_N2[torch.randint(len(pair_N2), (n,), generator=generator)])

    def all_of(self, split: Split) -> Batch:
        """Every pair of the split once."""
        return self._batch(self.pairs[split])

    def _batch(self, pair_B2: Tensor) -> Batch:
        total_B = pair_B2.sum(-1)
        return Batch(
            tokens_BL=pair_B2,
            targets_BL=torch.stack((torch.full_like(total_B, IGNORE), total_B % self.task.p), dim=1),
            marks={"answer": torch.ones_like(total_B), "source": torch.zeros_like(total_B)},
            strata={"wraps": (total_B >= self.task.p).long()},
        )

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent answer in training; one that the last token never had there, the best by the last token,
        since each pair is held by one split only; the answer to the mirror of the pair, where training holds it, else
        the most frequent."""
        first_B, second_B = batch.tokens_BL.unbind(1)
        said = {
            "most_frequent_answer": self._common.expand_as(first_B),
            "unmet_by_last_token": self._unmet_P[second_B],
            "mirror": self._mirror_PP[first_B, second_B],
        }
        return {name: answer_B[:, None].expand_as(batch.tokens_BL) for name, answer_B in said.items()}

    def referee(self, tokens: list[int]) -> list[int]:
        """Count on from a, b times, back to 0 at p."""
        first, second = tokens
        for _ in range(second):
            first = 0 if first + 1 == self.task.p else first + 1
        return [IGNORE, first]


def _with_mirrors(pair_N2: Tensor) -> Tensor:
    return torch.cat((pair_N2, pair_N2[pair_N2[:, 0] != pair_N2[:, 1]].flip(1)))
