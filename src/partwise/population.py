"""Many small runs trained as one: their models stacked, every step taken by all of them at once.

A model of this lab's usual size leaves a GPU idle, and spends a CPU's time on calling kernels. Runs that differ only in
seed, rate, decay or what learns are models of one shape; stack.py takes their steps together.
"""

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from partwise import configs
from partwise.batch import Batch
from partwise.course import Course, Fit, Progress
from partwise.errors import ConfigError
from partwise.execution import Execution
from partwise.experiment import (
    Experiment,
    chosen_execution,
    found_in,
    locked,
    remove,
    run_folder,
    signed,
    write_down,
)
from partwise.flops import flops_per_example
from partwise.looking import Looking
from partwise.model import Transformer
from partwise.parts import AllBut
from partwise.records import RunRecord, write_json
from partwise.seeds import generator_for
from partwise.stack import Stack, Trained
from partwise.train_config import TrainConfig
from partwise.trial import outcome, recorded
from partwise.updates import stepper

Chooser = Callable[[nn.Module], Execution]


def train_population(
    experiments: Sequence[Experiment],
    out: Path | str | None = None,
    *,
    execution: Execution | Chooser | None = None,
    fresh: bool = False,
    watch: Callable[[int, Progress], None] | None = None,
) -> list[RunRecord]:
    """Train, score and record experiments that differ only in seeds, rate, weight decay or learn rule, as one.

    Each model has batches, clipping, rate, decay, stages, divergence, validation and early stop of its own, as in
    `run`; its losses are those of `run` up to the rounding of float32. One that has ended leaves the stack.

    Args:
        experiments: what to train; equal ones are trained once.
        out: folder that keeps the runs, each in the place where `run` keeps it; None keeps nothing. A run that is
            finished there is kept and not trained again. There are no checkpoints: a population that was stopped
            begins again, and so does a run that was begun on its own.
        execution: how to run them, or what chooses that for a model of theirs; `stacked` is filled in.
        fresh: forget earlier runs of the same experiments.
        watch: is told of the progress, with the experiment's place in the list.

    Returns:
        a record for each experiment; `seconds` is its share of the population's.

    Raises:
        ConfigError: there is no experiment, or two differ in more than may be.
        Unstackable: their models cannot take a step together (stack.py says when).
        Busy: another process runs one of them in `out`.
    """
    experiments = [configs.checked(experiment) for experiment in experiments]
    check_stackable(experiments)
    first_of: dict[str, int] = {}
    for index, experiment in enumerate(experiments):
        first_of.setdefault(experiment.digest, index)
    places = {index: None if out is None else run_folder(out, experiments[index]) for index in first_of.values()}
    records: dict[int, RunRecord] = {}
    with contextlib.ExitStack() as stack:
        for index, place in places.items():
            if place is not None:
                stack.enter_context(locked(place))
                done = found_in(place, experiments[index], fresh=fresh)
                records |= {} if done is None else {index: done}
        members = [_member(index, experiments[index], watch) for index in places if index not in records]
        if members:
            chosen = chosen_execution(execution, members[0].model)
            records |= _run(members, dataclasses.replace(chosen, stacked=len(members)), places)
    every = ((experiment, records[first_of[experiment.digest]]) for experiment in experiments)
    return [dataclasses.replace(record, **experiment.labels()) for experiment, record in every]


def kind_of(experiment: Experiment) -> str:
    """A digest of all that runs trained as one must have in common."""
    return _common(experiment).digest


def check_stackable(experiments: Sequence[Experiment]) -> None:
    """Say in what experiments differ that cannot be trained as one.

    Raises:
        ConfigError: there is none, or one differs from the first in more than seeds, rate, decay and learn rule.
    """
    if not experiments:
        raise ConfigError("a population of no experiments: at least one was expected.")
    first = configs.to_plain(_common(experiments[0]))
    for experiment in experiments[1:]:
        for path, ours, theirs in _differences(first, configs.to_plain(_common(experiment))):
            raise ConfigError(
                f"experiments of a population may differ in seeds, train.lr, train.weight_decay and learn, and these "
                f"differ in {path}: {ours!r} and {theirs!r}."
            )


def _common(experiment: Experiment) -> Experiment:
    """The experiment with what may differ, and its labels, as by default."""
    usual = TrainConfig()
    train = dataclasses.replace(experiment.train, lr=usual.lr, weight_decay=usual.weight_decay)
    seeds: dict[str, Any] = {"seed": 0, "init_seed": None, "frozen_seed": None, "data_seed": None}
    labels: dict[str, Any] = {"architecture": "", "matching": "steps", "selection": ""}
    return dataclasses.replace(experiment, learn=AllBut(), train=train, **seeds, **labels)


def _differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two pieces of plain data differ: a dotted path and both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.get("name") == theirs.get("name"):
        for key in ours | theirs:
            yield from _differences(ours.get(key), theirs.get(key), f"{path}.{key}" if path else key)
    elif ours != theirs:
        yield path, ours, theirs


@dataclass(kw_only=True)
class _Member:
    """One run of a population."""

    index: int
    experiment: Experiment
    data: Any
    model: Transformer
    watch: Callable[[Progress], None] | None
    state: Fit = field(default_factory=Fit)

    @property
    def seed(self) -> int:
        """Of the data."""
        return self.experiment.seed_of("data")

    @property
    def trained(self) -> Trained:
        return Trained(model=self.model, learn=self.experiment.learn, config=self.experiment.train)

    def course(self) -> Course:
        one = self.experiment
        how: dict[str, Any] = {"learn": one.learn, "config": one.train, "seed": self.seed, "looking": self.looking}
        return Course(self.model, self.data, **how, watch=self.watch)

    @functools.cached_property
    def looking(self) -> Looking:
        one = self.experiment
        return Looking(data=self.data, seed=self.seed, test_size=one.test_size, probes=one.probes, at=one.probe_at)


