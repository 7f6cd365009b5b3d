"""A table for a terminal or a plain file: no colours, no control codes, as wide as there is room."""

import dataclasses
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from partwise.report.cell import Cell
from partwise.report.costs import costs
from partwise.report.grid import Grid
from partwise.report.grids import sections
from partwise.report.legend import legend
from partwise.report.overview import overview

NARROWEST = 80
LABEL = 26  # columns that a row's label may take beside its arms
NAME = 8  # and the name of an architecture above its column; both wrap beyond
GAP = "  "
NO_BREAK = "\u00a0"
TOGETHER = re.compile(r"(?<=\d) (?=[kMGTPEZY%](?!\w))|(?<=\d,) (?=[−\d]+\])")  # '31.1 k', '[95, 99]'
# at spaces, commas, pluses and dots of addresses; a name above its column, if need be, before an underscore too
BREAK = re.compile(r"[ ]+|(?<=,)(?=\S)|(?<=[\w*]\.)(?=[^\W\d]|\*)|(?<=\+)(?=\w)")
BREAK_NAME = re.compile(rf"{BREAK.pattern}|(?<=\w{{3}})(?=_)")


def text(cells: Iterable[Cell], width: int | None = None) -> str:
    """Arms side by side where they fit, else one below the other.

    Args:
        cells: what to show.
        width: columns; None is the terminal's, 100 without one.
    """
    cells = list(cells)
    width = _room(width)
    first = overview(cells)
    parts = [] if first is None else [first]
    for section in sections(cells):
        wide = _narrowed(section.wide)
        parts += [wide if _total(wide) <= width else section.tall, *section.more]
    drawn = [_drawn(grid, width) for grid in [*parts, *costs(cells)]]
    return "\n\n".join([*drawn, _wrapped(legend(cells), width)]).rstrip() + "\n"


def drawn(grid: Grid, width: int | None = None) -> str:
    """One grid, as wide as there is room."""
    return _drawn(grid, _room(width))


def _room(width: int | None) -> int:
    return max(NARROWEST, width or shutil.get_terminal_size((100, 24)).columns)


def _narrowed(grid: Grid) -> Grid:
    """Long names of architectures in several lines, and so the rows' labels."""
    header = [_broken(name, NAME, BREAK_NAME) if "\n" not in name else name for name in grid.header]
    rows = [[_broken(row[0], LABEL), *row[1:]] for row in grid.rows]
    return dataclasses.replace(grid, header=header, rows=rows)


def _drawn(grid: Grid, width: int) -> str:
    """Title, header, a rule, rows, remarks; a label that rows have in common stands above them, on lines of its own."""
    labels = [row[0] for row in grid.rows] if grid.header[0] == "" else []
    if labels:
        grid = dataclasses.replace(grid, header=grid.header[1:], rows=[row[1:] for row in grid.rows])
    grid = _fitted(grid, width)
    widths = _widths(grid)
    lines = [*textwrap.wrap(grid.title, width, break_long_words=False), "", *_line(grid.header, widths, bottom=True)]
    lines.append("-" * _total(grid))
    for label, row in zip_longest(labels, grid.rows, fillvalue=""):
        lines += textwrap.wrap(label, width, subsequent_indent=GAP, break_long_words=False)
        lines += _line(row, widths)
    return "\n".join([*lines, *([_wrapped(grid.below, width)] if grid.below else [])])


def _fitted(grid: Grid, width: int) -> Grid:
    """The widest columns broken, a letter less at a time, until the grid fits or nothing can be broken any more."""
    columns = list(zip(*grid.rows, strict=True)) if grid.rows else [()] * len(grid.header)
    widths = [each - len(GAP) for each in _widths(grid)]
    least = [
        max(_longest(name, BREAK_NAME), *(_longest(cell) for cell in column), 0)
        for name, column in zip(grid.header, columns, strict=True)
    ]
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        loose = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not loose:
            break
        widths[max(loose, key=lambda i: widths[i])] -= 1
    header = [_broken(name, limit, BREAK_NAME) for name, limit in zip(grid.header, widths, strict=True)]
    rows = [[_broken(cell, limit) for cell, limit in zip(row, widths, strict=True)] for row in grid.rows]
    return dataclasses.replace(grid, header=header, rows=rows)


def _widths(grid: Grid) -> list[int]:
    """Of each column, with the gap behind it."""
    columns = zip(grid.header, *grid.rows, strict=True)
    return [max(len(line) for cell in column for line in cell.split("\n")) + len(GAP) for column in columns]


def _total(grid: Grid) -> int:
    return sum(_widths(grid)) - len(GAP)


def _line(cells: Sequence[str], widths: Sequence[int], *, bottom: bool = False) -> list[str]:
    parts = [cell.split("\n") for cell in cells]
    height = max(map(len, parts))
    parts = [[""] * (height - len(part)) + part if bottom else part + [""] * (height - len(part)) for part in parts]
    return ["".join(map(str.ljust, line, widths)).rstrip() for line in zip(*parts, strict=True)]


def _longest(cell: str, at: re.Pattern[str] = BREAK) -> int:
    return max(len(piece) for line in cell.split("\n") for piece in at.split(TOGETHER.sub(NO_BREAK, line)))


def _broken(cell: str, limit: int, at: re.Pattern[str] = BREAK) -> str:
    """Line breaks where they are allowed, so that no line is longer than the limit if that can be."""
    lines = []
    for line in cell.split("\n"):
        line, start, last = TOGETHER.sub(NO_BREAK, line), 0, None
        for stop in [*at.finditer(line), None]:
            if last and (stop.start() if stop else len(line)) - start > limit:
                lines.append(line[start : last.start()])
                start = last.end()
            last = stop
        lines.append(line[start:])
    return "\n".join(lines).replace(NO_BREAK, " ")


def _wrapped(texts: Iterable[str], width: int) -> str:
    wrap = textwrap.TextWrapper(
        width, initial_indent=GAP, subsequent_indent=2 * GAP, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrap.fill(TOGETHER.sub(NO_BREAK, text)) for text in texts).replace(NO_BREAK, " ")
