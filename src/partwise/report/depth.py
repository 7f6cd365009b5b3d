"""What the probe `propagation` saw, against depth: does each architecture keep its tokens apart?"""

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from partwise.records import RunRecord
from partwise.report import formats
from partwise.report.canvas import MARKERS, PALETTE, save
from partwise.report.grid import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (2, 8, 32, 64)  # columns of the table
BLOCK = re.compile(r"blocks\.(\d+)")
PANELS = {
    "correlation": "mean correlation of two tokens",
    "covariance": "mean covariance of two tokens",
    "effective_rank": "effective rank of the tokens",
    "gradient_norm": "gradient of the loss, relative to the last block",
}
Curves = dict[str, dict[int, float]]  # by architecture, blocks passed to the mean over seeds


def curves(records: Iterable[RunRecord], quantity: str) -> Curves:
    """By architecture, the quantity behind so many blocks (0 is before the first), the mean over seeds.

    What was measured while a model trained stands beside it as a curve of its own, 'mixit, step 400'.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        for row in record.rows:
            blocks = _blocks(row.where)
            if row.quantity == quantity and blocks is not None:
                name = record.architecture + (f", step {row.step}" if row.step else "")
                found.setdefault(name, {}).setdefault(blocks, []).append(row.value)
    means = {
        name: {at: math.fsum(values) / len(values) for at, values in sorted(curve.items())}
        for name, curve in found.items()
    }
    if quantity != "gradient_norm":
        return means
    return {name: {at: value / curve[max(curve)] for at, value in curve.items()} for name, curve in means.items()}


def _blocks(where: str) -> int | None:
    """How many blocks the stream has passed at that address."""
    inside = BLOCK.fullmatch(where)
    return 0 if where == "embed" else int(inside.group(1)) + 1 if inside else None


def depth_grids(records: Sequence[RunRecord]) -> list[Grid]:
    """A grid a quantity: architectures down, depth across."""
    made = []
    for quantity, title in PANELS.items():
        found = curves(records, quantity)
        deepest = max((max(curve) for curve in found.values()), default=0)
        shown = [depth for depth in DEPTHS if depth <= deepest] or [deepest]
        rows = [[name, *(_number(curve.get(depth)) for depth in shown)] for name, curve in found.items()]
        made.append(Grid(title, ["architecture", *(f"{depth} blocks" for depth in shown)], rows))
    return made


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return formats.share(value) if 0.001 <= abs(value) < 1.0005 else f"{value:.2g}" if value else "0"


def draw_depth(records: Sequence[RunRecord], path: Path, *, note: str = "") -> Path:
    """A panel a quantity, a line an architecture, against the blocks that the stream has passed."""
    return save(lambda: _figure(records), path, note)


def _figure(records: Sequence[RunRecord]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 7.0), layout="constrained")
    for axes, (quantity, title) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        for i, (name, curve) in enumerate(curves(records, quantity).items()):
            places = [at for at in curve if at]
            axes.plot(
                places,
                [curve[at] for at in places],
                color=PALETTE[i % len(PALETTE)],
                linestyle="-" if i < len(PALETTE) else "--",
                marker=MARKERS[i % len(MARKERS)],
                markevery=[i for i, at in enumerate(places) if at & (at - 1) == 0],
                markersize=4,
                linewidth=1.3,
                label=name,
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if quantity in ("covariance", "gradient_norm"):
            axes.set_yscale("log", nonpositive="mask")
        axes.set_xlabel("blocks")
        axes.set_title(title if quantity != "covariance" else f"{title} (gaps: below zero)")
        axes.grid(axis="y", color="#EEEEEE")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    return figure
