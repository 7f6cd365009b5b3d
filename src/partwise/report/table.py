"""Tables in five forms, all made of the same cells."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from partwise.errors import ConfigError
from partwise.records import RunRecord
from partwise.report.cell import Cell
from partwise.report.cells import cells
from partwise.report.costs import costs
from partwise.report.grid import Grid
from partwise.report.grids import sections
from partwise.report.latex import latex
from partwise.report.legend import legend
from partwise.report.overview import overview

Format = Literal["text", "md", "csv", "latex", "json"]

MARKDOWN = {**{sign: f"\\{sign}" for sign in "\\|_*[]"}, "<": "&lt;", ">": "&gt;", "\n": "<br>"}


def render(records: Iterable[RunRecord], format: str = "text", *, width: int | None = None) -> str:
    """The runs as a table.

    Args:
        records: finished and failed runs; nothing but what they hold is shown.
        format: text (a terminal or a plain file), md (GitHub), csv (one line a cell), latex (booktabs, headlines
            only, a note below), json (a list of cells).
        width: of text; None is the terminal's, 100 without one.

    Raises:
        ConfigError: no such format.
    """
    if format not in get_args(Format):
        raise ConfigError(f"format {format!r}: one of {', '.join(get_args(Format))} was expected.")
    made = cells(records)
    if format == "text":
        from partwise.report.text import text

        return text(made, width)
    forms: dict[str, Callable[[list[Cell]], str]] = {"md": _markdown, "csv": _csv, "latex": latex, "json": _json}
    return forms[format](made)


def grid_text(grid: Grid, width: int | None = None) -> str:
    """One grid for a terminal or a plain file."""
    from partwise.report.text import drawn

    return drawn(grid, width)


def grids_markdown(grids: Iterable[Grid]) -> str:
    """Grids one below the other, each under its title."""
    return "\n\n".join(part for grid in grids for part in (f"### {_escaped(grid.title)}", *grid_md(grid))) + "\n"


def _markdown(made: list[Cell]) -> str:
    first = overview(made)
    parts = [] if first is None else [f"### {_escaped(first.title)}", *grid_md(first)]
    for section in sections(made):
        parts += [f"### {_escaped(section.title)}", *grid_md(section.wide)]
        for grid in section.more:
            parts += [f"**{_escaped(grid.title)}**", *grid_md(grid)]
    for grid in costs(made):
        parts += [f"**{_escaped(grid.title)}**", *grid_md(grid)]
    if marks := legend(made):
        parts.append("<sub>" + "<br>".join(_escaped(mark) for mark in marks) + "</sub>")
    return "\n\n".join(parts) + "\n"


def grid_md(grid: Grid) -> list[str]:
    """One grid in Markdown, its remarks a list below."""
    lines = [grid.header, ["---"] * len(grid.header), *([_escaped(cell) for cell in row] for row in grid.rows)]
    lines[0] = [_escaped(name) for name in grid.header]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return [table, *(["\n".join(f"- {_escaped(text)}" for text in grid.below)] if grid.below else [])]


def _escaped(text: str) -> str:
    """[95, 99] is no link, frozen_qk no emphasis, a pipe no border."""
    return "".join(MARKDOWN.get(sign, sign) for sign in text)


def _csv(made: list[Cell]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Cell.exported())
    for cell in made:
        plain = cell.to_plain().values()
        writer.writerow(_field(value) for value in plain)
    return out.getvalue()


def _field(value: object) -> object:
    """Lists, objects and truth values as JSON; None as nothing."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict, bool)) else value


def _json(made: list[Cell]) -> str:
    return json.dumps([cell.to_plain() for cell in made], indent=1, ensure_ascii=False, allow_nan=False) + "\n"
