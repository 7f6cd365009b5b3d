"""Many experiments: one process a run, one thread each, every run kept under its digest, so a second start resumes.

A crash of one run leaves the others and is reported. When the main process goes, however it goes, its runs go too:
each watches its parent. The server that runs are forked from has torch loaded and has run nothing, which makes a start
cheap and bit-equal to one from a fresh interpreter.
"""

import contextlib
import dataclasses
import datetime
import functools
import importlib
import multiprocessing as mp
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from partwise import configs
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.checkpoint import load_tensors
from partwise.errors import ConfigError, PartwiseError
from partwise.execution import choose_execution, usable_cores
from partwise.experiment import Busy, Experiment, kept, run, run_folder
from partwise.joins import JOINS
from partwise.parts import LEARN_RULES
from partwise.plugins import load_plugins, loaded_files
from partwise.probes import PROBES
from partwise.records import RunRecord, write_text
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS
from partwise.training import Progress

Kind = Literal["started", "progress", "finished", "kept", "busy"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How runs are carried out, as far as it was said; the rest is chosen run by run (execution.py)."""

    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    threads: int | None = None
    device: str | None = None
    fresh: bool = False
    plugins: tuple[str, ...] = ()


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
        if options.precision == "auto":  # once, before the machine is busy, and the same for all arms
            _, model = experiments[pending[0]].build()
            chosen = choose_execution(model, precision="auto", threads=options.threads, device=options.device)
            options = dataclasses.replace(options, precision=chosen.precision)
        _run_pending(pending, experiments, Path(out), jobs, options, watch, records)
    return [
        _labelled(records[first], experiments[index])
        for index, place in place_of.items()
        if (first := first_of[place]) in records
    ]


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
    pending: deque[int],
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
    running: dict[Connection, tuple[int, Any]] = {}
    told: set[int] = set()  # runs that said how they ended
    try:
        while pending or running:
            while pending and len(running) < jobs:
                index = pending.popleft()
                ours, theirs = context.Pipe(duplex=False)
                arguments = (configs.to_plain(experiments[index]), str(out), options, modules, jobs, theirs)
                process = context.Process(target=_child, args=arguments, daemon=True)
                with _quiet_start(with_main):
                    process.start()
                theirs.close()
                running[ours] = (index, process)
                watch(Event(kind="started", index=index))
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                index, process = running[ready]
                kind, content = _heard(ready)
                if kind == "progress":
                    watch(Event(kind="progress", index=index, progress=content))
                    continue
                if kind == "ended":
                    process.join()
                    ready.close()
                    del running[ready]
                    if index in told:
                        continue
                    kind, content = "failed", (_how_it_ended(process.exitcode), "")
                told.add(index)
                if kind == "busy":
                    watch(Event(kind="busy", index=index, message=content))
                    continue
                records[index] = content if kind == "finished" else _failed(experiments[index], out, *content)
                watch(Event(kind="finished", index=index, record=records[index]))
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
    registries = (TASKS, TOKEN_MIXERS, CHANNEL_MIXERS, JOINS, PROBES, LEARN_RULES)
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
    plain: dict[str, Any], out: str, options: Options, modules: tuple[str, ...], at_once: int, pipe: Connection
) -> None:
    """One run in its own process; tells the parent how it goes and how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()

    def tell(kind: str, content: Any) -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.send((kind, content))

    try:
        load_plugins(options.plugins)
        for module in modules:
            importlib.import_module(module)
        experiment = configs.from_plain(Experiment, plain)
        execution = functools.partial(
            choose_execution,
            precision=options.precision,
            threads=options.threads,
            device=options.device,
            at_once=at_once,
        )
        record = run(
            experiment, out, execution=execution, fresh=options.fresh, watch=lambda progress: tell("progress", progress)
        )
        tell("finished", record)
    except Busy as error:
        tell("busy", str(error))
    except Exception as error:
        message = str(error) if isinstance(error, PartwiseError) else f"{type(error).__name__}: {error}"
        tell("failed", (message, traceback.format_exc()))


def _end_with_parent() -> None:
    """Leave when the parent has gone, also by a kill that lets it tell nobody."""
    parent = mp.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _heard(pipe: Connection) -> tuple[str, Any]:
    """What a run says; "ended" when its process has gone."""
    try:
        return pipe.recv()
    except (EOFError, OSError, pickle.UnpicklingError):  # gone, perhaps in the middle of a word
        return "ended", None


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
