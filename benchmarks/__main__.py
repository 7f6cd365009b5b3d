"""`python -m benchmarks`: measure each row in a process of its own, print the table, keep it in latest.json."""

import argparse
import datetime
import json
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.machine import load, machine
from benchmarks.pairs import Bench, Measured, Setting
from benchmarks.table import benches, measured_apart

LATEST = Path(__file__).parent / "latest.json"
LAYOUT = "{:<58} {:<13} {:>9} {:>9} {:>8} {:>14} {:>9}  {}"


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for; only a whole measurement replaces latest.json."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    setting = Setting(pairs=asked.pairs, threads=asked.threads, attention=asked.attention)
    every = benches()
    chosen = [bench for bench in every if re.search(asked.only, f"{bench.name}, {bench.kind}", re.IGNORECASE)]
    if not chosen:
        parser.error(f"--only {asked.only!r} is found in no row's 'name, kind'.")
    about = machine() | {
        "transformers": version("transformers"),
        "threads": setting.threads,
        "peer_attention": setting.attention,
    }
    print(f"{about['cpu']}, {about['cores']} cores, load {about['load_at_start']}, torch {about['torch']}")
    print(f"threads {setting.threads} for both sides; the peer's attention: {setting.attention}")
    print(LAYOUT.format("", "", "ours ms", "peer ms", "ratio", "of the pairs", "goal", ""))
    rows = []
    for bench in chosen:
        found = measured_apart(every.index(bench), setting)
        rows.append(bench.row(found))
        print(line(bench, found), flush=True)
    about["load_at_end"] = load()
    print(f"{sum(row['met'] for row in rows)} of {len(rows)} goals are met; load at the end {about['load_at_end']}")
    out = asked.out or (LATEST if len(chosen) == len(every) else None)
    if out is not None:
        command = " ".join(["python -m benchmarks", *arguments])
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        table = {"machine": about, "date": date, "command": command, "rows": rows}
        out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN", help="rows whose 'name, kind' it is found in")
    parser.add_argument("--pairs", type=int, default=7, help="that count, of each row (7)")
    parser.add_argument("--threads", type=int, default=1, help="of torch, for both sides (1)")
    parser.add_argument("--attention", default="eager", choices=("eager", "sdpa"), help="of the peer (eager)")
    parser.add_argument("--out", type=Path, help="where the table is kept (latest.json, if all rows are measured)")
    return parser


def line(bench: Bench, found: Measured) -> str:
    """The row as the table has it: what was seen, the goal, and whether it is met."""
    verdict = "met" if bench.met(found) else "NOT met"
    if found.precision == "bfloat16":
        verdict += f", {found.precision}"
    if found.detail:
        verdict += f"; {found.detail}"
    if found.ratio is None:
        cells = ("", "", "", f"< {bench.goal:.0f} ms")
    elif bench.kind == "share":
        spread = f"{found.ratio_low:.3f}-{found.ratio_high:.3f}"
        cells = (f"{found.peer_ms:.1f}", f"{found.ratio:.3f}", spread, f"< {bench.goal:g}")
    else:
        spread = f"{found.ratio_low:.2f}-{found.ratio_high:.2f}"
        cells = (f"{found.peer_ms:.1f}", f"{found.ratio:.2f}x", spread, f"{bench.goal:g}x")
    return LAYOUT.format(bench.name, bench.kind, f"{found.ours_ms:.1f}", *cells, verdict)


if __name__ == "__main__":
    main(sys.argv[1:])
