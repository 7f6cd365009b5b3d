"""Train any module on a task, test it beside the task's floors, and write down what came out."""

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from partwise import configs
from partwise.course import Fit, Progress, parameter_counts
from partwise.errors import ConfigError
from partwise.evaluation import evaluation_batch, headline_of, measure, mode, predict
from partwise.execution import Execution, choose_execution
from partwise.flops import flops_per_example, spent
from partwise.looking import Looking, check_looks
from partwise.parts import AllBut, LearnRule, census
from partwise.records import RunRecord
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.train_config import TrainConfig
from partwise.training import fit

Watch = Callable[[Progress], None]


def train(
    model: nn.Module,
    task: Any,
    *,
    learn: LearnRule = AllBut(),
    config: TrainConfig = TrainConfig(),
    seed: int = 0,
    probes: tuple[Any, ...] = (),
    probe_at: tuple[int, ...] = (),
    test_size: int = 4000,
    execution: Execution | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_seconds: float = 10.0,
    watch: Watch | None = None,
) -> RunRecord:
    """Train any module on a task in place, and score it on the test split beside the task's floors.

    Args:
        model: the lab's, or anybody's: called with tokens (B, L), it gives logits (B, L, V). Its addresses are its
            parameter names. The learn rule decides for every parameter, also those that came frozen.
        task: a task's config, or a task that is built.
        learn: what learns.
        config: steps, rate and so on.
        seed: of the data.
        probes: measured afterwards on up to 256 test examples.
        probe_at: numbers of updates after which they are measured as well; 0 is before the first.
        test_size: examples of an endless task's test set.
        execution: how to run it.
        checkpoint: keeps the state while it trains; resumed from if it is there.
        checkpoint_seconds: between two writes of it.
        watch: is told of the progress.
    """
    if not hasattr(learn, "learning"):
        raise ConfigError(f"learn is {learn!r}: a rule such as AllBut() or Only('embed') was expected.")
    config = configs.checked(config)
    if not isinstance(seed, int):
        raise ConfigError(f"seed is {seed!r}: a whole number was expected.")
    registered = dataclasses.is_dataclass(task) and not isinstance(task, type)
    task = configs.checked(task) if registered else task
    data = task if hasattr(task, "sample") else task.build(seed=seed)
    checkpoint = None if checkpoint is None else Path(checkpoint)
    check_looks(probes, probe_at, config.steps)
    looking = Looking(data=data, seed=seed, test_size=test_size, probes=probes, at=probe_at)
    execution = execution or choose_execution(model)
    with execution.in_force():
        model.to(execution.device)
        _check_outputs(model, data)
        flops = flops_per_example(model, data, learn)
        state = fit(
            model,
            data,
            learn=learn,
            config=config,
            seed=seed,
            precision=execution.precision,
            looking=looking,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            watch=watch,
        )
        rows = outcome(
            model,
            data,
            state,
            learn=learn,
            batch=config.batch,
            flops=flops,
            looking=looking,
        )
    return recorded(
        data,
        state,
        rows,
        execution,
        architecture=type(model).__name__,
        matching="steps",
        selection="not said",
        experiment={
            "task": configs.to_plain(task) if registered else {"name": type(data).__name__},
            "learn": configs.to_plain(learn) if dataclasses.is_dataclass(learn) else repr(learn),
            "train": configs.to_plain(config),
            "seed": seed,
        },
    )


def outcome(
    model: nn.Module,
    data: Any,
    state: Fit,
    *,
    learn: LearnRule,
    batch: int,
    flops: list[tuple[int, float]],
    looking: Looking,
) -> list[Row]:
    """All that is measured on a model whose training has ended: what it cost and, unless it diverged, its test.

    Args:
        model: as the training left it.
        state: how the training ended.
        batch: examples an update.
        flops: of one example, from `flops_per_example`.
        looking: the test set's seed and size, and the probes.
        data, learn: as in `train`.
    """
    counted, spent_flops = census(model, learn), spent(flops, state.step, batch)
    found = [
        Row(where="model", quantity="trainable_parameters", value=counted.learned, unit="parameter"),
        Row(where="model", quantity="total_parameters", value=counted.total, unit="parameter"),
        Row(where="model", quantity="fixed_values", value=counted.fixed, unit="value"),
        Row(where="train", quantity="tokens", value=state.tokens, unit="token", step=state.step),
        Row(where="train", quantity="flops", value=spent_flops, unit="FLOP", step=state.step),
    ]
    if not state.diverged:
        found += _tested(model, data, state, parameter_counts(model, learn), looking)
    return found + [Row(**row) for row in state.looks if row["step"] < state.step]


def recorded(data: Any, state: Fit, rows: list[Row], execution: Execution, **named: Any) -> RunRecord:
    """How a training ended, what was measured, and under which names, as one record; `digest` is empty if not named."""
    return RunRecord(
        **{"digest": ""} | named,
        status="diverged" if state.diverged else "done",
        detail=state.diverged,
        steps=state.step,
        stopped_early=state.stopped_early,
        headline=dataclasses.asdict(headline_of(data)),
        rows=rows,
        history=state.history,
        execution=execution.to_plain(),
        seconds=round(state.seconds, 2),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _tested(
    model: nn.Module,
    data: Any,
    state: Fit,
    counts: dict[str, float],
    looking: Looking,
) -> list[Row]:
    """Test, read once; the gain over the last tenth; the probes, on some of the test examples."""
    batch = evaluation_batch(data, "test", n=looking.test_size, seed=looking.seed)
    found = measure(model, data, batch, split="test", step=state.step, counts=counts)
    return found + _rise(state, headline_of(data).name) + looking.rows(model, state.step)


def _check_outputs(model: nn.Module, data: Any) -> None:
    """A module of the user's must give as many outputs as the task has."""
    few = data.sample(2, split="train", generator=generator_for(0, "check")).to(next(model.parameters()).device)
    with mode(model, training=False), torch.no_grad():
        given = predict(model, few).shape[-1]
    if given < data.shape.output_width:
        raise ConfigError(f"{type(model).__name__} gives {given} outputs, and this task has {data.shape.output_width}.")


def _rise(state: Fit, name: str) -> list[Row]:
    """Gain of the headline over the last tenth of the steps, as a share of what it ends with (on validation).

    A run that still rises by more than 2 % tells of its speed, not of what it could reach.
    """
    scored = {entry["step"]: entry["validation"][name] for entry in state.history if "validation" in entry}
    before, end = scored.get(state.step - max(1, state.step // 10)), scored.get(state.step)
    if before is None or not end:  # stopped early: no score stands at nine tenths
        return []
    gain = (end - before) / abs(end)
    return [Row(where="validation", quantity=f"{name}.gain_last_tenth", value=gain, step=state.step)]
