"""What a GPU makes of the lab's steps: `python -m benchmarks.gpu`, under 8 minutes on one card.

Step times in bfloat16 and their share of the card's own rate, with and without torch.compile; a population of small
models against one; random mixing against flash attention. The table is printed, and kept as JSON with the card's name.
"""

import argparse
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.machine import machine
from benchmarks.rounds import ratio, rounds
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.execution import Execution
from partwise.experiment import Experiment, vary
from partwise.model import ModelConfig
from partwise.population import step_times
from partwise.seeds import generator_for
from partwise.shapes import MixerSize
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.train_config import TrainConfig

ENOUGH = 400  # seconds, after which no further row is begun
ARMS = ("standard", "mixit")
PLACE = Path(__file__).parent / "gpu.json"


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Sizes, and how often they are timed.

    Args:
        device: where.
        rounds: timings of each step.
        backend: of torch.compile.
        square: side of the matrices by which the device's own rate is measured.
        works: steps of training, by what they are called.
        population: models trained as one.
        width: of these.
        lengths: T at which mixers are compared.
        positions: in a batch of the mixers, over all sequences.
        mixer: their width and heads.
    """

    device: torch.device
    rounds: int = 20
    backend: str = "inductor"
    square: int = 8192
    works: tuple[tuple[str, Work], ...] = (
        ("needle m=30, 2 blocks, n=512, batch 64", Work(width=512, batch=64, task=Needle(n_pairs=30))),
        ("needle m=30, 2 blocks, n=512, batch 1024", Work(width=512, batch=1024, task=Needle(n_pairs=30))),
        (
            "language model, 12 blocks, n=512, T=256, vocabulary 8192, batch 64",
            Work(n_blocks=12, width=512, batch=64, task=RandomText(length=256, vocabulary=8192)),
        ),
    )
    population: int = 64
    width: int = 64
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    positions: int = 16384
    mixer: tuple[int, int] = (512, 8)


def smoke() -> Extent:
    """The same code on the CPU, at sizes of no interest."""
    text = RandomText(length=16, vocabulary=32)
    return Extent(
        device=torch.device("cpu"),
        rounds=2,
        backend="eager",
        square=64,
        works=(
            ("needle", Work(width=32, batch=4, task=Needle(n_pairs=3))),
            ("language model", Work(width=32, batch=2, task=text)),
        ),
        population=3,
        width=16,
        lengths=(16, 32),
        positions=64,
        mixer=(32, 2),
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, print and keep."""
    asked = _parser().parse_args(arguments)
    if not asked.smoke and not torch.cuda.is_available():
        raise SystemExit("no CUDA device is here: nothing was measured. --smoke runs the same code on the CPU, tiny.")
    extent = smoke() if asked.smoke else Extent(device=torch.device("cuda"))
    card = "CPU (smoke)" if asked.smoke else torch.cuda.get_device_name()
    found: dict[str, Any] = {
        "card": card,
        "machine": machine(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python -m benchmarks.gpu", *arguments]),
        "rate": _rate(extent),
        "rows": [],
    }
    print(f"{card}: {found['rate'] / 1e12:.3g} TFLOP/s in bfloat16 products of {extent.square} x {extent.square}")
    started = time.perf_counter()
    for measure in _measures(extent, found["rate"]):
        if time.perf_counter() - started > ENOUGH:
            found["rows"].append({"skipped": f"not begun within {ENOUGH} s"})
            break
        for row in measure():
            found["rows"].append(row)
            print("  ".join(f"{key} {_shown(value)}" for key, value in row.items()), flush=True)
        if asked.out or not asked.smoke:  # after each, so that a kill leaves what was measured
            (asked.out or PLACE).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU: whether the script runs")
    parser.add_argument("--out", type=Path, help="where it is kept (benchmarks/gpu.json; nowhere with --smoke)")
    return parser


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _measures(extent: Extent, rate: float) -> Iterator[Callable[[], Iterator[dict[str, Any]]]]:
    """What is measured, cheapest first: what compiles comes last."""
    yield lambda: _mixers(extent)
    yield lambda: _population(extent)
    for compiled in (False, True):
        for name, work in extent.works:
            for arm in ARMS:
                yield lambda name=name, work=replace(work, arm=arm), compiled=compiled: _step(
                    extent, name, work, rate, compiled
                )


def _settled(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def _rate(extent: Extent) -> float:
    """FLOP/s of large products in bfloat16: what the shares are shares of."""
    a, b = (torch.randn(extent.square, extent.square, device=extent.device, dtype=torch.bfloat16) for _ in "ab")

    def multiply() -> None:
        a @ b
        _settled(extent.device)

    return 2 * extent.square**3 / median(rounds({"product": multiply}, extent.rounds)["product"])


def _step(extent: Extent, name: str, work: Work, rate: float, compiled: bool) -> Iterator[dict[str, Any]]:
    """A training step in bfloat16, as `fit` takes it."""
    row = {"name": name, "arm": work.arm, "compiled": compiled}
    model = work.model()
    if compiled:
        torch._dynamo.reset()
        model.compile(backend=extent.backend)
    if extent.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    step = work.step(model, device=extent.device, precision="bfloat16")
    start = time.perf_counter()
    try:
        step()
    except Exception as error:  # compilers fail in their own ways; the other rows should still be measured
        if not compiled:
            raise
        yield row | {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        return
    first = time.perf_counter() - start
    seconds = median(rounds({"step": step}, extent.rounds)["step"])
    yield row | {
        "first_s": first,
        "step_ms": 1e3 * seconds,
        "share": work.flops / seconds / rate,
        "peak_bytes": torch.cuda.max_memory_allocated() if extent.device.type == "cuda" else None,
    }


def _population(extent: Extent) -> Iterator[dict[str, Any]]:
    """Models trained as one against each on its own."""
    row = {"name": f"population of {extent.population}, needle m=8, 2 blocks, n={extent.width}, batch 128"}
    base = Experiment(task=Needle(n_pairs=8), model=ModelConfig(width=extent.width), train=TrainConfig())
    experiments = vary(base, seed=range(extent.population))
    times = step_times(experiments, execution=Execution(device=str(extent.device)), seconds=extent.rounds)
    yield row | {
        "alone_ms": times.alone_ms,
        "stacked_ms_a_model": times.stacked_ms,
        "ratio": times.alone_ms / times.stacked_ms,
    }


def _mixers(extent: Extent) -> Iterator[dict[str, Any]]:
    """Forward and backward in bfloat16: the mixing alone, and the whole mixers with their maps."""
    (width, heads), device = extent.mixer, extent.device
    for length in extent.lengths:
        n = max(1, extent.positions // length)
        shape = (n, heads, length, width // heads)
        q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in "qkv")
        mix_HLL = torch.randn(heads, length, length, device=device, dtype=torch.bfloat16).tril()
        x_BLD = torch.randn(n, length, width, device=device, requires_grad=True)
        size = MixerSize(width=width, length=length, causal=True, layer=0, n_layers=1)
        attention = Attention(n_heads=heads).build(size, generator=generator_for(0, "attention")).to(device)
        random = RandomMixing(n_heads=heads).build(size, generator=generator_for(0, "random")).to(device)
        sides: dict[str, Callable[[], torch.Tensor]] = {
            "flash": lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            "matrix": lambda mix_HLL=mix_HLL, v=v: mix_HLL @ v,
            "attention": lambda mixer=attention, x_BLD=x_BLD: mixer(x_BLD, None),
            "random_mixing": lambda mixer=random, x_BLD=x_BLD: mixer(x_BLD, None),
        }
        backward = {name: _there_and_back(side, device) for name, side in sides.items()}
        spent = rounds(backward, extent.rounds)
        yield {
            "name": f"mixers, n={width}, {heads} heads, T={length}, {n} sequences",
            **{f"{name}_ms": 1e3 * median(times) for name, times in spent.items()},
            "flash_over_matrix": ratio(spent["flash"], spent["matrix"])[0],
            "attention_over_random_mixing": ratio(spent["attention"], spent["random_mixing"])[0],
        }


def _there_and_back(side: Callable[[], torch.Tensor], device: torch.device) -> Callable[[], None]:
    def call() -> None:
        with (
            torch.autocast(device.type, dtype=torch.bfloat16),
            sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]),
        ):
            out = side()
        out.sum().backward()
        _settled(device)

    return call


if __name__ == "__main__":
    main(sys.argv[1:])
