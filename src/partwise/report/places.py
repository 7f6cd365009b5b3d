"""What probes found against the step, place by place: when is something learned, and where?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partwise.errors import ConfigError
from partwise.records import RunRecord
from partwise.report.canvas import PALETTE, kind_of, save
from partwise.report.settings import flatten
from partwise.report.statistics import interval

Curve = dict[int, float]  # value by step


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What one panel shows.

    Args:
        title: above it.
        quantity: of the rows that a probe yields; several, with commas.
        label: of the y-axis.
        share: from 0 to 1.
        log: a logarithmic axis instead.
    """

    title: str
    quantity: str
    label: str = ""
    share: bool = True
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Places:
    """How a trajectory is drawn: a row an architecture, a panel a number, a line a place or an edit.

    Args:
        panels: from left to right.
        of: fields of the runs that are shown, such as {"task.noise": .5}.
    """

    panels: tuple[Panel, ...]
    of: Mapping[str, Any] = field(default_factory=dict)


def curves(records: Iterable[RunRecord], places: Places, panel: Panel) -> dict[str, dict[str, list[Curve]]]:
    """Architecture (behind its task, where there are several) to line to a curve a seed."""
    records = list(records)
    several = len({record.task for record in records}) > 1
    found: dict[str, dict[str, list[Curve]]] = {}
    for record in records:
        flat = flatten(record.experiment)
        if record.status != "done" or any(flat.get(name) != value for name, value in places.of.items()):
            continue
        own: dict[str, Curve] = {}
        for row in record.rows:
            if row.quantity in panel.quantity.split(",") and math.isfinite(row.value):
                own.setdefault(_line(row.where, row.quantity, panel), {})[row.step] = row.value
        arm = f"{record.task} {record.architecture}" if several else record.architecture
        for line, curve in own.items():
            if len(curve) > 1:
                found.setdefault(arm, {}).setdefault(line, []).append(curve)
    return found


def _line(where: str, quantity: str, panel: Panel) -> str:
    """The place or edit, and what was measured there if a panel shows several."""
    place = (
        where.removeprefix("test/under=").replace("channel_mixer", "feed-forward").replace("token_mixer", "attention")
    )
    return f"{place} {quantity.rsplit('.', 1)[-1]}" if "," in panel.quantity else place


def draw_places(records: Sequence[RunRecord], path: Path | str, places: Places, *, note: str = "") -> Path:
    """Draw the curves; thin lines are seeds, thick ones their mean; steps on a logarithmic axis that holds 0.

    Raises:
        ConfigError: no run was looked at on the way, or the suffix is not png, pdf or svg.
    """
    path = Path(path)
    kind_of(path)
    found = [curves(records, places, panel) for panel in places.panels]
    arms = list(dict.fromkeys(arm for one in found for arm in one))
    if not arms:
        raise ConfigError("no run here was looked at while it trained: give probes and probe_at when it is run.")
    return save(lambda: _figure(arms, found, places), path, note)


def _figure(arms: Sequence[str], found: Sequence[dict[str, dict[str, list[Curve]]]], places: Places) -> Any:
    from matplotlib.figure import Figure

    across = len(places.panels)
    figure = Figure(figsize=(4.1 * across, 2.6 * len(arms) + 1.6), layout="constrained")
    grid = figure.subplots(len(arms), across, squeeze=False, sharex=True)
    for column, panel in enumerate(places.panels):
        names = list(dict.fromkeys(line for lines in found[column].values() for line in lines))
        for row, arm in enumerate(arms):
            axes, lines = grid[row][column], found[column].get(arm, {})
            for line, seeds in lines.items():
                colour = PALETTE[names.index(line) % len(PALETTE)]
                for curve in seeds if len(seeds) > 1 else ():
                    axes.plot(*zip(*sorted(curve.items()), strict=True), color=colour, linewidth=0.7, alpha=0.4)
                mean = _mean(seeds)
                axes.plot(*zip(*sorted(mean.items()), strict=True), color=colour, linewidth=1.8, label=line)
            axes.set_xscale("symlog", linthresh=1)
            axes.set_xlim(left=0)
            axes.grid(axis="y", color="#EEEEEE")
            if panel.log:
                axes.set_yscale("log")
            elif panel.share:
                axes.set_ylim(-0.04, 1.06)
            if not lines:
                axes.text(0.5, 0.5, "has none", transform=axes.transAxes, ha="center", color="#666666")
            if row == 0:
                axes.set_title(panel.title)
            axes.set_ylabel(arm if column == 0 else panel.label)
        handles: dict[str, Any] = {}
        for axes in grid[:, column]:
            marks, labels = axes.get_legend_handles_labels()
            handles |= dict(zip(labels, marks, strict=True))
        grid[-1][column].set_xlabel("step")
        grid[-1][column].legend(handles.values(), handles.keys(), loc="upper center", bbox_to_anchor=(0.5, -0.28),
                                fontsize=7, frameon=False)  # fmt: skip
    return figure


def _mean(seeds: Sequence[Curve]) -> Curve:
    steps = sorted(set.intersection(*(set(curve) for curve in seeds)))
    return {step: math.fsum(curve[step] for curve in seeds) / len(seeds) for step in steps}


def onset(curve: Curve) -> int | None:
    """The first step from which on the curve stays beyond the middle between its first and its farthest value.

    It is as fine as the steps that were looked at. None where the curve ends on the side where it began.
    """
    steps = sorted(curve)
    start = curve[steps[0]]
    farthest = max(curve.values(), key=lambda value: abs(value - start))
    middle = (start + farthest) / 2
    beyond = [(curve[step] - middle) * (farthest - start) > 0 for step in steps]
    if not beyond[-1]:
        return None
    return next(step for at, step in enumerate(steps) if all(beyond[at:]))


def onsets(records: Sequence[RunRecord], places: Places) -> str:
    """A Markdown table of onsets: the mean over seeds, with its interval from two seeds on."""
    lines = ["| number | architecture | place | onset, step | seeds |", "|---|---|---|---|---|"]
    for panel in places.panels:
        for arm, by_line in curves(records, places, panel).items():
            for line, seeds in by_line.items():
                steps = [step for step in map(onset, seeds) if step is not None]
                told = "–"
                if steps:
                    one = interval([float(step) for step in steps], 0.0, None)
                    ends = "" if one.low is None or one.high is None else f" [{one.low:.0f}, {one.high:.0f}]"
                    told = f"{one.mean:.0f}{ends}"
                lines.append(f"| {panel.title} | {arm} | {line} | {told} | {len(steps)} of {len(seeds)} |")
    about = (
        "The first step looked at from which on a number stays beyond the middle between where it began and the "
        "farthest that it went; –: it came back."
    )
    return "\n".join([about, "", *lines]) + "\n"
