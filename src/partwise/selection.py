"""Choosing a rate: on validation, by the mean over selection seeds that are not among the reported ones.

Test is not read. A winner at the edge of its grid is marked, since the best may lie beyond it.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.records import RunRecord

SELECTION_SEEDS = (1000, 1001)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tried for one arm of one task.

    Args:
        base: the arm; its seed does not matter.
        values: the rates, ascending.
        path: the field they go into.
        seeds: of the selection; never reported.
        holds_for: the sizes of the task that take its choice; none: the base's own.
    """

    base: Experiment
    values: tuple[float, ...]
    path: str = "train.lr"
    seeds: tuple[int, ...] = SELECTION_SEEDS
    holds_for: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not self.values or list(self.values) != sorted(set(self.values)):
            raise ConfigError(f"a grid of {self.path} holds different values in ascending order, not {self.values}.")

    def runs(self) -> list[Experiment]:
        """Every value with every seed, value by value."""
        return [
            dataclasses.replace(replaced(self.base, self.path, value), seed=seed)
            for value in self.values
            for seed in self.seeds
        ]

    def decides(self, one: Experiment) -> bool:
        """Whether this run takes the grid's choice: it has the base's architecture and rule, and a task of `holds_for`
        or, where there is none, the base's task and model."""
        alike = (one.architecture, one.learn) == (self.base.architecture, self.base.learn)
        if self.holds_for:
            return alike and one.task in self.holds_for
        return alike and (one.task, one.model) == (self.base.task, self.base.model)

    def best(self, records: Sequence[RunRecord]) -> tuple[float, str]:
        """The best value, and how it was chosen in words.

        Args:
            records: of `runs()`, in any order, others among them. A run that diverged makes its value lose.

        Raises:
            ConfigError: a run is missing or failed, so that the choice could be another; or no value has a score.
        """
        known = {record.digest: record for record in records if record.status != "failed"}
        missing = [run for run in self.runs() if run.digest not in known]
        if missing:
            raise ConfigError(
                f"{self.path} of {self.base.arm} cannot be chosen: {len(missing)} of its {len(self.runs())} "
                "selection runs failed or belong to another process. Start again when they are done."
            )
        means = []
        for value in self.values:
            one = replaced(self.base, self.path, value)
            scores = [_validation(known[dataclasses.replace(one, seed=seed).digest]) for seed in self.seeds]
            means.append(tuple(sum(parts) / len(parts) for parts in zip(*scores, strict=True)))
        best = max(range(len(means)), key=means.__getitem__)
        if means[best][0] == -math.inf:
            raise ConfigError(f"no {self.path} of {self.base.arm} came through its selection runs.")
        edge = len(self.values) > 1 and best in (0, len(self.values) - 1)
        tried = ", ".join(f"{value:g}" for value in self.values)
        said = (
            f"{self.path} {self.values[best]:g} of {{{tried}}} by mean validation of seeds "
            f"{', '.join(map(str, self.seeds))}{'; at the edge of its grid' if edge else ''}"
        )
        return self.values[best], said


def _validation(record: RunRecord) -> tuple[float, float]:
    """The last headline on validation and, where that ties (all solved), the loss; so that more is better."""
    if record.status != "done":
        return -math.inf, -math.inf
    last = [entry["validation"] for entry in record.history if "validation" in entry][-1]
    value, loss = last[record.headline["name"]], last["loss"]
    if value is None or loss is None or not math.isfinite(value) or not math.isfinite(loss):
        return -math.inf, -math.inf
    return value if record.headline["better"] == "higher" else -value, -loss
