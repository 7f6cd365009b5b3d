"""`make bench-scaling`: how cost grows and what each arm costs, as JSON here and as a page with figures in docs."""

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler tells its own story otherwise

import torch

from benchmarks import arms, scaling
from benchmarks.figures import draw_arms, draw_scaling
from benchmarks.machine import load, machine
from benchmarks.page import page

ROOT = Path(__file__).parents[1]
PARTS = {"scaling": (scaling, scaling.Extent()), "arms": (arms, arms.Extent())}
QUICK = {"scaling": (scaling, scaling.QUICK), "arms": (arms, arms.QUICK)}


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for, then draw and write the page from all that is there."""
    asked = _parser().parse_args(arguments)
    out, docs = (ROOT / "out/performance",) * 2 if asked.quick else (ROOT / "benchmarks", ROOT / "docs")
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, (part, extent) in (QUICK if asked.quick else PARTS).items():
        if asked.only in (name, None) and not asked.page:
            about, start = machine(), time.perf_counter()
            measured: dict[str, Any] = part.measure(extent)
            about["load_at_end"] = load()
            head = {
                "machine": about,
                "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "command": " ".join(["python -m benchmarks.performance", *arguments]),
                "minutes": round((time.perf_counter() - start) / 60, 1),
            }
            _write(out / f"{name}.json", json.dumps(head | measured, indent=1, ensure_ascii=False) + "\n")
            print(f"{name}: {head['minutes']} min, load {about['load_at_start']} to {about['load_at_end']}", flush=True)
    found = {name: json.loads((out / f"{name}.json").read_text(encoding="utf-8")) for name in PARTS}
    gpu = out / "gpu.json"
    draw_scaling(found["scaling"], docs / "performance_scaling.png")
    draw_arms(found["arms"], docs / "performance_arms.png")
    told = json.loads(gpu.read_text(encoding="utf-8")) if gpu.is_file() else None
    _write(docs / "performance.md", page(found["scaling"], found["arms"], told))
    print(f"{docs / 'performance.md'} is written")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument("--only", choices=tuple(PARTS), help="measure one of the two, and keep the other's figures")
    parser.add_argument("--quick", action="store_true", help="tiny, for a try; all goes to out/performance")
    parser.add_argument("--page", action="store_true", help="measure nothing: draw and write what is there anew")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
