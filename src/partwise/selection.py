"""Choosing a rate: on validation, by selection seeds that are not among the reported ones.

Test is not read. A choice at the edge of its grid is marked, since the best may lie beyond it.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise import configs
from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.records import RunRecord
from partwise.registry import name_of
from partwise.report.settings import flatten, in_words

SELECTION_SEEDS = (1000, 1001)
MUCH = 0.02  # of a metric's scale


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

    def tried(self, records: Sequence[RunRecord]) -> list[list[RunRecord]]:
        """The selection runs of each value, seed by seed.

        Raises:
            ConfigError: one is missing or failed.
        """
        known = {record.digest: record for record in records if record.status != "failed"}
        missing = [run for run in self.runs() if run.digest not in known]
        if missing:
            raise ConfigError(
                f"{self.path} of {self.base.arm} cannot be chosen: {len(missing)} of its {len(self.runs())} "
                "selection runs failed or belong to another process. Start again when they are done."
            )
        found = [known[run.digest] for run in self.runs()]
        return [found[i : i + len(self.seeds)] for i in range(0, len(found), len(self.seeds))]

    def best(self, records: Sequence[RunRecord]) -> tuple[float, str]:
        """The value to report with, and how it was chosen in words.

        Where some values solve the task with every selection seed, it is the middle one of these: trainings are
        two-valued, and the rate with the lowest loss is often the last before they fail. Of two middle ones it is the
        lower, unless the other scores 2 % of the metric's scale more. Where none does, the best mean, and at equal
        means the lower loss.

        Args:
            records: of `runs()`, in any order, others among them. A run that diverged makes its value lose.

        Raises:
            ConfigError: a run is missing or failed, so that the choice could be another; or no value has a score.
        """
        tried = self.tried(records)
        means = [
            tuple(sum(parts) / len(parts) for parts in zip(*map(_validation, each), strict=True)) for each in tried
        ]
        best = max(range(len(means)), key=means.__getitem__)
        if means[best][0] == -math.inf:
            raise ConfigError(f"no {self.path} of {self.base.arm} came through its selection runs.")
        solving = [i for i, each in enumerate(tried) if all(map(_solved, each))]
        if solving:
            lower, upper = solving[(len(solving) - 1) // 2], solving[len(solving) // 2]
            ahead = MUCH * _scale(tried[upper][0])
            best = upper if means[upper][0] - means[lower][0] > ahead else lower
        rule = "the middle of those that solve it" if solving else "the best mean"
        edge = len(self.values) > 1 and best in (0, len(self.values) - 1)
        grid, seeds = ", ".join(f"{value:g}" for value in self.values), ", ".join(map(str, self.seeds))
        said = (
            f"{self.path} {self.values[best]:g} of {{{grid}}}, {rule} on validation of "
            f"seed{'s' if len(self.seeds) > 1 else ''} {seeds}{'; at the edge of its grid' if edge else ''}"
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


def _solved(record: RunRecord) -> bool:
    """Whether the last score on validation closes 90 % of the way from floor to ceiling."""
    scored = [entry["validation"] for entry in record.history if "validation" in entry]
    return record.status == "done" and bool(scored) and bool(scored[-1].get("solved"))


def _scale(record: RunRecord) -> float:
    """The metric's whole scale; infinite where it has no bounds."""
    low, high = record.headline.get("low"), record.headline.get("high")
    return math.inf if low is None or high is None else high - low


def page(grids: Sequence[Grid], records: Sequence[RunRecord]) -> str:
    """What was tried and what was chosen, in Markdown: a row an arm and size, validation scores seed by seed.

    Args:
        grids: those of a plan.
        records: of their runs.
    """
    lines = ["# How the rates were chosen", ""]
    lines += ["The headline on validation at the last step, seed by seed; the choice in bold. Test was not read.", ""]
    lines += ["| task | architecture | tried on seeds | scores | chosen |", "|---|---|---|---|---|"]
    for grid in grids:
        best, _ = grid.best(records)
        scores = []
        for value, tried in zip(grid.values, grid.tried(records), strict=True):
            text = f"{value:g}: {', '.join(map(_in_short, tried))}"
            scores.append(f"**{text}**" if value == best else text)
        seeds = ", ".join(map(str, grid.seeds))
        lines.append(
            f"| {_place(grid, grids)} | {grid.base.arm} | {seeds} | {'; '.join(scores)} | {grid.path} {best:g} |"
        )
    return "\n".join(lines) + "\n"


def _place(grid: Grid, grids: Sequence[Grid]) -> str:
    """The task with its numbers, and what tells the base from others of its architecture: 'needle (n_pairs=8)'."""
    own, *others = (flatten(configs.to_plain(one.base)) for one in (grid, *grids))
    others = [other for other in others if other["architecture"] == own["architecture"]]
    task = {key: value for key, value in own.items() if key.startswith("task.") and isinstance(value, int)}
    varying = {
        key: value
        for key, value in own.items()
        if key.startswith("model.") and any(other.get(key) != value for other in others if _same_task(own, other))
    }
    return f"{name_of(grid.base.task)} ({in_words(task | varying)})"


def _same_task(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(other.get(key) == value for key, value in one.items() if key.startswith("task."))


def _in_short(record: RunRecord) -> str:
    value, _ = _validation(record)
    return record.status if value == -math.inf else f"{abs(value):.4g}"
