"""Peak memory of a training step, in a process that has done nothing else."""

import multiprocessing as mp
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType

import torch

from benchmarks.text import RandomText
from benchmarks.work import Work

HAS_PROC = Path("/proc/self/clear_refs").exists()  # Linux; elsewhere no peak is given
STEPS = 3  # the first makes the moments, the second meets them


def peak_bytes(work: Work) -> int | None:
    """What a fresh process came to hold at most while it took three steps, less what it held before the model was made.

    Weights, gradients, moments, what is kept for the backward pass, and what the allocator left unused; not the
    libraries, which a step of a tiny model loads beforehand. None where the machine does not tell.
    """
    if not HAS_PROC:
        return None
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch._dynamo", "partwise.sweep", "benchmarks.memory"])
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        return pool.submit(_peak_of, work).result()


def _peak_of(work: Work) -> int:
    torch.set_num_threads(1)
    _take(Work(arm=work.arm, n_blocks=1, width=16, batch=2, task=RandomText(length=8, vocabulary=8)))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _kilobytes("/proc/self/status", "VmRSS")
    _take(work)
    return 1024 * (_kilobytes("/proc/self/status", "VmHWM") - before)


def _take(work: Work) -> None:
    step = work.step()
    for _ in range(STEPS):
        step()


def _kilobytes(path: str, field: str) -> int:
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


class Watched:
    """The most memory that all processes below this one held at once, pages that they share counted once.

    with Watched() as memory:
        ...
    memory.peak     # bytes; None where the machine does not tell
    """

    def __init__(self, every: float = 0.1):
        self.every, self.peak = every, 0 if HAS_PROC else None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Watched":
        if HAS_PROC:
            self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if HAS_PROC:
            self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(self.every):
            self.peak = max(self.peak or 0, sum(map(_share, _below("self"))))


def _below(process: str) -> Iterator[str]:
    """Ids of the processes that it started, and that these did."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # gone meanwhile
        return
    for child in " ".join(lists).split():
        yield child
        yield from _below(child)


def _share(process: str) -> int:
    try:
        return 1024 * _kilobytes(f"/proc/{process}/smaps_rollup", "Pss")
    except (OSError, StopIteration):  # gone meanwhile
        return 0
