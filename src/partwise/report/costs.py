"""What every arm cost, how its rates were chosen, and where arms are no equals."""

from collections.abc import Iterable

from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.grid import Grid, named_once, without_empty_columns
from partwise.report.groups import groups
from partwise.report.matching import warnings

HEADER = ["", "architecture", "depth\n×width", "trainable", "total", "tokens", "FLOPs", "steps", "lr", "runs"]


def costs(cells: Iterable[Cell]) -> list[Grid]:
    """One grid a task; below the last, what a reader must know before comparing the arms."""
    cells = list(cells)
    by_task: dict[str, list[tuple[str, Cell]]] = {}
    for group in groups(cells):
        by_task.setdefault(group.task, []).extend((group.label, cell) for cell in group.arms.values())
    made = [_of_task(task, arms) for task, arms in by_task.items()]
    if made:
        made[-1].below += warnings(cells)
    return made


def _of_task(task: str, arms: list[tuple[str, Cell]]) -> Grid:
    kinds = ", ".join(dict.fromkeys(cell.matching for _, cell in arms))
    title = f"{task}: costs of a run; arms matched by {kinds}"
    rates: dict[str, list[tuple[str, str]]] = {}
    for label, cell in arms:
        rates.setdefault(cell.selection, []).append((label, cell.architecture))
    if len(rates) == 1:
        title += f"; rates {arms[0][1].selection}"
        rates = {}
    below = [f"rates {_where(those, [label for label, _ in arms])}: {how}." for how, those in rates.items()]
    rows = [[label, *_cost(cell)] for label, cell in arms]
    return without_empty_columns(Grid(title, HEADER, named_once(rows), below))


def _where(those: list[tuple[str, str]], labels: list[str]) -> str:
    """'at n_pairs=8' where these are all arms of a row, else 'of mixit'."""
    rows = dict.fromkeys(label for label, _ in those)
    if all(rows) and len(those) == sum(label in rows for label in labels):
        return f"at {'; '.join(rows)}"
    return f"of {formats.listed(list(dict.fromkeys(name for _, name in those)))}"


def _cost(cell: Cell) -> list[str]:
    blocks, experiment = cell.experiment.get("model.blocks") or [], cell.experiment
    counts = (cell.trainable_parameters, cell.total_parameters, cell.tokens, cell.flops)
    size = [experiment.get("model.n_blocks") or len(blocks) or "–", experiment.get("model.width", "–")]
    return [
        cell.architecture,
        "×".join(map(str, size)),
        *("–" if count is None else formats.amount(count) for count in counts),
        "–" if cell.steps is None else str(cell.steps),
        "–" if cell.lr is None else f"{cell.lr:g}",
        f"{cell.n}" + (f" (+{cell.n_failed})" if cell.n_failed else ""),
    ]
