"""One run as one value. It is the first thing the data meets and among the last to be imported, since it is made of all
the others: the one inversion in the house."""

import contextlib
import dataclasses
import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import filelock
import torch
from torch import nn

from partwise import configs
from partwise.checkpoint import load_tensors, load_weights, save_tensors, weights
from partwise.errors import ConfigError, PartwiseError
from partwise.evaluation import evaluation_batch, headline_of, measure, mode
from partwise.execution import Execution, choose_execution
from partwise.flops import flops_per_example, spent
from partwise.model import ModelConfig, Transformer
from partwise.parts import LEARN_RULES, AllBut, Census, LearnRule, census, select
from partwise.probes import PROBES, Probe
from partwise.records import RunRecord, read_json, write_json, write_text
from partwise.rows import Row
from partwise.tasks import TASKS, Task
from partwise.training import Fit, Progress, TrainConfig, fit, parameter_counts

Watch = Callable[[Progress], None]


class Busy(PartwiseError):
    """Another process is at work on the same run."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A task, a model, what learns, how it is trained, what is looked at, and one seed.

    Args:
        task: what to do.
        model: the parts.
        learn: which of them learn, and when.
        train: steps, rate and so on.
        probes: measured on the trained model, on test examples.
        seed: sets all randomness.
        init_seed: of the weights that learn; None is `seed`.
        frozen_seed: of what never learns (buffers, frozen weights); None is `init_seed`, or `seed`.
        data_seed: of the task's tables and samples; None is `seed`.
        test_size: examples of an endless task's test set.
        architecture: what a table's column calls it.
        matching: in what the arms of its table are equal.
        selection: how its rates were chosen.
    """

    task: Annotated[Task, TASKS]
    model: ModelConfig = ModelConfig()
    learn: Annotated[LearnRule, LEARN_RULES] = AllBut()
    train: TrainConfig = TrainConfig()
    probes: tuple[Annotated[Probe, PROBES], ...] = ()
    seed: int = 0
    init_seed: int | None = None
    frozen_seed: int | None = None
    data_seed: int | None = None
    test_size: int = 4000
    architecture: str = field(default="custom", metadata=configs.OUTSIDE_DIGEST)
    matching: Literal["steps", "parameters", "flops"] = field(default="steps", metadata=configs.OUTSIDE_DIGEST)
    selection: str = field(default="fixed in advance", metadata=configs.OUTSIDE_DIGEST)

    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.test_size < 1:
            raise ConfigError(f"test_size is {self.test_size}: at least 1 was expected.")

    @property
    def digest(self) -> str:
        """16 hex digits that stand for everything that changes the numbers."""
        return configs.digest(self)

    def seed_of(self, what: Literal["init", "frozen", "data"]) -> int:
        """The seed of the weights, of what never learns, or of the data."""
        own = getattr(self, f"{what}_seed")
        if own is None and what == "frozen":
            own = self.init_seed
        return self.seed if own is None else own

    def build(self) -> tuple[Any, Transformer]:
        """The task's data and the model as it starts.

        Raises:
            ConfigError, UnknownAddress: the parts do not fit each other.
        """
        data = self.task.build(seed=self.seed_of("data"))
        model = Transformer(self.model, data.shape, seed=self.seed_of("init"))
        if self.seed_of("frozen") != self.seed_of("init"):
            other = weights(Transformer(self.model, data.shape, seed=self.seed_of("frozen")))
            learns = ever_learning(model, self.learn)
            with torch.no_grad():
                for name, tensor in weights(model).items():
                    if name not in learns:
                        tensor.copy_(other[name])
        return data, model

    def check(self) -> Census:
        """Build everything and throw it away: what can go wrong goes wrong here, before any run starts."""
        _, model = self.build()
        for step in (0, *self.learn.changes()):
            self.learn.learning(model, step)
        for part in self.train.parts:
            select(model, (part.pattern,))
        for step in self.learn.changes():
            if step >= self.train.steps:
                raise ConfigError(f"a stage begins at step {step}, and the run has {self.train.steps} steps.")
        return census(model, self.learn)


