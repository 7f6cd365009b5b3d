"""Many experiments: one process a run, one thread each, every run kept under its digest, so a second start resumes.
Where it is asked for, runs that differ only in seed, rate, decay or what learns share a process as one population.

A crash of one run leaves the others and is reported. When the main process goes, however it goes, its runs go too:
each watches its parent. The server that runs are forked from has torch loaded and has run nothing, which makes a start
cheap and bit-equal to one from a fresh interpreter.
"""

import contextlib
import dataclasses
import datetime
import functools
import importlib
import itertools
import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from torch import nn

from partwise import configs
from partwise.calibration import faster, step_ms
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.checkpoint import load_tensors
from partwise.corpora import CORPORA
from partwise.course import Progress
from partwise.encoders import ENCODERS
from partwise.errors import ConfigError, PartwiseError
from partwise.execution import Execution, choose_execution, usable_cores
from partwise.experiment import Busy, Experiment, kept, run, run_folder
from partwise.joins import JOINS
from partwise.parts import LEARN_RULES
from partwise.plugins import load_plugins, loaded_files
from partwise.population import StepTimes, kind_of, step_times, train_population
from partwise.probes import PROBES
from partwise.records import RunRecord, read_json, write_text
from partwise.seeds import generator_for
from partwise.stack import Unstackable
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS
from partwise.updates import Precision

