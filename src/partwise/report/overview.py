"""Which parts must learn? All tasks at one glance, before the tables that say it in full."""

from collections.abc import Iterable, Sequence

from partwise.report import formats
from partwise.report.cell import STANDARD, Cell, canonical
from partwise.report.grid import Grid
from partwise.report.groups import Group, groups

FEW = 3  # rows, below which the tables themselves are a glance


def overview(cells: Iterable[Cell]) -> Grid | None:
    """A row a task and setting, a column an architecture: how much it keeps of standard's gain over the floor, with its
    interval; the score itself where standard is not solved. None for one or two rows, or without a standard arm."""
    found = [group for group in groups(cells) if group.standard is not None]
    if len(found) < FEW:
        return None
    names = [name for name in canonical({name for group in found for name in group.arms}) if name != STANDARD]
    rows = [_row(group, names) for group in found]
    title = "Which parts must learn? What each arm keeps of standard's gain over the floor"
    below = ["standard: seeds that solve it. Where it does not, the scores themselves stand in the row."]
    return Grid(title, ["task", STANDARD, *names], rows, below) if names else None


def _row(group: Group, names: Sequence[str]) -> list[str]:
    standard = group.standard
    assert standard is not None
    label = f"{group.task} {group.label}".strip()
    measured = any(cell.retained is not None for cell in group.arms.values())
    own = formats.solved(standard) if measured else formats.mean(standard)
    arms = [group.arms.get(name) for name in names]
    return [label, own, *("" if cell is None else _kept(cell, measured=measured) for cell in arms)]


def _kept(cell: Cell, *, measured: bool) -> str:
    if not measured or cell.retained is None:
        return formats.mean(cell)
    return formats.kept(cell)
