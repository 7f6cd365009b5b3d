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

    Scores are compared by task, setting and architecture, over the seeds that both sides have: the means of these
    seeds, and B - A with a 95 % interval. Where a task has a single arm on either side, these two are compared
    whatever they are; arms that one side alone has are listed.

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
    sides = [[cell for cell in side if cell.headline] for side in (ours, theirs)]
    pairs = _paired(*sides)
    met = {id(cell) for pair in pairs for cell in pair}
    alone = [[_called(cell) for cell in side if id(cell) not in met] for side in sides]
    lines = [f"only in {name}: {'; '.join(arms)}" for name, arms in zip("AB", alone, strict=True) if arms]
    if not pairs:
        return "\n".join(["scores: nothing in common to compare", *(f"  {line}" for line in lines)])
    header = ["", "metric", "A", "B", "B − A", "95 % interval", "pairs", "seeds A", "seeds B"]
    table = _aligned([header, *(_line(one, other) for one, other in pairs)])
    if any(set(one.scores) != set(other.scores) and set(one.scores) & set(other.scores) for one, other in pairs):
        lines.insert(0, "A and B are means over the pairs: the seeds that both sides have.")
    if "] r" in table:
        lines.insert(0, "r: the range of the differences, as they are two, split into two groups, or lie at a bound.")
    return "\n".join([f"scores\n{table}", *(f"  {line}" for line in lines)])


def _called(cell: Cell) -> str:
    return f"{cell.place} {cell.architecture}"


def _paired(ours: list[Cell], theirs: list[Cell]) -> list[tuple[Cell, Cell]]:
    pairs = []
    for task in dict.fromkeys(cell.task for cell in ours):
        left, right = ([cell for cell in side if cell.task == task] for side in (ours, theirs))
        if len(left) == len(right) == 1:
            pairs.append((left[0], right[0]))
            continue
        for cell in left:
            met = {id(other) for _, other in pairs}
            alike = [o for o in right if o.architecture == cell.architecture and id(o) not in met]
            same = [other for other in alike if other.settings == cell.settings]
            chosen = same or (alike if len(alike) == 1 else [])
            pairs += [(cell, other) for other in chosen[:1]]
    return pairs


def _line(one: Cell, other: Cell) -> list[str]:
    names = list(dict.fromkeys((one.architecture, other.architecture)))
    setting = f" ({in_words(one.settings)})" if one.settings and one.settings == other.settings else ""
    start, counts = [f"{one.task}{setting} {' | '.join(names)}", one.metric], [str(len(c.scores)) for c in (one, other)]
    seeds = [seed for seed in one.scores if seed in other.scores]
    if one.metric != other.metric or not seeds:
        why = ["–", "no seed is shared"] if one.metric == other.metric else [f"B measures {other.metric}", ""]
        return [*start, formats.mean(one), formats.mean(other), *why, "0", *counts]
    ours, theirs = ([cell.scores[seed].value for seed in seeds] for cell in (one, other))
    width = None if one.low is None or one.high is None else one.high - one.low  # a difference is in [-width, width]
    differences = [b - a for a, b in zip(ours, theirs, strict=True)]
    found = interval(differences, None if width is None else -width, width, span=width)
    ends = "one pair: no interval"
    if found.low is not None and found.high is not None:
        ends = f"[{_signed(found.low, one)}, {_signed(found.high, one)}]{' r' if found.kind == 'range' else ''}"
    means = [formats.number(math.fsum(side) / len(seeds), one) for side in (ours, theirs)]
    return [*start, *means, _signed(found.mean or 0.0, one), ends, str(len(seeds)), *counts]


def _signed(value: float, cell: Cell) -> str:
    text = formats.number(abs(value), cell)
    is_zero = not text.strip(".0")
    return text if is_zero or not math.isfinite(value) else f"{'+' if value > 0 else '−'}{text}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
