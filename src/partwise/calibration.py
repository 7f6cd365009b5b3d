"""Which precision is the faster one here: timed, not guessed, and written into the runs' `execution`."""

import copy
import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import nn

from partwise.batch import Batch
from partwise.execution import Execution
from partwise.parts import LearnRule
from partwise.train_config import TrainConfig
from partwise.updates import Precision, stepper

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")


def step_ms(
    model: nn.Module,
    batch: Batch,
    *,
    learn: LearnRule,
    config: TrainConfig,
    execution: Execution,
    seconds: float = 1.0,
) -> dict[Precision, float]:
    """Milliseconds of a training step in each precision, on copies of the model and taken in turn; medians.

    Args:
        model: on its device.
        batch: what the step is taken on.
        learn, config: as they would be trained.
        execution: its device and threads.
        seconds: to spend; three steps each way at least, after one to warm up.
    """
    device = torch.device(execution.device)
    how: dict[str, Any] = {"learn": learn, "config": config, "device": device}
    ways = {
        precision: partial(stepper(copy.deepcopy(model), precision=precision, **how), batch) for precision in PRECISIONS
    }
    with execution.in_force():
        times = _in_turn(ways, seconds=seconds)
    return {precision: round(1e3 * median(spent), 3) for precision, spent in times.items()}


def faster(ms: dict[Precision, float]) -> Precision:
    """The precision whose step took less time."""
    return min(PRECISIONS, key=ms.__getitem__)


def _in_turn(ways: Mapping[Precision, Callable[[], object]], *, seconds: float) -> dict[Precision, list[float]]:
    spent: dict[Precision, list[float]] = {name: [] for name in ways}
    end = float("inf")
    for turn in itertools.count():
        for name, way in ways.items():
            start = time.perf_counter()
            way()  # gives the loss as a number, so a GPU is done with it
            if turn:
                spent[name].append(time.perf_counter() - start)
        if turn == 0:
            end = time.perf_counter() + seconds
        elif turn >= 3 and time.perf_counter() > end:
            break
    return spent
