"""Needle in a haystack: after a list of key-value pairs, give the value of the key asked for.

    tokens   k3 v7 k1 v2 k5 v0 q1
    targets   .  .  .  .  .  . v2

Source: the retrieval task of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, after Zhong & Andreas 2024,
arXiv:2410.04368 (mixit.md 2.4).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.splits import draw_split_each


@TASKS.register("needle")
@dataclass(frozen=True, kw_only=True)
class Needle:
    """Retrieval: one question over some key-value pairs; the keys of an example differ, values may repeat.

    Token ids: 0 is padding, then values, keys, and keys asked for (a key in question has an id of its own, as in the
    published task, so "look for the same token" does not solve it).

    Args:
        n_pairs: m, the most pairs an example has.
        min_pairs: the fewest; the number is uniform between the two.
        n_keys: how many keys there are; None means n_pairs, as in the paper.
        n_values: how many values there are.
    """

    n_pairs: int = 8
    min_pairs: int = 1
    n_keys: int | None = None
    n_values: int = 63

    def __post_init__(self) -> None:
        if not 1 <= self.min_pairs <= self.n_pairs:
            raise ConfigError(f"min_pairs={self.min_pairs} and n_pairs={self.n_pairs}: 1 <= min_pairs <= n_pairs.")
        if self.n_keys is not None and self.n_keys < self.n_pairs:
            raise ConfigError(f"{self.n_pairs} pairs need as many different keys, and n_keys is {self.n_keys}.")
        if self.n_values < 2:
            raise ConfigError(f"n_values={self.n_values}: with fewer than 2 values there is nothing to retrieve.")

    def build(self, *, seed: int) -> "NeedleData":
        return NeedleData(self)


class NeedleData:
    ceiling = None
    splits_overlap = None

    def __init__(self, task: Needle):
        self.task = task
        self.n_keys = task.n_pairs if task.n_keys is None else task.n_keys
        self.first_key = 1 + task.n_values
        self.first_query = self.first_key + self.n_keys
        self.shape = TaskShape(length=2 * task.n_pairs + 1, vocabulary=self.first_query + self.n_keys)

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        return next(self.sample_each(n, split=split, generators=(generator,)))

    def sample_each(self, n: int, *, split: Split, generators: Sequence[torch.Generator]) -> Iterator[Batch]:
        whole = self._batch(draw_split_each(n, split, self._draw, generators))
        return (whole.rows(at, at + n) for at in range(0, len(whole), n))

    def _batch(self, tokens_BL: Tensor) -> Batch:
        query_B = (tokens_BL != 0).sum(-1) - 1
        asked_B = tokens_BL.gather(1, query_B[:, None]) - self.n_keys
        source_B = (tokens_BL == asked_B).to(torch.int8).argmax(-1)
        targets_BL = torch.full_like(tokens_BL, IGNORE)
        targets_BL.scatter_(1, query_B[:, None], tokens_BL.gather(1, source_B[:, None] + 1))
        return Batch(
            tokens_BL=tokens_BL,
            targets_BL=targets_BL,
            lengths_B=query_B + 1,
            marks={"answer": query_B, "source": source_B + 1, "key": source_B},
            strata={"n_pairs": query_B // 2},
        )

    def _draw(self, n: int, generators: Sequence[torch.Generator]) -> Tensor:
        pairs = self.task.n_pairs
        drawn = zip(*(self._chance(n, generator) for generator in generators), strict=True)
        n_pairs_B1, key_BK, values_BP, which_B1 = map(torch.cat, drawn)
        keys_BP, which_B1 = key_BK.argsort(-1)[:, :pairs], (which_B1 * n_pairs_B1).long()
        pairs_BL = torch.stack((self.first_key + keys_BP, values_BP), dim=-1).flatten(1)
        tokens_BL = torch.cat((pairs_BL, torch.zeros(len(pairs_BL), 1, dtype=torch.int64)), dim=1)
        tokens_BL = tokens_BL.masked_fill(torch.arange(2 * pairs + 1) >= 2 * n_pairs_B1, 0)
        return tokens_BL.scatter_(1, 2 * n_pairs_B1, self.first_query + keys_BP.gather(1, which_B1))

    def _chance(self, n: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        task = self.task
        return (
            torch.randint(task.min_pairs, task.n_pairs + 1, (n, 1), generator=generator),
            torch.rand(n, self.n_keys, generator=generator),
            torch.randint(1, 1 + task.n_values, (n, task.n_pairs), generator=generator),
            torch.rand(n, 1, generator=generator),
        )

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """Name the most frequent value of the context, or simply the last one: no look at the key."""
        tokens_BL = batch.tokens_BL
        is_value_BL = (tokens_BL > 0) & (tokens_BL < self.first_key)
        count_BV = torch.zeros(len(batch), self.shape.output_width, dtype=torch.int64)
        count_BV.scatter_add_(1, tokens_BL, is_value_BL.long())
        last_B1 = batch.marks["answer"][:, None] - 1
        return {
            "most_frequent_value": count_BV.argmax(-1, keepdim=True).expand_as(tokens_BL),
            "last_value": tokens_BL.gather(1, last_B1).expand_as(tokens_BL),
        }

    def referee(self, tokens: list[int]) -> list[int]:
        """Read the pairs one after another, as a person would."""
        value_of: dict[int, int] = {}
        targets = [IGNORE] * len(tokens)
        for place, token in enumerate(tokens):
            if token >= self.first_query:
                targets[place] = value_of[token - self.n_keys]
            elif token >= self.first_key:
                value_of[token] = tokens[place + 1]
        return targets
