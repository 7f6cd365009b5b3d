"""The two figures of docs/performance.md."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.report.canvas import MARKERS, PALETTE, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {
    arm: (PALETTE[i], MARKERS[i]) for i, arm in enumerate(("standard", "mixit", "frozen_qk", "frozen_mlp"))
}  # in every panel
AXES = {"length": "length T", "batch": "batch", "width": "width n", "depth": "blocks", "runs": "runs"}
QUANTITIES = {"seconds": ("a step, ms", 1e3), "peak_bytes": ("peak memory, MiB", 2**-20)}
RUNS = {"seconds": ("all runs, s", 1.0), "peak_bytes": ("all processes, MiB", 2**-20)}


def draw_scaling(found: dict[str, Any], path: Path) -> Path:
    """Above the time, below the memory of a step, against each size; both scales logarithmic, with their slopes."""

    def make() -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(12.5, 5.2), layout="constrained")
        grid = figure.subplots(2, len(AXES), sharex="col")
        for column, axis in enumerate(AXES):
            for row, quantity in enumerate(QUANTITIES):
                _growth(grid[row][column], found, axis, quantity)
            grid[1][column].set_xlabel(AXES[axis])
        for axes in (*grid[0][1:4], *grid[1][1:4]):
            axes.set_ylabel("")
        grid[0][0].legend(frameon=False, loc="upper left")
        return figure

    base = found["base"]
    note = (
        f"One training step in float32 on one thread; where it is not on the axis: T={base['length']}, batch "
        f"{base['batch']}, n={base['width']}, {base['depth']} blocks, vocabulary {base['vocabulary']}. Slopes are of "
        "the logarithms, over all points; the dotted line is proportional growth. Runs: needle, standard, "
        "one thread each, as many at once as there are cores."
    )
    return save(make, path, note)


def _growth(axes: "Axes", found: dict[str, Any], axis: str, quantity: str) -> None:
    label, unit = (RUNS if axis == "runs" else QUANTITIES)[quantity]
    axes.set_ylabel(label)
    points = [point for point in found["points"] if point["axis"] == axis and point[quantity]]
    arms = list(dict.fromkeys(point["arm"] for point in points))
    lines = {arm: [(p["value"], unit * p[quantity]) for p in points if p["arm"] == arm] for arm in arms}
    for at, (arm, line) in enumerate(lines.items()):
        colour, marker = LOOKS[arm]
        axes.plot(*zip(*line, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.4, label=arm)
        if at == 0:
            last, top = line[-1]
            axes.plot([value for value, _ in line], [top * value / last for value, _ in line],
                      color="#BBBBBB", linestyle=":", linewidth=1, zorder=0)  # fmt: skip
        key = (axis, arm, quantity)
        slope = next((one for one in found["slopes"] if (one["axis"], one["arm"], one["quantity"]) == key), None)
        if slope is not None:
            axes.text(0.97, 0.05 + 0.11 * (len(lines) - 1 - at), f"slope {slope['slope']:.2f}", color=colour,
                      transform=axes.transAxes, ha="right", fontsize=8)  # fmt: skip
    _logarithmic(axes, sorted({point["value"] for point in points}))


def _logarithmic(axes: "Axes", ticks: Iterable[int]) -> None:
    """Both scales, with the sizes themselves as ticks below and few plain numbers at the side."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", color="#EEEEEE")


def draw_arms(found: dict[str, Any], path: Path) -> Path:
    """Left the time of a step against standard, then speed of decoding and memory of what is kept, against T."""

    def make() -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(11, 3.3), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1, 1, 1))
        _changes(left, found["training"])
        _decoding(middle, found["decoding"], "tokens_per_second", "decoded tokens a second", 1)
        middle.set_yscale("linear")
        middle.set_ylim(bottom=0)
        _decoding(right, found["decoding"], "cache_bytes", "cache, MiB a sequence", 2**-20)
        fixed = [(row["length"], row["fixed_bytes"] * 2**-20) for row in found["decoding"] if row["fixed_bytes"]]
        right.plot(*zip(*fixed, strict=True), color=LOOKS["mixit"][0], linestyle="--", linewidth=1.2,
                   label="mixit's matrices, once")  # fmt: skip
        right.legend(frameon=False, fontsize=8)
        middle.legend(frameon=False, fontsize=8)
        return figure

    work = found["work"]
    note = (
        f"{work['depth']} blocks, n={work['width']}, vocabulary {work['vocabulary']}, float32 on one thread. Training: "
        f"batch {work['batch']}, T={work['length']}; bars are medians, lines the least and the largest of "
        f"{found['rounds']} rounds; the diamond is the paper's training time per sample. Decoding: one sequence, the "
        f"last {found['decoded']} of T positions; what is frozen decodes as standard does."
    )
    return save(make, path, note)


def _changes(axes: "Axes", rows: list[dict[str, Any]]) -> None:
    axes.set_ylabel("time of a step\nagainst standard, %")
    arms = [row for row in rows if row["arm"] != "standard"]
    for x, row in enumerate(arms):
        axes.bar(x, 100 * row["change"], width=0.55, color=LOOKS[row["arm"]][0])
        axes.vlines(x, 100 * row["change_low"], 100 * row["change_high"], color="#222222", linewidth=1)
        if row["paper_change"] is not None:
            axes.scatter([x], [100 * row["paper_change"]], marker="D", s=46, facecolors="white", edgecolors="#222222",
                         zorder=3)  # fmt: skip
            axes.annotate("paper", (x, 100 * row["paper_change"]), (9, 0), textcoords="offset points", va="center",
                          fontsize=8, color="#222222")  # fmt: skip
    axes.axhline(0, color="#555555", linewidth=0.8)
    axes.set_xticks(range(len(arms)), [row["arm"] for row in arms])
    axes.grid(axis="y", color="#EEEEEE")


def _decoding(axes: "Axes", rows: list[dict[str, Any]], quantity: str, label: str, unit: float) -> None:
    axes.set_ylabel(label)
    axes.set_xlabel("length T")
    for arm in dict.fromkeys(row["arm"] for row in rows):
        colour, marker = LOOKS[arm]
        line = [(row["length"], unit * row[quantity]) for row in rows if row["arm"] == arm]
        axes.plot(*zip(*line, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.4, label=arm)
    _logarithmic(axes, sorted({row["length"] for row in rows}))