def ever_learning(model: nn.Module, learn: LearnRule) -> set[str]:
    """The parameters that learn at any stage."""
    return set().union(*(learn.learning(model, step) for step in (0, *learn.changes())))


def vary(base: Experiment, **axes: Any) -> list[Experiment]:
    """The base in every combination of the given values.

        vary(base, model__token_mixer=[RandomMixing(), Uniform()], seed=range(5))      # 10 runs

    Args:
        base: what all have in common.
        axes: a field, or a path with `__` for the dots, to the values it takes.
    """
    made = [base]
    for path, values in axes.items():
        made = [configs.replaced(one, path.replace("__", "."), value) for one in made for value in values]
    return made


def run(
    experiment: Experiment,
    out: Path | str | None = None,
    *,
    execution: Execution | None = None,
    fresh: bool = False,
    checkpoint_seconds: float = 10.0,
    watch: Watch | None = None,
) -> RunRecord:
    """Train, score and record one experiment; with `out`, go on where an earlier start was stopped.

    Args:
        experiment: what to run.
        out: folder that keeps the run; None keeps nothing.
        execution: how to run it; an earlier start's choice is reused. None: float32, one thread if small, CPU.
        fresh: forget an earlier run of the same experiment.
        checkpoint_seconds: between two checkpoints; what a kill can cost.
        watch: is told of the progress.

    Raises:
        Busy: another process runs the same experiment in `out`.
        PartwiseError: the experiment is impossible, or a file of it is damaged.
    """
    if out is None:
        data, model = experiment.build()
        execution = execution or choose_execution(model)
        return _run(experiment, data, model, execution, None, checkpoint_seconds, watch)
    place = run_folder(out, experiment)
    with locked(place):
        if fresh:
            for name in (
                "record.json",
                "failure.json",
                "checkpoint.safetensors",
                "model.safetensors",
                "execution.json",
            ):
                (place / name).unlink(missing_ok=True)
        if (place / "record.json").is_file():
            return RunRecord.from_file(place / "record.json")
        data, model = experiment.build()
        execution = settled_execution(place, execution or choose_execution(model))
        write_json(place / "experiment.json", configs.to_plain(experiment))
        return _run(experiment, data, model, execution, place, checkpoint_seconds, watch)


