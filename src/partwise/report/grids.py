"""What a table shows, before it is decided how: plain rows of text, the same for a terminal and for Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from partwise.report import formats
from partwise.report.cell import Cell, canonical
from partwise.report.details import details, paper_header, paper_lines
from partwise.report.grid import Grid, named_once, without_empty_columns
from partwise.report.groups import Group, groups
from partwise.report.settings import in_words, sizes
from partwise.report.verdict import sentences


@dataclass
class Section:
    """One task: its arms side by side, the same one below the other (for a narrow terminal), and what belongs to it."""

    title: str
    wide: Grid
    tall: Grid
    more: list[Grid]


def sections(cells: Iterable[Cell]) -> list[Section]:
    """One a task."""
    by_task: dict[str, list[Group]] = {}
    for group in groups(cells):
        by_task.setdefault(group.task, []).append(group)
    return [_section(members) for members in by_task.values()]


def test_set(members: Sequence[Group]) -> list[str]:
    """'floor .352: most_frequent_value; ceiling 1.00; 4,000 scored test answers': what the numbers are read against."""
    said: dict[str, list[str]] = {}
    for group in members:
        cell = group.any_arm
        floor = f"floor {formats.number(cell.floor, cell)}:" if len(members) == 1 else "floor"
        parts = [f"{floor} {cell.floor_name}"] if cell.floor_name else []
        parts += [] if cell.ceiling is None else [f"ceiling {formats.number(cell.ceiling, cell)}"]
        parts += [f"{cell.n_examples:,} scored test answer{'s' * (cell.n_examples > 1)}"] if cell.n_examples else []
        if parts:
            said.setdefault("; ".join(parts), []).append(group.label)
    several = len(said) > 1
    return [f"{'; '.join(labels)}: {text}." if several else f"{text}." for text, labels in said.items()]


def _section(members: list[Group]) -> Section:
    best = next((group.any_arm for group in members if group.any_arm.n), members[0].any_arm)
    title = f"{heading(members)}: {_measured(best)}"
    arms = [cell for group in members for cell in group.arms.values()]
    below = test_set(members)
    below += [
        text if group.label in text else f"{group.label}: {text}" for group in members for text in sentences(group)
    ]
    below += paper_lines(arms)
    more = [grid for group in members for grid in details(group)]
    return Section(title, _wide(title, members, below), _tall(title, members, below), more)


def heading(members: Sequence[Group]) -> str:
    """'needle (n_pairs=8, n_values=63)': the task with its own fields, as far as all that is shown has them."""
    shared = in_words(sizes([cell.experiment for group in members for cell in group.arms.values()]))
    return f"{members[0].task} ({shared})" if shared else members[0].task


def _measured(cell: Cell) -> str:
    if cell.metric == "headline":  # every run failed before it knew what it would be measured by
        return "no run has a score"
    unit = "" if cell.unit in ("", cell.metric.rstrip("s")) else f" ({cell.unit})"
    return f"{cell.metric}{unit}, {cell.better} is better"


def _wide(title: str, members: list[Group], below: list[str]) -> Grid:
    names = canonical({name for group in members for name in group.arms})
    rows = []
    for group in members:
        arms = [_stacked(group.arms[name]) if name in group.arms else "" for name in names]
        rows.append([f"{group.task} {group.label}".strip(), *arms, *_beside(group)])
    paper = paper_header([cell for group in members for cell in group.arms.values()])
    return Grid(title, ["task", *names, "floor", "ceiling", paper], rows, below)


def _tall(title: str, members: list[Group], below: list[str]) -> Grid:
    ceilings = [formats.number(arm.ceiling, arm) for group in members for arm in group.arms.values() if arm.n]
    vary = len(set(ceilings)) > 1  # else it is said below, once
    rows = []
    for group in members:
        for cell in group.arms.values():
            paper = "" if cell.paper is None else formats.number(cell.paper, cell)
            ceiling = formats.number(cell.ceiling, cell) if vary else ""
            line = [
                formats.mean(cell),
                formats.spread(cell),
                formats.solved(cell),
                formats.kept(cell).replace(" %", ""),
                formats.apart(cell),
                formats.number(cell.floor, cell),
                ceiling,
                paper,
            ]
            rows.append([group.label, cell.architecture, *line])
    paper = paper_header([cell for group in members for cell in group.arms.values()])
    scores = ["mean", "interval", "solved", "keeps %", "against standard"]
    header = ["", "architecture", *scores, "floor", "ceiling", paper]
    return without_empty_columns(Grid(title, header, named_once(rows), below))


def _stacked(cell: Cell) -> str:
    kept = formats.kept(cell).replace(" [", "\n[", 1)
    keeps = f"keeps {kept}" if kept not in ("", formats.BELOW) else kept
    apart = formats.apart(cell).replace(" [", "\n[", 1)
    lines = [formats.mean(cell), formats.spread(cell), formats.solved(cell), keeps, apart]
    return "\n".join(line for line in lines if line)


def _beside(group: Group) -> list[str]:
    cell = group.any_arm
    known = [f"{formats.number(arm.paper, arm)} {name}" for name, arm in group.arms.items() if arm.paper is not None]
    elsewhere = any(other.paper is not None for other in group.details)
    paper = "\n".join(known) or ("see below" if elsewhere else "not known")
    return [formats.number(cell.floor, cell), formats.number(cell.ceiling, cell), paper]
