"""What a model is asked to do, one file a task.

A config's `build(seed=...)` gives the data:

    shape          TaskShape: what a model must know of it
    ceiling        best reachable headline score where it is below the perfect one, else None
    splits_overlap the reason why train and test are the same on purpose, else None
    sample(n, split=..., generator=...) -> Batch
    floors(batch) -> {name: predictions (B, L)}         predictors without the ability, scored beside the model
    referee(tokens) -> targets                          the right answers for one example, in plain Python

and, where the task has use for it:

    headline       Metric, the one number of the task; ACCURACY if not given (REAL_ERROR for real targets)
    all_of(split) -> Batch                              a finite task's whole split; evaluation then uses all of it
    sample_each(n, split=..., generators=...)           a batch from each generator, as an iterator; what `sample` gives
                                                        one by one, bit for bit, in less time
    floor_losses(batch) -> {name: nats (B, L)}          for a headline that is a loss: predictors without the ability
                                                        that give probabilities; read at the targets
    counts(batch) -> {name: number}                     what else `derived` needs to know of the examples
    derived(measured) -> Iterator[Row]                  further rows, from the scores, the parameter counts and
                                                        `counts`; `where` is filled in by whoever measures
    keep(folder)                                        put beside a run what the task learned from its data

`measured` names each number by its quantity ("accuracy", "accuracy.floor.counting"), and one of a stratum with the
stratum before it ("kind=2/accuracy", "kind=2/accuracy.floor.counting").
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.registry import Registry
from partwise.rows import Row
from partwise.shapes import Split, TaskShape


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a score is: its name, unit, which way is better, and the bounds that no interval leaves.

    `perfect` is None where nobody knows the best score: then no run is solved, and arms are compared by the difference
    of their scores, once standard is better than the floor by `margin`.
    """

    name: str
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    low: float | None = 0.0
    high: float | None = 1.0
    perfect: float | None = 1.0
    margin: float | None = None


ACCURACY = Metric(name="accuracy")
REAL_ERROR = Metric(name="squared_error", better="lower", high=None, perfect=0.0)


@runtime_checkable
class TaskData(Protocol):
    """A task that is built: ready to be sampled."""

    shape: TaskShape
    ceiling: float | None
    splits_overlap: str | None

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch: ...

    def floors(self, batch: Batch) -> dict[str, Tensor]: ...


@runtime_checkable
class Task(Protocol):
    """The config of a task: a frozen dataclass."""

    def build(self, *, seed: int) -> Any: ...  # TaskData


@runtime_checkable
class Derives(Protocol):
    """A task that adds rows of its own."""

    def derived(self, measured: Mapping[str, float]) -> Iterator[Row]: ...


TASKS = Registry("task", package=__name__)


def sample_each(data: Any, n: int, *, split: Split, generators: Sequence[torch.Generator]) -> Iterator[Batch]:
    """A batch of n examples from each generator, all drawn at once where the task can, else one after another."""
    if hasattr(data, "sample_each"):
        return data.sample_each(n, split=split, generators=generators)
    return (data.sample(n, split=split, generator=generator) for generator in generators)
