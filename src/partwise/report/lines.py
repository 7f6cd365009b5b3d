"""A number against a setting: what a sweep shows."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from partwise.errors import ConfigError, did_you_mean
from partwise.records import RunRecord
from partwise.report import formats, readings
from partwise.report.canvas import ENOUGH, MARKERS, PALETTE, kind_of, save, scaled
from partwise.report.cell import canonical
from partwise.report.settings import flatten, identity, in_words, sizes
from partwise.report.statistics import Interval, Score, interval
from partwise.report.steps import draw_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOPS = "flops"
STEP = "step"
TITLE = 44  # letters a line
ACROSS = 3  # panels side by side


@dataclass(frozen=True, kw_only=True)
class View:
    """How a sweep is drawn: a panel a task and metric, a line an architecture.

    Args:
        over: what the x-axis is: a field by its name in a record ("task.n_pairs", "frozen_seed"), or "flops", those
            that training took, or "step": then what probes found is drawn. An arm that has no such field is a level
            across the panel.
        label: what the axis is called; "" is the field's name.
        log: whether the axis is logarithmic (base 2).
        metrics: what is drawn; "" stands for the task's headline. Over steps, quantities of probes.
        lines: name of a line to the architectures on it, where several make one.
        by: a field that tells lines apart in place of the architecture, which then has panels of its own.
    """

    over: str
    label: str = ""
    log: bool = False
    metrics: tuple[str, ...] = ("",)
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by: str = ""


def draw_over(records: Iterable[RunRecord], path: Path | str, view: View, *, note: str = "") -> Path:
    """Draw the scores of runs on test against a setting.

    Dots are seeds, a line joins their means, a whisker is the 95 % interval from three seeds on; floor and ceiling are
    grey. `note` stands below, in small print.

    Raises:
        ConfigError: no scored runs differ in that setting, or the suffix is not png, pdf or svg.
    """
    path = Path(path)
    kind_of(path)
    records = list(records)
    if view.over == STEP:
        return draw_steps(records, path, view.metrics, note=note)
    panels = {title: points for title, points in _panels(records, view).items() if any(p.x is not None for p in points)}
    if len({point.x for points in panels.values() for point in points if point.x is not None}) < 2:
        raise ConfigError(f"no two scored runs here differ in {view.over!r}.{_what_varies(records, view.over)}")
    return save(lambda: _figure(panels, view), path, note)


def _what_varies(records: Sequence[RunRecord], asked: str) -> str:
    """What one could have meant."""
    flats = [flatten(record.experiment) for record in records]
    fields = sorted({key for flat in flats for key in flat if len({identity(one.get(key)) for one in flats}) > 1})
    numbers = [key for key in fields if any(_is_number(flat.get(key)) for flat in flats)] + [FLOPS]
    near = "" if asked in numbers else did_you_mean(asked, numbers)
    return f"{near} What differs: {', '.join(numbers)}."


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class _Point:
    """One run's score, and where it stands."""

    line: str
    x: float | None
    score: Score
    metric: str
    of: Mapping[str, Any]
    experiment: Mapping[str, Any]


def _panels(records: Sequence[RunRecord], view: View) -> dict[str, list[_Point]]:
    """Title of a panel to its points."""
    found: dict[str, list[_Point]] = {}
    seen: set[tuple[str, str]] = set()
    for record in records:
        if record.status != "done" or (record.digest, record.architecture) in seen:
            continue
        seen.add((record.digest, record.architecture))
        for name in view.metrics:
            metric = name or record.headline["name"]
            of = readings.metric(metric, record.headline, [r.unit for r in record.rows if r.quantity == metric])
            score = readings.score(record, metric, "test", of)
            if math.isfinite(score.value):
                title = f"{record.task}\n{record.architecture}" if view.by else record.task
                title = title if len(view.metrics) == 1 else f"{title}: {metric.replace('_', ' ')}"
                flat = flatten(record.experiment)
                x = _place(record, flat, view)
                for line in _lines(record, flat, view):
                    found.setdefault(title, []).append(_Point(line, x, score, metric, of, flat))
    return found


def _place(record: RunRecord, flat: Mapping[str, Any], view: View) -> float | None:
    """Where a run stands on the x-axis; None where it has no such number."""
    value = record.value("flops", where="train") if view.over == FLOPS else flat.get(view.over)
    return float(value) if _is_number(value) else None


def _lines(record: RunRecord, flat: Mapping[str, Any], view: View) -> list[str]:
    """The lines that a run is on."""
    if view.by:
        return [f"{view.by.split('.')[-1].replace('_', ' ')} {flat.get(view.by)}"]
    if view.lines:
        return [line for line, architectures in view.lines.items() if record.architecture in architectures]
    return [record.architecture]


