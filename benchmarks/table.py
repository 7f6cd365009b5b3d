"""The rows of the table, in order, and the measuring of one in a process of its own."""

import concurrent.futures
import multiprocessing

from benchmarks import steps, whole
from benchmarks.pairs import Bench, Measured, Setting


def benches() -> list[Bench]:
    """All rows."""
    return [*steps.benches(), *whole.benches()]


def measured_apart(index: int, setting: Setting) -> Measured:
    """Row `index` in a fresh process: an allocator that a large model has grown serves small ones faster, and a user's
    training begins in a fresh process too."""
    fresh = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=fresh) as process:
        return process.submit(_measured, index, setting).result()


def _measured(index: int, setting: Setting) -> Measured:
    return benches()[index].measure(setting)
