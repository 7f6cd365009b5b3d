"""The headlines as a booktabs table, with what explains them in a note below."""

from collections.abc import Iterable

from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.details import paper_lines, published
from partwise.report.grids import test_set
from partwise.report.groups import Group, groups
from partwise.report.legend import legend
from partwise.report.settings import in_words

HEADER = (
    *("Task", "Settings", "Architecture", "Mean", "Interval", "Solved", "Keeps", "Floor", "Ceiling"),
    "Paper (its settings)",
)
SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "<": "$<$",
    ">": "$>$",
    "↑": r"$\uparrow$",
    "†": r"$\dagger$",
}


def latex(made: Iterable[Cell]) -> str:
    """A line an arm, arms together that a text table has in one row."""
    heads = [cell for cell in made if cell.headline]
    found = groups(heads)
    lines = [r"\begin{tabular}{lllrrrrrrr}", r"\toprule", _line(HEADER)]
    for group in found:
        lines += [r"\midrule", *_rows(group)]
    lines += [r"\bottomrule", r"\end{tabular}", "", r"\par\medskip", r"{\footnotesize\noindent"]
    lines += [rf"{_escaped(text)}\par" for text in _note(found, heads)]
    return "\n".join([*lines, "}", ""])


def _rows(group: Group) -> list[str]:
    rows, settings = [], in_words(group.sizes | group.settings)
    for i, cell in enumerate(group.arms.values()):
        limits = [formats.number(value, cell) for value in (cell.floor, cell.ceiling)]
        texts = [formats.mean(cell), formats.spread(cell), formats.solved(cell), formats.kept(cell), *limits]
        start = ["", ""] if i else [group.task, settings]
        rows.append(_line([*start, cell.architecture, *texts, _paper(cell)]))
    return rows


def _paper(cell: Cell) -> str:
    known = published(cell)
    return "" if known is None or known.value is None else f"{formats.number(known.value, cell)} ({known.sizes})"


def _note(found: list[Group], heads: list[Cell]) -> list[str]:
    by_task: dict[str, list[Group]] = {}
    for group in found:
        by_task.setdefault(group.task, []).append(group)
    tests = [f"{task}: {text}" for task, members in by_task.items() for text in test_set(members)]
    return [*tests, *(f"{mark}." for mark in legend(heads, details=False)), *paper_lines(heads)]


def _line(texts: Iterable[str]) -> str:
    return " & ".join(map(_escaped, texts)) + r" \\"


def _escaped(text: str) -> str:
    return "".join(SIGNS.get(sign, sign) for sign in text)
