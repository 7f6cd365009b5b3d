"""A table for a terminal or a plain file: no colours, no control codes, as wide as there is room."""

import dataclasses
import io
import shutil
import textwrap
from collections.abc import Iterable

from partwise.report.cell import Cell
from partwise.report.grids import Grid, costs, legend, sections

NARROWEST = 80
LABEL = 26  # columns that the first one may take; it wraps beyond
GAP = 2


def text(cells: Iterable[Cell], width: int | None = None) -> str:
    """Arms side by side where they fit, else one below the other.

    Args:
        cells: what to show.
        width: columns; None is the terminal's, 100 without one.
    """
    cells = list(cells)
    width = max(NARROWEST, width or shutil.get_terminal_size((100, 24)).columns)
    parts = []
    for section in sections(cells):
        wide = _narrowed(section.wide)
        parts += [wide if _measure(wide) <= width else section.tall, *section.more]
    drawn = [_drawn(grid, width) for grid in [*parts, *costs(cells)]]
    return "\n\n".join([*drawn, _wrapped(legend(cells), width)]).rstrip() + "\n"


def _narrowed(grid: Grid) -> Grid:
    """Long names of architectures in two lines, and the task's label wrapped."""
    header = [name.replace("_", "\n_", 1) if len(name) > 8 else name for name in grid.header]
    rows = [["\n".join(textwrap.wrap(row[0], LABEL)), *row[1:]] for row in grid.rows]
    return dataclasses.replace(grid, header=header, rows=rows)


def _measure(grid: Grid) -> int:
    columns = zip(grid.header, *grid.rows, strict=True)
    widest = [max(len(line) for cell in column for line in cell.split("\n")) for column in columns]
    return sum(widest) + GAP * (len(widest) - 1)


def _drawn(grid: Grid, width: int) -> str:
    from rich.box import Box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rule = Box("    \n    \n -- \n    \n    \n    \n    \n    \n")  # a line under the header, and nothing else
    table = Table(box=rule, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for i, name in enumerate(grid.header):
        table.add_column(Text(name), overflow="fold", max_width=LABEL if i == 0 else None)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, legacy_windows=False)
    console.print(table)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    return "\n".join([grid.title, "", *lines, *([_wrapped(grid.below, width)] if grid.below else [])])


def _wrapped(texts: Iterable[str], width: int) -> str:
    return "\n".join(
        textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ", break_long_words=False)
        for text in texts
    )
