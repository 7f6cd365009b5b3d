"""How the time and the memory of a training step grow with the work, what share of the machine's own rate of matrix
products that is, and where the rest goes."""

import math
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.stats import linregress
from torch.profiler import ProfilerActivity, profile

from benchmarks.analytic import counted_flops
from benchmarks.memory import Watched, peak_bytes
from benchmarks.rounds import ratio, rounds
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.experiment import Experiment, vary
from partwise.model import ModelConfig
from partwise.sweep import Options, run_all
from partwise.tasks.needle import Needle
from partwise.train_config import TrainConfig

ARMS = ("standard", "mixit")
BASE = Work()
PROFILED = 3  # steps
PRODUCTS = 0.02  # seconds, about, that one timing of a matrix product should take
LARGE = Work(n_blocks=4, width=256, batch=4, task=RandomText(length=256, vocabulary=8192))
SMALL = Work(width=64, batch=128, task=Needle(n_pairs=8))


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is measured.

    Args:
        rounds: timings of each step.
        keep: values of each axis, from the least on; None is all.
        steps: of each run where runs are counted.
        profiled: steps that are profiled, by what they are called.
    """

    rounds: int = 5
    keep: int | None = None
    steps: int = 200
    profiled: tuple[tuple[str, Work], ...] = (
        ("language model, 4 blocks, n=256, T=256, batch 4", LARGE),
        ("needle m=8, 2 blocks, n=64, batch 128", SMALL),
    )


QUICK = Extent(rounds=2, keep=3, steps=40, profiled=(("needle m=8, 2 blocks, n=64, batch 128", SMALL),))

AXES: dict[str, tuple[int, ...]] = {
    "length": (32, 64, 128, 256, 512, 1024),
    "batch": (1, 2, 4, 8, 16, 32),
    "width": (32, 64, 128, 256, 512),
    "depth": (1, 2, 4, 8, 16),
    "runs": (1, 2, 4, 8),
}


def measure(extent: Extent) -> dict[str, Any]:
    """Everything, as it stands in scaling.json."""
    axes = {axis: values[: extent.keep] for axis, values in AXES.items()}
    points = [point for axis in ("length", "batch", "width", "depth") for point in _along(axis, axes[axis], extent)]
    points += _runs(axes["runs"], extent)
    return {
        "base": _in_words(BASE),
        "rounds": extent.rounds,
        "points": points,
        "slopes": _slopes(points),
        "flops": list(_checked_flops()),
        "profiles": [_profiled(name, replace(work, arm=arm)) for name, work in extent.profiled for arm in ARMS],
    }


def at(axis: str, value: int, arm: str) -> Work:
    """The base with one of its sizes changed."""
    if axis == "length":
        return replace(BASE, arm=arm, task=replace(BASE.task, length=value))
    return replace(BASE, arm=arm, **{"n_blocks" if axis == "depth" else axis: value})


def _in_words(work: Work) -> dict[str, Any]:
    task = {"length": work.task.length, "vocabulary": work.task.vocabulary}
    return {"batch": work.batch, "width": work.width, "depth": work.n_blocks, **task}


def _along(axis: str, values: tuple[int, ...], extent: Extent) -> Iterator[dict[str, Any]]:
    """Time and memory at each value; steps and the products they are compared with are all timed in turn."""
    sides: dict[tuple[str, int], Callable[[], object]] = {}
    shapes, repeats = {}, {}
    for value in values:
        work = at(axis, value, "standard")
        rows, width = work.batch * work.task.length, work.width
        shapes[value], repeats[value] = (rows, width, 4 * width), _repeats(rows, width)
        for dtype in (torch.float32, torch.bfloat16):
            sides[str(dtype), value] = _product(shapes[value], repeats[value], dtype)
        for arm in ARMS:
            sides[arm, value] = at(axis, value, arm).step()
    spent = rounds(sides, extent.rounds)
    for value in values:
        product = 2.0 * math.prod(shapes[value]) * repeats[value]
        rate = {dtype: product / median(spent[f"torch.{dtype}", value]) for dtype in ("float32", "bfloat16")}
        for arm in ARMS:
            work, seconds = at(axis, value, arm), median(spent[arm, value])
            yield {
                "axis": axis,
                "value": value,
                "arm": arm,
                "seconds": seconds,
                "peak_bytes": peak_bytes(work),
                "flops": work.flops,
                "product": shapes[value],
                "float32_rate": rate["float32"],
                "bfloat16_rate": rate["bfloat16"],
                "share": work.flops / product * ratio(spent["torch.float32", value], spent[arm, value])[0],
            }


def _repeats(rows: int, width: int) -> int:
    """Products in one timing, so that it is long beside the clock's grain; a guess at 50 GFLOP/s is near enough."""
    return max(1, round(PRODUCTS * 50e9 / (8 * rows * width**2)))