def _figure(panels: dict[str, list[_Point]], view: View) -> Any:
    from matplotlib.figure import Figure

    across = 2 if len(panels) == 4 else min(ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(1.8 + max(4.6, 4.2 * across), 0.2 + 3.8 * down), layout="constrained")
    every = figure.subplots(down, across, squeeze=False).flat
    for axes in list(every)[len(panels) :]:
        axes.set_axis_off()
    names = list(view.lines) or canonical({point.line for panel in panels.values() for point in panel})
    handles: dict[str, Any] = {}
    for axes, (title, points) in zip(figure.axes, sorted(panels.items()), strict=False):
        _panel(axes, points, names, view)
        shared = sizes([point.experiment for point in points])
        shared.pop(view.over, None)
        below = textwrap.wrap(in_words(shared), TITLE, max_lines=2, placeholder=" …")
        axes.set_title("\n".join([title, *below]))
        marks, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, marks, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _panel(axes: "Axes", points: Sequence[_Point], names: Sequence[str], view: View) -> None:
    placed = [point for point in points if point.x is not None]
    places = sorted({point.x for point in placed if point.x is not None})
    _limits(axes, placed or points)
    for i, name in enumerate(names):
        mine = [point for point in points if point.line == name]
        look: dict[str, Any] = {"color": PALETTE[i % len(PALETTE)]}
        at: dict[float, list[_Point]] = {}
        for point in mine:
            if point.x is not None:
                at.setdefault(point.x, []).append(point)
        if view.lines and len(at) < 2:  # the end that it shares with another line is no line
            continue
        if at:
            _line(axes, name, at, look | {"marker": MARKERS[i % len(MARKERS)]})
        elif mine:
            level = math.fsum(point.score.value for point in mine) / len(mine)
            axes.axhline(
                level, linewidth=1.3, linestyle=(0, (1, 1.5)), label=f"{name} (has no such setting)", zorder=2, **look
            )
    if view.log:
        axes.set_xscale("log", base=2)
    if view.over == FLOPS:
        axes.xaxis.set_major_formatter(lambda value, _: formats.amount(value))
        axes.locator_params(axis="x", nbins=5)
    elif len(places) <= 12:
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
    usual = "FLOPs of training" if view.over == FLOPS else view.over.split(".")[-1].replace("_", " ")
    axes.set_xlabel(view.label or usual)
    axes.set_ylabel(f"{points[0].metric.replace('_', ' ')} on test")
    of = points[0].of
    scaled(axes, is_share=of["high"] == 1.0 and of["unit"] == "", from_zero=of["low"] == 0)


def _line(axes: "Axes", name: str, at: dict[float, list[_Point]], look: dict[str, Any]) -> None:
    """Dots for seeds, a line through the means, whiskers where there are seeds enough."""
    places = sorted(at)
    summaries = [_summary(at[x]) for x in places]
    marker = look.pop("marker")
    axes.plot(places, [one.mean or 0.0 for one in summaries], linewidth=1.5, marker=marker, markersize=5, alpha=0.85,
              label=name, zorder=3, **look)  # fmt: skip
    for x, one in zip(places, summaries, strict=True):
        if len(at[x]) > 1:
            values = [point.score.value for point in at[x]]
            axes.scatter([x] * len(values), values, s=9, alpha=0.5, linewidths=0, zorder=4, **look)
        if len(at[x]) >= ENOUGH and one.low is not None and one.high is not None:
            axes.vlines(x, one.low, one.high, linewidth=0.9, alpha=0.8, zorder=2, **look)


def _summary(points: Sequence[_Point]) -> Interval:
    """Mean and interval of the runs at one place, as a table has them."""
    spans = [point.score.ceiling - point.score.floor for point in points]
    of = points[0].of
    span = math.fsum(spans) / len(spans)
    values = [point.score.value for point in points]
    return interval(values, of["low"], of["high"], span=span if math.isfinite(span) else None)


def _limits(axes: "Axes", points: Sequence[_Point]) -> None:
    """Floor and ceiling, which may change along the axis."""
    for name, style in (("floor", (0, (4, 3))), ("ceiling", (0, (1, 2)))):
        at: dict[float | None, list[float]] = {}
        for point in points:
            value = getattr(point.score, name)
            if math.isfinite(value):
                at.setdefault(point.x, []).append(value)
        means = {x: math.fsum(values) / len(values) for x, values in at.items()}
        look: dict[str, Any] = {
            "linewidth": 1,
            "color": "#666666" if name == "floor" else "#999999",
            "linestyle": style,
        }
        if len(means) == 1 or (means and None in means):
            axes.axhline(next(iter(means.values())), label=name, zorder=1, **look)
        elif means:
            along = sorted((x, value) for x, value in means.items() if x is not None)
            axes.plot(*zip(*along, strict=True), label=name, zorder=1, **look)
