"""Two runs, or two folders of runs: what differs in what was asked, in how it was run, and in what came out."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partwise.records import RunRecord, read_records
from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.cells import cells
from partwise.report.settings import flatten, identity, in_words
from partwise.report.statistics import interval


def compare(a: Path | str, b: Path | str) -> str:
    """A comparison as text. Each folder holds one run or many.

    Scores are compared by task, setting and architecture, paired over the seeds that both sides have, as B - A with a
    95 % interval; where a task has a single arm on either side, these two are compared whatever they are.

    Raises:
        DamagedFile: a folder holds no run.
    """
    ours, theirs = read_records(Path(a)), read_records(Path(b))
    parts = [
        f"A  {a}: {_counted(ours)}\nB  {b}: {_counted(theirs)}",
        _differences("experiment", [record.experiment for record in ours], [record.experiment for record in theirs]),
        _differences("execution", [record.execution for record in ours], [record.execution for record in theirs]),
        _scores(cells(ours), cells(theirs)),
    ]
    return "\n\n".join(parts) + "\n"


def _counted(records: Sequence[RunRecord]) -> str:
    lost = sum(record.status != "done" for record in records)
    return f"{len(records)} run{'s' if len(records) > 1 else ''}" + (f", {lost} without a score" if lost else "")


def _differences(what: str, ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> str:
    sides = [_values(ours), _values(theirs)]
    keys = [key for key in sides[0] | sides[1] if sides[0].get(key) != sides[1].get(key)]
    if not keys:
        return f"{what}: no difference"
    shown = [[key, *(", ".join(side.get(key, ["–"])) for side in sides)] for key in keys]
    return f"{what}\n{_aligned([['', 'A', 'B'], *shown])}"


def _values(many: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    """Every field's values over the runs of one side, each once, sorted."""
    found: dict[str, set[str]] = {}
    for plain in many:
        for key, value in flatten(plain).items():
            found.setdefault(key, set()).add(value if isinstance(value, str) else identity(value))
    return {key: sorted(values, key=lambda text: (len(text), text)) for key, values in found.items()}


def _scores(ours: list[Cell], theirs: list[Cell]) -> str:
    pairs = _paired([cell for cell in ours if cell.headline], [cell for cell in theirs if cell.headline])
    if not pairs:
        return "scores: nothing in common to compare"
    header = ["", "metric", "A", "B", "B − A", "95 % interval", "pairs"]
    return f"scores\n{_aligned([header, *(_line(one, other) for one, other in pairs)])}"


def _paired(ours: list[Cell], theirs: list[Cell]) -> list[tuple[Cell, Cell]]:
    pairs = []
    for task in dict.fromkeys(cell.task for cell in ours):
        left, right = ([cell for cell in side if cell.task == task] for side in (ours, theirs))
        if len(left) == len(right) == 1:
            pairs.append((left[0], right[0]))
            continue
        for cell in left:
            alike = [other for other in right if other.architecture == cell.architecture]
            same = [other for other in alike if other.settings == cell.settings]
            chosen = same or (alike if len(alike) == 1 else [])
            pairs += [(cell, other) for other in chosen[:1]]
    return pairs


def _line(one: Cell, other: Cell) -> list[str]:
    names = list(dict.fromkeys((one.architecture, other.architecture)))
    setting = f" ({in_words(one.settings)})" if one.settings and one.settings == other.settings else ""
    start = [f"{one.task}{setting} {' | '.join(names)}", one.metric, formats.mean(one), formats.mean(other)]
    if one.metric != other.metric:
        return [*start, f"B measures {other.metric}", "", ""]
    seeds = [seed for seed in one.scores if seed in other.scores]
    if not seeds:
        return [*start, "–", "no seed is shared", "0"]
    low, high = one.low, one.high
    width = None if low is None or high is None else high - low  # a difference lies between -width and width
    found = interval(
        [other.scores[seed].value - one.scores[seed].value for seed in seeds],
        None if width is None else -width,
        width,
        span=width,
    )
    ends = "one pair: no interval"
    if found.low is not None and found.high is not None:
        ends = f"[{_signed(found.low, one)}, {_signed(found.high, one)}]{' r' if found.kind == 'range' else ''}"
    return [*start, _signed(found.mean or 0.0, one), ends, str(len(seeds))]


def _signed(value: float, cell: Cell) -> str:
    text = formats.number(abs(value), cell)
    return text if not value or not math.isfinite(value) else f"{'+' if value > 0 else '−'}{text}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
