"""One picture of the runs: above, what each arm reached, seed by seed; below, how it got there."""

import math
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.errors import ConfigError
from partwise.records import RunRecord
from partwise.report import formats
from partwise.report.canvas import ENOUGH, MARKERS, PALETTE, kind_of, save, scaled
from partwise.report.cell import Cell, canonical
from partwise.report.cells import cells
from partwise.report.groups import Group, groups
from partwise.report.paper import paper_values
from partwise.report.settings import in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = 38  # letters a line
ACROSS = 4  # panels side by side; more begin a new pair of rows
SPREAD = 0.14  # between the dots of two seeds, where arms are 1 apart
WIDEST = 0.56  # over all dots of an arm; the bar of the mean is wider
MARKED = 12  # places along a curve, shared out among the arms


def draw(records: Iterable[RunRecord], path: Path | str, *, note: str = "") -> Path:
    """Draw the runs into a file, whose suffix says which kind; the same runs give the same bytes.

    A panel a task and setting. Above: a dot a seed, a bar for the mean with its interval as a thin line from three
    seeds on, floor and ceiling as dashed lines, the paper's value as a hollow diamond where the run is of the paper's
    size. Below: the headline on validation against the step, a line a seed; arms that coincide are told apart by
    their marks, which stand at different steps. `note` stands below, in small print.

    Raises:
        ConfigError: the suffix is not png, pdf or svg; or there is nothing to draw.
    """
    path, records = Path(path), list(records)
    kind_of(path)
    found = groups(cells(records))
    if not found:
        raise ConfigError("there are no runs to draw.")
    return save(lambda: _figure(found, records), path, note)


def _figure(found: list[Group], records: list[RunRecord]) -> Any:
    from matplotlib.figure import Figure

    colours = _colours(found)
    across = min(ACROSS, len(found))
    down = math.ceil(len(found) / across)
    most = max(len(group.arms) for group in found)
    width = max(5.0, across * max(3.4, 0.62 * most + 1.4))
    figure = Figure(figsize=(width, 6.4 * down), layout="constrained")
    axes = figure.subplots(2 * down, across, squeeze=False)
    by_digest: dict[str, list[RunRecord]] = {}
    for record in records:
        by_digest.setdefault(record.digest, []).append(record)
    for i, group in enumerate(found):
        row, column = 2 * (i // across), i % across
        _results(axes[row][column], group, colours)
        _curves(axes[row + 1][column], group, colours, by_digest)
    for i in range(len(found), across * down):
        axes[2 * (i // across)][i % across].set_axis_off()
        axes[2 * (i // across) + 1][i % across].set_axis_off()
    return figure


def _results(axes: "Axes", group: Group, colours: dict[str, str]) -> None:
    head = group.any_arm
    axes.set_ylabel(f"{head.metric} on test")
    for x, (name, cell) in enumerate(group.arms.items()):
        n = len(cell.values)
        apart = min(SPREAD, WIDEST / max(1, n - 1))
        places = [x + apart * (i - (n - 1) / 2) for i in range(n)]
        axes.scatter(places, cell.values, s=26, color=colours[name], alpha=0.75, linewidths=0, zorder=3)
        if cell.mean is not None and n > 1:
            axes.hlines(cell.mean, x - 0.38, x + 0.38, color=colours[name], linewidth=2, zorder=4)
        if cell.ci_low is not None and cell.ci_high is not None and n >= ENOUGH:
            axes.vlines(x, cell.ci_low, cell.ci_high, color=colours[name], linewidth=0.9, zorder=4)
        if not n:
            axes.text(x, 0.5, formats.mean(cell), transform=axes.get_xaxis_transform(), rotation=90, ha="center",
                      va="center", color=colours[name], fontsize=8)  # fmt: skip
        known = paper_values().get((cell.task, cell.metric, name))
        if known and known.value is not None and known.fits(cell.experiment):
            face: dict[str, Any] = {"facecolors": "none", "edgecolors": "#222222"}
            label = f"paper ({known.status})" if not axes.get_legend_handles_labels()[1] else None
            axes.scatter([x], [known.value], marker="D", s=46, zorder=5, label=label, **face)
    legend = bool(axes.get_legend_handles_labels()[1])
    if legend:  # between title and panel, where no dot is
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.98), fontsize=7.5, frameon=False, handletextpad=0.1)
    sizes = textwrap.wrap(in_words(group.sizes | group.settings), TITLE, max_lines=3, placeholder=" …")
    axes.set_title("\n".join([group.task, *sizes]), pad=20 if legend else None)
    _limits(axes, head, named=True)
    names = [name.replace(", ", ",\n") for name in group.arms]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
    axes.set_xlim(-0.6, len(group.arms) - 0.4)
    _scaled(axes, head)


def _limits(axes: "Axes", head: Cell, *, named: bool = False) -> None:
    """Floor and ceiling, said at the right end, outside the panel, where no dot is."""
    floor = ["floor", *textwrap.wrap((head.floor_name or "").replace("_", " "), 14)] if named else ["floor"]
    for value, name in ((head.floor, "\n".join(floor)), (head.ceiling, "ceiling")):
        if value is not None:
            axes.axhline(value, linestyle=(0, (4, 3)), linewidth=1, color="#888888", zorder=1)
            axes.annotate(name, (1, value), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                          va="center", fontsize=8, color="#666666", annotation_clip=False)  # fmt: skip


def _curves(axes: "Axes", group: Group, colours: dict[str, str], by_digest: dict[str, list[RunRecord]]) -> None:
    head, names = group.any_arm, list(colours)
    for x, (name, cell) in enumerate(group.arms.items()):
        label: str | None = name
        for record in (record for digest in dict.fromkeys(cell.runs) for record in by_digest[digest]):
            scored = [(entry["step"], entry["validation"].get(cell.metric)) for entry in record.history
                      if "validation" in entry]  # fmt: skip
            points = [(step, value) for step, value in scored if value is not None and math.isfinite(value)]
            if points and (record.task, record.architecture) == (cell.task, name):
                every = max(len(group.arms), math.ceil(len(points) / MARKED))
                line: dict[str, Any] = {"color": colours[name], "linewidth": 1.4, "alpha": 0.7, "zorder": 3 - 0.1 * x}
                line |= {"marker": MARKERS[names.index(name) % len(MARKERS)], "markersize": 4.5, "markeredgewidth": 0}
                axes.plot(*zip(*points, strict=True), label=label, markevery=(x, every), **line)
                label = None
    if not axes.lines:
        axes.set_axis_off()
        return
    axes.set_xlabel("step")
    axes.set_ylabel(f"{head.metric} on validation")
    axes.set_xlim(left=0)
    _limits(axes, head)
    _scaled(axes, head)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=7.5, frameon=False,
                    handlelength=2, columnspacing=1.2)  # fmt: skip


def _scaled(axes: "Axes", head: Cell) -> None:
    from matplotlib.ticker import NullLocator

    if head.n:
        scaled(axes, is_share=head.is_share, from_zero=head.low == 0)
    else:
        axes.yaxis.set_major_locator(NullLocator())


def _colours(found: list[Group]) -> dict[str, str]:
    names = canonical({name for group in found for name in group.arms})
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