def _product(shape: tuple[int, int, int], repeats: int, dtype: torch.dtype) -> Callable[[], object]:
    """The largest product of a block's forward pass: (rows, D) times (D, 4 D)."""
    rows, width, hidden = shape
    x, weight = torch.randn(rows, width).to(dtype), torch.randn(hidden, width).to(dtype)

    def multiply() -> None:
        for _ in range(repeats):
            x @ weight.T

    return multiply


def _runs(counts: tuple[int, ...], extent: Extent) -> Iterator[dict[str, Any]]:
    """So many runs of needle with 8 pairs at width 64, from the first start to the last record."""
    train = TrainConfig(steps=extent.steps)
    base = Experiment(task=Needle(n_pairs=8), model=ModelConfig(n_blocks=2, width=64), train=train, test_size=1000)
    for count in counts:
        with tempfile.TemporaryDirectory() as out, Watched() as memory:
            start = time.perf_counter()
            records = run_all(vary(base, seed=range(count)), out, options=Options(threads=1))
            seconds = time.perf_counter() - start
        assert all(record.status == "done" for record in records)
        yield {"axis": "runs", "value": count, "arm": "standard", "seconds": seconds, "peak_bytes": memory.peak}


def _slopes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of log quantity against log size, for each axis and arm."""
    found = []
    for axis, arm in dict.fromkeys((point["axis"], point["arm"]) for point in points):
        line = [point for point in points if (point["axis"], point["arm"]) == (axis, arm)]
        for quantity in ("seconds", "peak_bytes"):
            if all(point[quantity] for point in line):
                slope = log_slope([point["value"] for point in line], [point[quantity] for point in line])
                found.append({"axis": axis, "arm": arm, "quantity": quantity} | slope)
    return found


def log_slope(sizes: list[float], quantities: list[float]) -> dict[str, float]:
    """The exponent b of quantity = a size^b, by least squares on the logarithms, and that of the last step alone."""
    x, y = np.log(sizes), np.log(quantities)
    line = linregress(x, y)
    last = (y[-1] - y[-2]) / (x[-1] - x[-2])
    return {"slope": float(line.slope), "standard_error": float(line.stderr), "last": float(last)}


def _checked_flops() -> Iterator[dict[str, Any]]:
    """The formula beside torch's counter."""
    for arm in ("standard", "frozen_qk", "frozen_mlp", "mixit"):
        work = replace(BASE, arm=arm)
        yield {"arm": arm, "formula": work.flops, "counted": counted_flops(work.model(), work.learn, work.draw())}


# Where an operator of torch belongs: to the first group whose pattern is found in its name.
GROUPS = {
    "loss and embedding": r"log_softmax|nll_loss|cross_entropy|embedding|aten::index",
    "optimizer and clipping": r"adamw|AdamW|vector_norm|foreach",
    "mixing of positions": r"aten::_?(bmm|baddbmm|scaled_dot_product|softmax)",
    "matrix products": r"aten::(mm|addmm)$|mkldnn",
    "copies and sums": r"aten::(copy_|cat|clone|sum|cumsum|fill_|zero_|gather|scatter|roll|add_|sort|argsort)",
    "element by element": r"aten::_?(mul|div|add|sub|rsub|silu|sigmoid|gelu|relu|pow|rsqrt|sqrt|exp|sin|cos|neg|mean"
    r"|where|eq|ne|lt|le|ge|remainder|arange|masked|fused_rms_norm|tril)",
}
REST = "dispatch and autograd's own"


def group_of(operator: str) -> str:
    """The group of an operator of torch; views and what runs it are the rest."""
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, operator)), REST)


def _profiled(name: str, work: Work) -> dict[str, Any]:
    """Shares of the CPU time of a few steps, by group, and the operators that take most."""
    step = work.step()
    step()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(PROFILED):
            step()
    spent = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    whole = sum(spent.values())
    groups: dict[str, float] = {}
    for operator, microseconds in spent.items():
        group = group_of(operator)
        groups[group] = groups.get(group, 0.0) + microseconds / whole
    top = sorted(spent, key=spent.__getitem__, reverse=True)[:10]
    return {
        "name": name,
        "arm": work.arm,
        "milliseconds": whole / 1000 / PROFILED,
        "groups": dict(sorted(groups.items(), key=lambda item: -item[1])),
        "top": [{"operator": operator, "share": spent[operator] / whole} for operator in top],
    }
