"""One run as one value. It is the first thing the data meets and among the last to be imported, since it is made of all
the others: the one inversion in the house."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import filelock
import torch
from torch import nn

from partwise import configs
from partwise.architectures import label_of
from partwise.checkpoint import load_tensors, load_weights, save_tensors, weights
from partwise.errors import ConfigError, DamagedFile, PartwiseError
from partwise.execution import Execution, choose_execution, continued
from partwise.looking import check_looks
from partwise.model import ModelConfig, Transformer
from partwise.parts import LEARN_RULES, AllBut, Census, LearnRule, census, ever_learning, select
from partwise.probes import PROBES, Probe
from partwise.records import PARTIAL, RunRecord, read_json, write_json, write_text
from partwise.seeds import generator_for
from partwise.shapes import TaskShape
from partwise.tasks import TASKS, Task
from partwise.train_config import TrainConfig
from partwise.trial import Watch, train


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
        probe_at: numbers of updates after which they are measured as well; 0 is the model as it was drawn.
        seed: sets all randomness.
        init_seed: of the weights that learn; None is `seed`.
        frozen_seed: of what never learns (buffers, frozen weights); None is `init_seed`, or `seed`.
        data_seed: of the task's tables and samples; None is `seed`.
        test_size: examples of an endless task's test set.
        architecture: what a table's column calls it; empty: the architecture that its parts and rule amount to.
        matching: in what the arms of its table are equal.
        selection: how its rates were chosen.
    """

    task: Annotated[Task, TASKS]
    model: ModelConfig = ModelConfig()
    learn: Annotated[LearnRule, LEARN_RULES] = AllBut()
    train: TrainConfig = TrainConfig()
    probes: tuple[Annotated[Probe, PROBES], ...] = ()
    probe_at: tuple[int, ...] = ()
    seed: int = 0
    init_seed: int | None = None
    frozen_seed: int | None = None
    data_seed: int | None = None
    test_size: int = 4000
    architecture: str = field(default="", metadata=configs.OUTSIDE_DIGEST)
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

    @property
    def kind(self) -> str:
        """The digest of all but the seed: what can be checked or counted once for runs that differ in nothing else."""
        return dataclasses.replace(self, seed=0).digest

    @property
    def arm(self) -> str:
        """What a table's column calls it."""
        return self.architecture or label_of(self.model, self.learn)

    def labels(self) -> dict[str, Any]:
        """What names the run in a table and is outside the digest."""
        return {"architecture": self.arm, "matching": self.matching, "selection": self.selection}

    def seed_of(self, what: Literal["init", "frozen", "data"]) -> int:
        """The seed of the weights, of what never learns, or of the data."""
        own = getattr(self, f"{what}_seed")
        if own is None and what == "frozen":
            own = self.init_seed
        return self.seed if own is None else own

    def build(self) -> tuple[Any, Transformer]:
        """The task's data and the model as it starts.

        Raises:
            ConfigError, UnknownAddress: a field has a wrong type, or the parts do not fit each other.
        """
        configs.checked(self)
        for step in self.learn.changes():
            if step >= self.train.steps:
                raise ConfigError(f"a stage begins at step {step}, and the run has {self.train.steps} steps.")
        check_looks(self.probes, self.probe_at, self.train.steps)
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
        """Build everything, draw a little, and throw it away: what can go wrong goes wrong before any run starts."""
        data, model = self.build()
        for split in ("train", "validation", "test"):
            data.sample(2, split=split, generator=generator_for(0, "check"))
        for step in (0, *self.learn.changes()):
            self.learn.learning(model, step)
        for part in self.train.parts:
            select(model, (part.pattern,))
        return census(model, self.learn)


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
    execution: Execution | Callable[[nn.Module], Execution] | None = None,
    fresh: bool = False,
    checkpoint_seconds: float = 10.0,
    watch: Watch | None = None,
) -> RunRecord:
    """Train, score and record one experiment; with `out`, go on where an earlier start was stopped.

    Args:
        experiment: what to run.
        out: folder that keeps the run; None keeps nothing.
        execution: how to run it, or what chooses that for the model; an earlier start's choice is reused. None:
            float32, one thread if small, CPU.
        fresh: forget an earlier run of the same experiment.
        checkpoint_seconds: between two checkpoints; what a kill can cost.
        watch: is told of the progress.

    Raises:
        Busy: another process runs the same experiment in `out`.
        PartwiseError: the experiment is impossible, or a file of it is damaged.
    """
    experiment = configs.checked(experiment)
    if out is None:
        data, model = experiment.build()
        execution = chosen_execution(execution, model)
        return _run(experiment, data, model, execution, None, checkpoint_seconds, watch)
    place = run_folder(out, experiment)
    with locked(place):
        done = found_in(place, experiment, fresh=fresh)
        if done is not None:
            return done
        data, model = experiment.build()
        execution = settled_execution(place, chosen_execution(execution, model))
        write_down(place, experiment, data)
        return _run(experiment, data, model, execution, place, checkpoint_seconds, watch)


