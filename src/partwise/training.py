"""One loop that trains any module on any task, and stops and starts anywhere without a trace in the numbers."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from partwise.batch import Batch
from partwise.course import Course, Fit, Progress
from partwise.evaluation import mode
from partwise.looking import Looking
from partwise.parts import LearnRule, select
from partwise.resuming import resumed, save_checkpoint, stamp_of
from partwise.seeds import generator_for
from partwise.tasks import sample_each
from partwise.train_config import TrainConfig
from partwise.updates import Precision, optimizer_for, still_what_is_frozen, update

AHEAD = 8  # batches drawn at once, where a task can; more save little (docs/lab, 2026-12-01)


def fit(
    model: nn.Module,
    data: Any,
    *,
    learn: LearnRule,
    config: TrainConfig,
    seed: int,
    precision: Precision = "float32",
    looking: Looking | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 10.0,
    watch: Callable[[Progress], None] | None = None,
) -> Fit:
    """Train the model in place.

    The batch of a step depends on the seed and the step alone, and the checkpoint holds everything else, so a run that
    was killed and started again ends with the same bits (for an equal precision, thread count and machine).

    Args:
        model: any module that `evaluation.predict` can call.
        data: a built task.
        learn: what learns, at which step.
        config: the rest.
        seed: of the data.
        precision: of the arithmetic; weights and optimizer stay in float32.
        looking: probes that look on the way; what they find travels in the checkpoint.
        checkpoint: where to keep the state; resumed from if it is there.
        checkpoint_seconds: between two writes.
        watch: is told of the progress.

    Returns:
        where it ended; `diverged` says at which step and why, if it did.
    """
    device = next(model.parameters()).device
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    course = Course(model, data, learn=learn, config=config, seed=seed, looking=looking, watch=watch)
    for part in config.parts:
        select(model, (part.pattern,))
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [p.requires_grad_(wanted[name]) for name, p in model.named_parameters()])
        stack.enter_context(torch.random.fork_rng(devices=[]))  # a user's dropout draws from the global generator
        torch.manual_seed(seed)
        stamp = {"seed": seed, "precision": precision} | stamp_of(model, data, learn, config, looking)
        state, optimizer = resumed(model, learn, config, checkpoint, stamp)
        stack.enter_context(mode(model, training=True))
        still_what_is_frozen(model, learn.learning(model, max(0, state.step - 1)))
        if state.step == 0 and not state.looks:
            course.look(state)
        batches = train_batches(data, config, seed=seed, first=state.step)
        started, written = time.perf_counter() - state.seconds, time.perf_counter()
        while state.step < config.steps and not state.ended:
            step = state.step
            if optimizer is None or step in learn.changes():
                learning = learn.learning(model, step)
                optimizer = optimizer_for(model, learning, config, before=optimizer)
                still_what_is_frozen(model, learning)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * config.rate(step)

            batch = next(batches)
            loss, norm = update(model, batch, optimizer, config=config, device=device, precision=precision)
            course.follow(state, batch, loss, norm)
            if state.diverged:
                break
            state.seconds = time.perf_counter() - started
            if checkpoint is not None and time.perf_counter() - written > checkpoint_seconds:
                save_checkpoint(checkpoint, model, optimizer, state, stamp)
                written = time.perf_counter()
        if optimizer is not None:
            course.finish(state, [parameter for group in optimizer.param_groups for parameter in group["params"]])
        if checkpoint is not None and optimizer is not None:
            save_checkpoint(checkpoint, model, optimizer, state, stamp)
    return state


def train_batches(data: Any, config: TrainConfig, *, seed: int, first: int = 0) -> Iterator[Batch]:
    """The batches of the steps from `first` on; each depends on the seed and its step, and not on those before it."""
    for start in range(first, config.steps, AHEAD):
        steps = range(start, min(start + AHEAD, config.steps))
        generators = [generator_for(seed, f"train/{step}") for step in steps]
        yield from sample_each(data, config.batch, split="train", generators=generators)