def _member(index: int, experiment: Experiment, watch: Callable[[int, Progress], None] | None) -> _Member:
    data, model = experiment.build()
    own = None if watch is None else lambda progress: watch(index, progress)
    return _Member(index=index, experiment=experiment, data=data, model=model, watch=own)


def _run(members: list[_Member], execution: Execution, places: dict[int, Path | None]) -> dict[int, RunRecord]:
    """Train the members, then test and record each, by its place in the list."""
    for member in members:
        place = places[member.index]
        if place is not None:
            remove(place, "checkpoint.safetensors")
            write_json(place / "execution.json", execution.to_plain())
            write_down(place, member.experiment, member.data)
    records, flops = {}, {}
    with execution.in_force():
        _fit(members, execution)
        for member in members:
            one, data, model, state = member.experiment, member.data, member.model, member.state
            if one.learn not in flops:
                flops[one.learn] = flops_per_example(model, data, one.learn)
            rows = outcome(
                model,
                data,
                state,
                learn=one.learn,
                batch=one.train.batch,
                flops=flops[one.learn],
                looking=member.looking,
            )
            named = {**one.labels(), "experiment": configs.to_plain(one)}
            trained = recorded(data, state, rows, execution, **named)
            records[member.index] = signed(one, trained, model, places[member.index])
    return records


def _fit(members: list[_Member], execution: Execution) -> None:
    """Train the members' models in place, each as `training.fit` would."""
    for member in members:
        member.model.to(execution.device)
    config, courses = members[0].experiment.train, {member.index: member.course() for member in members}
    for member in members:
        courses[member.index].look(member.state)
    live, stack = list(members), Stack([member.trained for member in members], precision=execution.precision)
    for step in range(config.steps):
        started = time.perf_counter()
        batches = _batches(live, step)
        losses, norms = stack.update(step, batches)
        if courses[live[0].index].needs_model(step + 1):
            for row in range(len(live)):
                stack.hand_back(row)
        for member, batch, loss, norm in zip(live, batches, losses, norms, strict=True):
            courses[member.index].follow(member.state, batch, loss, norm)
        last = step + 1 == config.steps
        for row, member in enumerate(live):
            if last or member.state.ended:
                stack.hand_back(row)
                courses[member.index].finish(member.state, [stack.learned(row)])
        share = (time.perf_counter() - started) / len(live)
        for member in live:
            member.state.seconds += share
        rows = [row for row, member in enumerate(live) if not member.state.ended]
        if not rows:
            break
        if len(rows) < len(live):
            live = [live[row] for row in rows]
            stack.keep(rows)


def _batches(members: Sequence[_Member], step: int) -> list[Batch]:
    """Each member's batch of a step, drawn once for all that have one seed of the data."""
    drawn: dict[int, Batch] = {}
    for member in members:
        if member.seed not in drawn:
            generator = generator_for(member.seed, f"train/{step}")
            drawn[member.seed] = member.data.sample(member.experiment.train.batch, split="train", generator=generator)
    return [drawn[member.seed] for member in members]


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Milliseconds that a model's step takes, batch and all: on its own, and as its share of a stacked step."""

    alone_ms: float
    stacked_ms: float

    @property
    def pays(self) -> bool:
        """Whether stacking is the faster way."""
        return self.stacked_ms < self.alone_ms


def stacking_pays(
    experiments: Sequence[Experiment], *, execution: Execution | Chooser | None = None, seconds: float = 2.0
) -> bool:
    """Whether these runs take less time as one population than one after another, as timed on this machine."""
    return step_times(experiments, execution=execution, seconds=seconds).pays


def step_times(
    experiments: Sequence[Experiment], *, execution: Execution | Chooser | None = None, seconds: float = 2.0
) -> StepTimes:
    """Time steps of all experiments stacked and steps of each alone, in turn; the medians.

    Args:
        experiments: that could be a population.
        execution: how they would be run.
        seconds: to spend; three steps each way at least, after one to warm up.
    """
    check_stackable(experiments)
    members = [_member(index, experiment, None) for index, experiment in enumerate(experiments)]
    execution = chosen_execution(execution, members[0].model)
    alone: list[float] = []
    stacked: list[float] = []
    with execution.in_force():
        for member in members:
            member.model.to(execution.device)
        stack = Stack([member.trained for member in members], precision=execution.precision)
        singly = itertools.cycle([_alone(member, execution) for member in members])
        end = float("inf")
        for step in itertools.count():
            start = time.perf_counter()
            stack.update(step, _batches(members, step))
            middle = time.perf_counter()
            next(singly)(step)
            stop = time.perf_counter()
            if step == 0:
                end = stop + seconds
                continue
            stacked.append((middle - start) / len(members))
            alone.append(stop - middle)
            if step >= 3 and stop > end:
                break
    return StepTimes(alone_ms=round(1e3 * median(alone), 3), stacked_ms=round(1e3 * median(stacked), 3))


def _alone(member: _Member, execution: Execution) -> Callable[[int], Any]:
    """What takes a step as `training.fit` does."""
    one, device = member.experiment, torch.device(execution.device)
    step_on = stepper(member.model, learn=one.learn, config=one.train, device=device, precision=execution.precision)
    return lambda step: step_on(_batches([member], step)[0])