def found_in(place: Path, experiment: Experiment, *, fresh: bool) -> RunRecord | None:
    """The record of an earlier run in a folder that is held; None if none is finished. `fresh` forgets it."""
    remove(place, f"{PARTIAL}*")  # of a write that was killed
    if fresh:
        remove(place, "*.json", "*.safetensors", "error.txt")
    return kept(place, experiment) if (place / "record.json").is_file() else None


def kept(place: Path, experiment: Experiment) -> RunRecord:
    """The record of a run that is done, under the labels that it is asked for by now (they are outside the digest)."""
    remove(place, f"{PARTIAL}*", "checkpoint.safetensors", "failure.json", "error.txt")
    record = RunRecord.from_file(place / "record.json")
    labels = experiment.labels()
    if all(getattr(record, name) == label for name, label in labels.items()):
        return record
    record = dataclasses.replace(record, **labels, experiment=record.experiment | labels)
    write_text(place / "record.json", record.to_json())
    return record


def remove(place: Path, *patterns: str) -> None:
    """Delete the folder's files that match."""
    for pattern in patterns:
        for path in place.glob(pattern):
            path.unlink(missing_ok=True)


def write_down(place: Path, experiment: Experiment, data: Any) -> None:
    """What was asked for, and what the task learned from its data, so that the folder is enough to use the model."""
    write_json(place / "experiment.json", configs.to_plain(experiment))
    if hasattr(data, "keep"):
        data.keep(place)


def chosen_execution(execution: Execution | Callable[[nn.Module], Execution] | None, model: nn.Module) -> Execution:
    """The execution itself, or what is chosen for the model."""
    if execution is None:
        return choose_execution(model)
    return execution if isinstance(execution, Execution) else execution(model)


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
    """`wanted`, written down; after an earlier start, its precision, threads and device.

    Where versions, machine or plug-ins are not those of the earlier start any more, the record keeps both, under
    `environment.before`: bit-equality is promised for an equal execution only.

    Raises:
        DamagedFile: the earlier start's file cannot be read.
    """
    path = place / "execution.json"
    settled = wanted
    if path.is_file():
        try:
            plain = read_json(path)
            known = Execution(**{name: ({"stacked": 1} | plain)[name] for name in Execution.__dataclass_fields__})
        except (TypeError, KeyError, ConfigError) as error:
            raise DamagedFile(
                f"{path} is no execution of a run ({error}); remove the run's folder and start again."
            ) from None
        environment = continued(known.environment, wanted.environment)
        settled = dataclasses.replace(known, stacked=wanted.stacked, environment=environment)
    write_json(path, settled.to_plain())
    return settled


def _run(
    experiment: Experiment,
    data: Any,
    model: Transformer,
    execution: Execution,
    place: Path | None,
    checkpoint_seconds: float,
    watch: Watch | None,
) -> RunRecord:
    trained = train(
        model,
        data,
        learn=experiment.learn,
        config=experiment.train,
        seed=experiment.seed_of("data"),
        execution=execution,
        probes=experiment.probes,
        probe_at=experiment.probe_at,
        test_size=experiment.test_size,
        checkpoint=None if place is None else place / "checkpoint.safetensors",
        checkpoint_seconds=checkpoint_seconds,
        watch=watch,
    )
    return signed(experiment, trained, model, place)


def signed(experiment: Experiment, trained: RunRecord, model: Transformer, place: Path | None) -> RunRecord:
    """The record of a training as that of this experiment; with `place`, it and the model are written down."""
    record = dataclasses.replace(
        trained,
        digest=experiment.digest,
        **experiment.labels(),
        experiment=configs.to_plain(experiment),
        rows=[dataclasses.replace(row, experiment=experiment.digest) for row in trained.rows],
    )
    if place is not None:
        save_tensors(place / "model.safetensors", weights(model), weights_note(experiment, model.shape))
        write_text(place / "record.json", record.to_json())  # last: its presence says that the run is whole
        remove(place, "checkpoint.safetensors", "failure.json", "error.txt")
    return record


def weights_note(experiment: Experiment, shape: TaskShape) -> dict[str, Any]:
    """What stands beside the weights of a run, so that they can be loaded without the task's data."""
    return {"experiment": configs.to_plain(experiment), "shape": dataclasses.asdict(shape)}


def load_run(folder: Path | str) -> tuple[Experiment, Transformer]:
    """The experiment and the trained model of a run's folder; the task's data need not be there.

    Raises:
        DamagedFile: no finished run is there, or its file is damaged.
    """
    path = Path(folder) / "model.safetensors"
    tensors, note = load_tensors(path)
    experiment = configs.from_plain(Experiment, note["experiment"])
    if "shape" in note:
        shape = TaskShape(**note["shape"])
    else:  # written by an older version
        shape = experiment.task.build(seed=experiment.seed_of("data")).shape
    model = Transformer(experiment.model, shape, seed=experiment.seed_of("init"))
    load_weights(model, tensors, source=path)
    return experiment, model
