"""A grid of texts: what terminals and Markdown draw, each in its way."""

from dataclasses import dataclass, field


@dataclass
class Grid:
    """A heading, a header and rows; a newline in a cell is a line break there.

    Where the first column's header is empty, it holds what the rows below it have in common, said once.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    below: list[str] = field(default_factory=list)


def named_once(rows: list[list[str]]) -> list[list[str]]:
    """Rows whose first cell repeats the one above leave it empty."""
    return [[*([""] if i and row[0] == rows[i - 1][0] else row[:1]), *row[1:]] for i, row in enumerate(rows)]


def without_empty_columns(grid: Grid) -> Grid:
    """The grid without the columns that no row fills."""
    used = [i for i in range(len(grid.header)) if any(row[i] for row in grid.rows)]
    return Grid(grid.title, [grid.header[i] for i in used], [[row[i] for i in used] for row in grid.rows], grid.below)