def run_folder(out: Path | str, experiment: Experiment) -> Path:
    """Where a run lives."""
    return Path(out) / "runs" / experiment.digest


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Hold the run's OS lock, which vanishes with its process."""
    place.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(place / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise Busy(f"another process is at work on {place}; wait for it, or choose another --out.") from None
    try:
        yield
    finally:
        lock.release()


def settled_execution(place: Path, wanted: Execution) -> Execution:
    """The first start's execution if there was one, else `wanted`, written down."""
    path = place / "execution.json"
    if path.is_file():
        known = read_json(path)
        return Execution(**{**known, "environment": known["environment"]})
    write_json(path, wanted.to_plain())
    return wanted


def _run(
    experiment: Experiment,
    data: Any,
    model: nn.Module,
    execution: Execution,
    place: Path | None,
    checkpoint_seconds: float,
    watch: Watch | None,
) -> RunRecord:
    with execution.in_force():
        record_ = train(
            model,
            data,
            learn=experiment.learn,
            config=experiment.train,
            seed=experiment.seed_of("data"),
            execution=execution,
            probes=experiment.probes,
            test_size=experiment.test_size,
            checkpoint=None if place is None else place / "checkpoint.safetensors",
            checkpoint_seconds=checkpoint_seconds,
            watch=watch,
        )
    record_ = dataclasses.replace(
        record_,
        digest=experiment.digest,
        architecture=experiment.architecture,
        matching=experiment.matching,
        selection=experiment.selection,
        experiment=configs.to_plain(experiment),
        rows=[dataclasses.replace(row, experiment=experiment.digest) for row in record_.rows],
    )
    if place is not None:
        save_tensors(place / "model.safetensors", weights(model), {"experiment": configs.to_plain(experiment)})
        write_text(place / "record.json", record_.to_json())  # last: its presence says that the run is whole
        (place / "checkpoint.safetensors").unlink(missing_ok=True)
        (place / "failure.json").unlink(missing_ok=True)
    return record_


def train(
    model: nn.Module,
    task: Any,
    *,
    learn: LearnRule = AllBut(),
    config: TrainConfig = TrainConfig(),
    seed: int = 0,
    probes: tuple[Any, ...] = (),
    test_size: int = 4000,
    execution: Execution | None = None,
    checkpoint: Path | None = None,
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
        test_size: examples of an endless task's test set.
        execution: how to run it.
        checkpoint: keeps the state while it trains; resumed from if it is there.
        checkpoint_seconds: between two writes of it.
        watch: is told of the progress.
    """
    data = task if hasattr(task, "sample") else task.build(seed=seed)
    described = {} if hasattr(task, "sample") else configs.to_plain(task)
    execution = execution or choose_execution(model)
    model.to(execution.device)
    counted = census(model, learn)
    flops = flops_per_example(model, data, learn)
    state = fit(
        model,
        data,
        learn=learn,
        config=config,
        seed=seed,
        precision=execution.precision,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        watch=watch,
    )
    rows = [
        Row(where="model", quantity="trainable_parameters", value=counted.learned, unit="parameter"),
        Row(where="model", quantity="total_parameters", value=counted.total, unit="parameter"),
        Row(where="model", quantity="fixed_values", value=counted.fixed, unit="value"),
        Row(where="train", quantity="tokens", value=state.tokens, unit="token", step=state.step),
        Row(
            where="train", quantity="flops", value=spent(flops, state.step, config.batch), unit="FLOP", step=state.step
        ),
    ]
    metric = headline_of(data)
    if not state.diverged:
        batch = evaluation_batch(data, "test", n=test_size, seed=seed)
        counts = parameter_counts(model, learn)
        rows += measure(model, data, batch, split="test", step=state.step, counts=counts)
        rows += _rise(state, metric.name)
        few = batch.rows(0, 256).to(execution.device)
        with mode(model, training=False):
            for probe in probes:
                rows += [dataclasses.replace(row, step=state.step) for row in probe.measure(model, few)]
    return RunRecord(
        digest="",
        architecture="custom",
        matching="steps",
        selection="fixed in advance",
        experiment={
            "task": described or {"name": type(data).__name__},
            "seed": seed,
            "train": configs.to_plain(config),
        },
        status="diverged" if state.diverged else "done",
        detail=state.diverged,
        steps=state.step,
        stopped_early=state.stopped_early,
        headline=dataclasses.asdict(metric),
        rows=rows,
        history=state.history,
        execution=execution.to_plain(),
        seconds=round(state.seconds, 2),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _rise(state: Fit, name: str) -> list[Row]:
    """Gain of the headline over the last tenth of the steps, as a share of what it ends with (on validation).

    A run that still rises by more than 2 % tells of its speed, not of what it could reach.
    """
    scored = [(entry["step"], entry["validation"][name]) for entry in state.history if "validation" in entry]
    before = [value for step, value in scored if step <= state.step - state.step // 10]
    if not before or not scored[-1][1]:
        return []
    gain = (scored[-1][1] - before[-1]) / abs(scored[-1][1])
    return [Row(where="validation", quantity=f"{name}.gain_last_tenth", value=gain, step=state.step)]


def load_run(folder: Path | str) -> tuple[Experiment, Transformer]:
    """The experiment and the trained model of a run's folder.

    Raises:
        DamagedFile: no finished run is there, or its file is damaged.
    """
    path = Path(folder) / "model.safetensors"
    tensors, note = load_tensors(path)
    experiment = configs.from_plain(Experiment, note["experiment"])
    _, model = experiment.build()
    load_weights(model, tensors, source=path)
    return experiment, model