Kind = Literal["started", "progress", "finished", "kept", "busy"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How runs are carried out, as far as it was said; the rest is chosen run by run (execution.py)."""

    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    threads: int | None = None
    device: str | None = None
    fresh: bool = False
    plugins: tuple[str, ...] = ()
    stack: Literal["never", "auto", "always"] = "never"  # runs that can be one population; auto: where timing says so
    noted: dict[str, Any] = dataclasses.field(default_factory=dict)  # what was timed, for the runs' records


@dataclass(frozen=True)
class _Work:
    """What one process does: a run, or several as one population, and the timing that said so."""

    indices: tuple[int, ...]
    times: StepTimes | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something happened to one run.

    Args:
        kind: started; progress; finished (then `record` is there, whatever its status); kept (it was done before);
            busy (another process has it).
        index: the run's place in the list.
        progress: for kind progress.
        record: for finished and kept.
        message: for busy; for kept, what of `options` it does not follow.
    """

    kind: Kind
    index: int
    progress: Progress | None = None
    record: RunRecord | None = None
    message: str = ""


def run_all(
    experiments: Sequence[Experiment],
    out: Path | str,
    *,
    jobs: int | None = None,
    options: Options = Options(),
    watch: Callable[[Event], None] = lambda event: None,
) -> list[RunRecord]:
    """Run what is not done yet, `jobs` at a time, in the order given.

    Args:
        experiments: what to run; equal ones run once.
        out: folder that keeps them.
        jobs: processes at once; None is one for each core that this process may use.
        options: how.
        watch: is told of everything that happens.

    Returns:
        the records of all that finished, diverged or failed, in the order given; runs that another process has are
        left out.

    Raises:
        KeyboardInterrupt: after ending all runs; starting again goes on from their checkpoints.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs is {jobs}: at least 1 was expected.")
    records: dict[int, RunRecord] = {}
    pending: deque[int] = deque()
    place_of = {index: run_folder(out, experiment) for index, experiment in enumerate(experiments)}
    first_of: dict[Path, int] = {}
    for index, place in place_of.items():
        if place in first_of:
            continue
        first_of[place] = index
        if (place / "record.json").is_file() and not options.fresh:
            records[index] = kept(place, experiments[index])
            watch(Event(kind="kept", index=index, record=records[index], message=_otherwise(records[index], options)))
        else:
            pending.append(index)
            if (place / "checkpoint.safetensors").is_file() and not options.fresh:
                load_tensors(place / "checkpoint.safetensors")  # a damaged one is said before anything runs
    if pending:
        Path(out).mkdir(parents=True, exist_ok=True)
        jobs = min(jobs or usable_cores(), len(pending))
        if options.precision == "auto":
            times = _step_ms(experiments[pending[0]], place_of.values(), options)
            options = dataclasses.replace(options, precision=faster(times), noted={"step_ms": times})
        works = _shared_out(pending, experiments, place_of, jobs, options)
        _run_pending(works, experiments, Path(out), min(jobs, len(works)), options, watch, records)
    return [
        _labelled(records[first], experiments[index])
        for index, place in place_of.items()
        if (first := first_of[place]) in records
    ]


def _step_ms(experiment: Experiment, places: Iterable[Path], options: Options) -> dict[Precision, float]:
    """A step's time in each precision: once for all arms, before the machine is busy. An earlier start's is kept, so
    that one table has one precision."""
    for place in places:
        path = place / "execution.json"
        if path.is_file() and not options.fresh and (kept_ms := read_json(path)["environment"].get("step_ms")):
            return kept_ms
    data, model = experiment.build()
    execution = choose_execution(model, threads=options.threads, device=options.device)
    batch = data.sample(experiment.train.batch, split="train", generator=generator_for(0, "calibration"))
    return step_ms(
        model.to(execution.device), batch, learn=experiment.learn, config=experiment.train, execution=execution
    )


def _shared_out(
    pending: Sequence[int], experiments: Sequence[Experiment], place_of: dict[int, Path], jobs: int, options: Options
) -> deque[_Work]:
    """Who goes with whom: on a CPU all jobs have their part of the runs of one kind; on a GPU these are one population.

    A run that was begun on its own goes on from its checkpoint.
    """
    groups: dict[str, list[int]] = {}
    for index in pending:
        begun = (place_of[index] / "checkpoint.safetensors").is_file() and not options.fresh
        alone = options.stack == "never" or begun
        groups.setdefault(experiments[index].digest if alone else kind_of(experiments[index]), []).append(index)
    works: deque[_Work] = deque()
    for group in groups.values():
        n_parts = min(jobs, len(group)) if options.device in (None, "cpu") else 1
        bounds = [len(group) * part // n_parts for part in range(n_parts + 1)]
        parts = [tuple(group[start:stop]) for start, stop in itertools.pairwise(bounds)]
        times = None
        if options.stack == "auto" and len(parts[-1]) > 1:  # timed before the machine is busy
            stacked = [experiments[index] for index in parts[-1]]
            with contextlib.suppress(Unstackable):
                times = step_times(stacked, execution=_chooser(options, at_once=jobs))
            if times is None or not times.pays:
                parts = [(index,) for index in group]
        works += [_Work(part, times if len(part) > 1 else None) for part in parts]
    return works


def _chooser(options: Options, *, at_once: int, times: StepTimes | None = None) -> Callable[[nn.Module], Execution]:
    """Chooses what `options` leave open, run by run; `times` are noted."""

    def choose(model: nn.Module) -> Execution:
        assert options.precision != "auto"  # run_all has decided
        chosen = choose_execution(
            model,
            precision=options.precision,
            threads=options.threads,
            device=options.device,
            at_once=at_once,
        )
        noted = options.noted | ({} if times is None else {"stacking": dataclasses.asdict(times)})
        return dataclasses.replace(chosen, environment=chosen.environment | noted)

    return choose


def _labelled(record: RunRecord, experiment: Experiment) -> RunRecord:
    """The record under this experiment's labels: two arms of a table may be one and the same run."""
    return dataclasses.replace(record, **experiment.labels())


def _otherwise(record: RunRecord, options: "Options") -> str:
    """How a run that is kept was run, where that is not what is asked for now."""
    asked = {"threads": options.threads, "device": options.device}
    if options.precision != "auto":
        asked["precision"] = options.precision
    differs = [
        f"{name} {record.execution.get(name)}"
        for name, value in asked.items()
        if value is not None and record.execution and record.execution.get(name) != value
    ]
    return f"as it was run: {', '.join(differs)}; --fresh runs it anew" if differs else ""


def _run_pending(
    works: deque[_Work],
    experiments: Sequence[Experiment],
    out: Path,
    jobs: int,
    options: Options,
    watch: Callable[[Event], None],
    records: dict[int, RunRecord],
) -> None:
    context = _context()
    modules = tuple(sorted(_modules_of_parts() - {"__main__"}))
    with_main = "__main__" in _modules_of_parts()
    _check_startable(with_main)
    plugins = {*options.plugins, *map(str, loaded_files())}
    options = dataclasses.replace(options, plugins=tuple(sorted(plugins)))
    running: dict[Connection, tuple[_Work, Any]] = {}
    told: set[int] = set()  # runs that said how they ended

    def heard(index: int, kind: str, content: Any) -> None:
        if kind == "progress":
            watch(Event(kind="progress", index=index, progress=content))
            return
        told.add(index)
        if kind == "busy":
            watch(Event(kind="busy", index=index, message=content))
            return
        records[index] = content if kind == "finished" else _failed(experiments[index], out, *content)
        watch(Event(kind="finished", index=index, record=records[index]))

    try:
        while works or running:
            while works and len(running) < jobs:
                work = works.popleft()
                ours, theirs = context.Pipe(duplex=False)
                plain = [configs.to_plain(experiments[index]) for index in work.indices]
                arguments = (plain, work.times, str(out), options, modules, jobs, theirs)
                process = context.Process(target=_child, args=arguments, daemon=True)
                with _quiet_start(with_main), _large_pages():
                    process.start()
                theirs.close()
                running[ours] = (work, process)
                for index in work.indices:
                    watch(Event(kind="started", index=index))
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                work, process = running[ready]
                said = _heard(ready)
                if said is not None:
                    place, kind, content = said
                    heard(work.indices[place], kind, content)
                    continue
                process.join()
                ready.close()
                del running[ready]
                for index in work.indices:
                    if index not in told:
                        heard(index, "failed", (_how_it_ended(process.exitcode), ""))
    finally:
        for _, process in running.values():
            process.terminate()
        for ours, (_, process) in running.items():
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            ours.close()


def _context() -> Any:
    """Forkserver where there is one (Linux, macOS), else spawn."""
    if "forkserver" not in mp.get_all_start_methods():
        return mp.get_context("spawn")
    context = mp.get_context("forkserver")
    # Building the first optimizer imports torch._dynamo: a second a run, if it is not there already.
    context.set_forkserver_preload(["torch", "torch._dynamo", "partwise.sweep"])
    return context


def _modules_of_parts() -> set[str]:
    """Modules outside the package that register parts: `__main__`, or what a script imports."""
    registries = (TASKS, TOKEN_MIXERS, CHANNEL_MIXERS, JOINS, PROBES, LEARN_RULES, CORPORA, ENCODERS)
    found = {registry[name].__module__ for registry in registries for name in registry.names()}
    return {module for module in found if not module.startswith(("partwise.", "partwise_plugin_"))}


@contextlib.contextmanager
def _quiet_start(with_main: bool) -> Iterator[None]:
    """Start a process that neither hears Ctrl-C while it loads nor, without need, runs the user's script again.

    A process that is not a plain fork imports the main module first; a script whose last lines are not under
    `if __name__ == "__main__"` would start all over in each run. Only a script that registers parts is needed there.
    """
    main = sys.modules["__main__"]
    held: dict[str, Any] = {}
    if not with_main:
        held = {name: vars(main).pop(name) for name in ("__file__", "__spec__") if name in vars(main)}
        main.__spec__ = None
    deaf = hasattr(signal, "pthread_sigmask")
    if deaf:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        vars(main).update(held)
        if deaf:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def _large_pages() -> Iterator[None]:
    """Let glibc ask for large pages in a process that starts now: a small model's step spends a tenth of its time on
    fresh small ones (docs/lab, 2026-12-01). Other systems do not look; whoever has set something keeps it."""
    unset = "GLIBC_TUNABLES" not in os.environ
    if unset:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    try:
        yield
    finally:
        if unset:
            del os.environ["GLIBC_TUNABLES"]


def _check_startable(with_main: bool) -> None:
    """Say in one sentence what multiprocessing would say in a page.

    Raises:
        ConfigError: runs cannot reach the parts that the main module registers, or this is the main module being
            imported by such a run.
    """
    if getattr(mp.current_process(), "_inheriting", False):
        raise ConfigError("a script that registers parts needs its run_all under `if __name__ == '__main__':`.")
    if with_main and not Path(getattr(sys.modules["__main__"], "__file__", "")).is_file():
        raise ConfigError("runs are processes of their own: put the part into a file, and load it with load_plugins.")


def _child(
    plain: list[dict[str, Any]],
    times: StepTimes | None,
    out: str,
    options: Options,
    modules: tuple[str, ...],
    at_once: int,
    pipe: Connection,
) -> None:
    """One run, or one population, in its own process; tells the parent how it goes and how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()

    def tell(place: int, kind: str, content: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.send((place, kind, content))

    def tell_all(kind: str, content: Any) -> None:
        for place in range(len(plain)):
            tell(place, kind, content)

    try:
        load_plugins(options.plugins)
        for module in modules:
            importlib.import_module(module)
        experiments = [configs.from_plain(Experiment, one) for one in plain]
        how: dict[str, Any] = {"execution": _chooser(options, at_once=at_once, times=times), "fresh": options.fresh}
        if len(experiments) == 1:
            watch = functools.partial(tell, 0, "progress")
            tell(0, "finished", run(experiments[0], out, watch=watch, **how))
        else:
            watch_all = lambda place, progress: tell(place, "progress", progress)  # noqa: E731
            for place, record in enumerate(train_population(experiments, out, watch=watch_all, **how)):
                tell(place, "finished", record)
    except Busy as error:
        tell_all("busy", str(error))
    except Exception as error:
        message = str(error) if isinstance(error, PartwiseError) else f"{type(error).__name__}: {error}"
        tell_all("failed", (message, traceback.format_exc()))


def _end_with_parent() -> None:
    """Leave when the parent has gone, also by a kill that lets it tell nobody."""
    parent = mp.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _heard(pipe: Connection) -> tuple[int, str, Any] | None:
    """What a run says, behind its place in its process's work; None when the process has gone."""
    try:
        return pipe.recv()
    except (EOFError, OSError, pickle.UnpicklingError):  # gone, perhaps in the middle of a word
        return None


def _how_it_ended(code: int) -> str:
    """Words for a process that went without one of its own."""
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the process of this run ended by {how}{', perhaps for want of memory' if how == 'SIGKILL' else ''}"


def _failed(experiment: Experiment, out: Path, detail: str, trace: str) -> RunRecord:
    record = RunRecord(
        digest=experiment.digest,
        **experiment.labels(),
        experiment=configs.to_plain(experiment),
        status="failed",
        detail=detail,
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    place = run_folder(out, experiment)
    with contextlib.suppress(OSError):  # on a full disk the report on the screen must do
        write_text(place / "failure.json", record.to_json())
        write_text(place / "error.txt", trace or detail)
    return record
