"""What a list of runs will cost, before it starts: parameters, tokens, FLOPs, and time from a short calibration."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from partwise import configs
from partwise.experiment import Experiment
from partwise.flops import flops_per_example, spent
from partwise.parts import Census, census
from partwise.seeds import generator_for
from partwise.updates import backward, optimizer_for

START_SECONDS = 3.0  # loading torch into the server that runs are forked from
EACH_SECONDS = 0.4  # building, counting and writing down one run


_MEASURED: dict[str, Any] = {}  # by kind of run; a plan with several rungs times each kind once


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run will take.

    `tokens` counts positions, padding included, so it is an upper bound; `seconds` is one run alone on this machine.
    """

    census: Census
    steps: int
    tokens: float
    flops: float
    seconds: float


def costs(experiments: Sequence[Experiment], *, seconds: float = 1.0) -> list[Cost]:
    """The cost of each run; runs that differ only in seed, rate or steps are timed once.

    Args:
        experiments: what would run.
        seconds: to spend on timing, shared by the different kinds of run.
    """
    kinds = {_timing_key(experiment): experiment for experiment in experiments}
    new = {kind: experiment for kind, experiment in kinds.items() if kind not in _MEASURED}
    for kind, experiment in new.items():
        _MEASURED[kind] = _measured(experiment, seconds / len(new))
    found = []
    for experiment in experiments:
        counted, length, stages, per_example, sizes = _MEASURED[_timing_key(experiment)]
        train = experiment.train
        examples = train.steps * train.batch
        checks = 10 if train.evaluate_every is None else train.steps / train.evaluate_every
        # A forward pass is about a third of an update.
        validation, test = sizes or (train.validation_size, experiment.test_size)
        scored = (checks * validation + test) / 3
        found.append(
            Cost(
                census=counted,
                steps=train.steps,
                tokens=float(examples * length),
                flops=spent(stages, train.steps, train.batch),
                seconds=EACH_SECONDS + per_example * (examples + scored),
            )
        )
    return found


def wall_seconds(found: Sequence[Cost], jobs: int) -> float:
    """Time for all of them, `jobs` at a time, longest share first come."""
    lanes = [0.0] * max(1, jobs)
    for cost in found:
        lanes[lanes.index(min(lanes))] += cost.seconds
    return START_SECONDS + max(lanes)


def _timing_key(experiment: Experiment) -> str:
    return repr(
        (
            configs.to_plain(experiment.task),
            configs.to_plain(experiment.model),
            experiment.learn,
            experiment.train.batch,
        )
    )


def _measured(
    experiment: Experiment, seconds: float
) -> tuple[Census, int, list[tuple[int, float]], float, tuple[int, int] | None]:
    """(census, length, FLOPs an example, seconds an example, a finite task's sizes of validation and test) on one
    thread; a large batch is timed on a part of it."""
    data, model = experiment.build()
    stages = flops_per_example(model, data, experiment.learn)
    rows = min(experiment.train.batch, max(1, int(2e9 / max(1.0, stages[0][1]))))
    optimizer = optimizer_for(model, experiment.learn.learning(model), experiment.train)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 2 or time.perf_counter() < end:
            start = time.perf_counter()
            batch = data.sample(rows, split="train", generator=generator_for(0, f"calibration/{len(times)}"))
            backward(model, batch, pieces=1, device=torch.device("cpu"), precision="float32")
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            times.append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(before)
    sizes = (len(data.all_of("validation")), len(data.all_of("test"))) if hasattr(data, "all_of") else None
    return census(model, experiment.learn), data.shape.length, stages, min(times) / rows, sizes


def short_time(seconds: float) -> str:
    """Seconds in the unit that a person would use."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{math.ceil(seconds)} s"
