"""Memorization: give the value of a pair of keys, from a table of random facts that only weights can hold.

    tokens   a3 b7
    targets   . v2

Source: the memorization task of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, Table 4, after Zhong & Andreas 2024,
arXiv:2410.04368 (mixit.md 2.3).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS, Metric


@TASKS.register("memorization")
@dataclass(frozen=True, kw_only=True)
class Memorization:
    """Fact storage: n_first x n_second random facts, each one of n_values, uniform.

    Choose n_first * n_second * log2(n_values) well above what the model can hold (4 bits a parameter or more): else
    the table is full, and every ratio between arms is squeezed (mixit.md 2.3).

    Args:
        n_first: first keys.
        n_second: second keys.
        n_values: values; None means n_first. They share token ids with the first keys, as in the paper.
    """

    n_first: int = 64
    n_second: int = 256
    n_values: int | None = None

    def __post_init__(self) -> None:
        for name in ("n_first", "n_second"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)}: at least 1 was expected.")
        if self.values < 2:
            raise ConfigError(f"n_values={self.values}: with fewer than 2 values there is nothing to memorize.")

    @property
    def values(self) -> int:
        """How many values there are, with the default filled in."""
        return self.n_first if self.n_values is None else self.n_values

    def build(self, *, seed: int) -> "MemorizationData":
        return MemorizationData(self, seed)


class MemorizationData:
    splits_overlap = "recall of the very facts trained on is the ability in question"

    def __init__(self, task: Memorization, seed: int):
        self.task = task
        self.n_facts = task.n_first * task.n_second
        self.bits_per_fact = math.log2(task.values)
        self.first_second = max(task.n_first, task.values)
        self.shape = TaskShape(length=2, vocabulary=self.first_second + task.n_second)
        self.value_AB = torch.randint(
            task.values, (task.n_first, task.n_second), generator=generator_for(seed, "facts")
        )
        self.ceiling = self.n_facts * self.bits_per_fact
        self.headline = Metric(name="bits", unit="bit", high=self.ceiling, perfect=self.ceiling)

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        """n facts at random, with replacement."""
        return self._facts(torch.randint(self.n_facts, (n,), generator=generator))

    def all_of(self, split: Split) -> Batch:
        """Every fact once: the three splits are the same (`splits_overlap`)."""
        return self._facts(torch.arange(self.n_facts))

    def _facts(self, fact_B: Tensor) -> Batch:
        first_B, second_B = fact_B // self.task.n_second, fact_B % self.task.n_second
        value_B = self.value_AB[first_B, second_B]
        return Batch(
            tokens_BL=torch.stack((first_B, self.first_second + second_B), dim=1),
            targets_BL=torch.stack((torch.full_like(value_B, IGNORE), value_B), dim=1),
            marks={"answer": torch.ones_like(value_B), "source": torch.zeros_like(value_B)},
        )

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """The most frequent value of the table, and of the column of the last key: what can be said without ever
        putting the two keys together."""
        common = self.value_AB.flatten().mode().values
        by_second = self.value_AB.mode(dim=0).values[batch.tokens_BL[:, -1:] - self.first_second]
        return {
            "most_frequent_value": common.expand_as(batch.tokens_BL),
            "most_frequent_by_last_key": by_second.expand_as(batch.tokens_BL),
        }

    def referee(self, tokens: list[int]) -> list[int]:
        """Look the fact up in the table."""
        return [IGNORE, int(self.value_AB[tokens[0], tokens[1] - self.first_second])]

    def bits_without_meeting(self) -> float:
        """N * (log2 n - H(value | last key)): what a perfect table of the last key alone would hold, in bits."""
        count_BV = torch.zeros(self.task.n_second, self.task.values).scatter_add_(
            1, self.value_AB.T, torch.ones(self.task.n_second, self.task.n_first)
        )
        share_BV = count_BV / self.task.n_first
        entropy = -torch.special.xlogy(share_BV, share_BV).sum(-1).mean().item() / math.log(2)
        return self.n_facts * max(0.0, self.bits_per_fact - entropy)

    def derived(self, measured: Mapping[str, float]) -> Iterator[Row]:
        """Three counts of the bits held, whole and per parameter (mixit.md 2.3), with N facts and n values:

        bits            N * max(0, log2 n - mean cross-entropy in bits); the mean is clipped, never one fact
        bits_accuracy   accuracy * N * log2 n, the paper's count, which overstates
        bits_fano       N * (log2 n - h(accuracy) - (1 - accuracy) log2(n - 1)), Fano's bound, at least 0
        """
        accuracy, nats, n = measured["accuracy"], measured["loss"], self.task.values
        miss = 1 - accuracy
        doubt = -sum(share * math.log2(share) for share in (accuracy, miss) if share > 0)
        fano = self.bits_per_fact - doubt - miss * math.log2(n - 1)
        counts = {
            "bits": self.n_facts * max(0.0, self.bits_per_fact - nats / math.log(2)),
            "bits_accuracy": accuracy * self.ceiling,
            "bits_fano": self.n_facts * max(0.0, fano) if accuracy > 1 / n else 0.0,
        }
        for name, bits in counts.items():
            yield Row(where="", quantity=name, value=bits, unit="bit", n=self.n_facts)
            for kind in ("trainable", "total"):
                per = bits / measured[f"{kind}_parameters"]
                yield Row(where="", quantity=f"{name}_per_{kind}_parameter", value=per, unit="bit", n=self.n_facts)
        floor = self.bits_without_meeting()
        yield Row(where="", quantity="bits.floor.table_of_last_key", value=floor, unit="bit", n=self.n_facts)
