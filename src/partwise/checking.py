"""What `partwise check` does: run checks, show each line as it is found, keep lines and figures."""

import dataclasses
import datetime
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from partwise.execution import environment
from partwise.records import write_json, write_text
from partwise.report.canvas import save
from partwise.theory import CHECKS, Line

WIDTHS = (46, 12, 10, 10, 5)  # what, prediction, measured, within, verdict


def check_theory(only: Sequence[str], out: Path, tell: Callable[[str], None]) -> list[Line]:
    """Run the checks of those names, or all; `out` keeps <check>.md, <check>.json and figures of each.

    Raises:
        UnknownName: there is no such check.
    """
    names = only or CHECKS.names()
    for name in names:
        CHECKS[name]  # a name that is not known is told of before the first runs
    return [line for name in names for line in _run(name, out, tell)]


def _run(name: str, out: Path, tell: Callable[[str], None]) -> list[Line]:
    started, about = time.monotonic(), ""
    found: list[Line] = []
    tell(f"{name}: {CHECKS.summary(name)}")
    for one in CHECKS[name]().run():
        if isinstance(one, Line):
            if one.about != about:
                about = one.about
                tell(f"\n{about}")
            found.append(one)
            tell(_told(one))
        else:
            tell(f"figure: {save(one.draw, out / f'{one.name}.png', _origin())}")
    seconds = time.monotonic() - started
    write_text(out / f"{name}.md", page(name, found, seconds))
    write_json(out / f"{name}.json", [dataclasses.asdict(line) | {"holds": line.holds} for line in found])
    tell(f"\n{name}: {_count(found)}, {seconds:.0f} s ({out / f'{name}.md'})")
    return found


def page(name: str, lines: Iterable[Line], seconds: float) -> str:
    """The lines as Markdown, below where they are from."""
    lines = list(lines)
    text = [f"# {name}: {CHECKS.summary(name)}", "", f"{_origin()} {_count(lines)}, {seconds:.0f} s.", ""]
    about = None
    for line in lines:
        if line.about != about:
            about = line.about
            text += ["", f"## {about}", "", "| what | prediction | measured | within | |", "|---|---|---|---|---|"]
        why = f" ({line.because})" if line.because else ""
        text.append(
            f"| {line.what} | {_prediction(line)} | {number(line.measured)} | {number(line.tolerance)}{why} "
            f"| {_verdict(line)} |"
        )
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def number(value: float) -> str:
    """Three digits behind the point, more where there would be none."""
    return f"{value:.2e}" if value and abs(value) < 0.002 else f"{value:.3f}"


def _told(line: Line) -> str:
    cells = _prediction(line), number(line.measured), f"±{number(line.tolerance)}", _verdict(line)
    what, *widths = WIDTHS
    return f"  {line.what:<{what}}" + " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _prediction(line: Line) -> str:
    return number(line.predicted) if line.relation == "=" else f"{line.relation} {number(line.predicted)}"


def _verdict(line: Line) -> str:
    return "holds" if line.holds else "FAILS"


def _count(lines: Sequence[Line]) -> str:
    """'40 of 41 lines hold'."""
    return f"{sum(line.holds for line in lines)} of {len(lines)} lines hold"


def _origin() -> str:
    """Command, date and machine."""
    machine, today = environment()["machine"], datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"`partwise {shlex.join(sys.argv[1:])}`, {today}, {machine}."
