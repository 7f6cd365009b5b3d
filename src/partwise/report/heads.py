"""Heads of one run: a figure of what they read, and the maps themselves."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.errors import ConfigError
from partwise.records import RunRecord
from partwise.report import formats, readings
from partwise.report.canvas import PALETTE, kind_of, save
from partwise.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENTRY = re.compile(r"(.*\.mix)\.(\d+)\[(\d+), (\d+)\]")
MOST = 8  # blocks, and heads of a block, whose maps are drawn

Map = list[list[float]]


def short(address: str) -> str:
    """'block 1' of `blocks.1.token_mixer.mix`, 'block 1 head 2' of a head's; another address as it is."""
    found = re.fullmatch(r"blocks\.(\d+)\.token_mixer\.mix(?:\.(\d+))?", address)
    if not found:
        return address
    return f"block {found[1]}" + ("" if found[2] is None else f" head {found[2]}")


def maps_of(rows: Sequence[Row]) -> dict[str, dict[int, Map]]:
    """{mixer: {head: matrix}} of the entries that the probe attention_map yields."""
    found: dict[str, dict[int, dict[tuple[int, int], float]]] = {}
    for row in rows:
        if row.quantity == readings.MAP and (entry := ENTRY.fullmatch(row.where)):
            address, head, i, j = entry[1], *map(int, entry.groups()[1:])
            found.setdefault(address, {}).setdefault(head, {})[i, j] = row.value
    made: dict[str, dict[int, Map]] = {}
    for address, heads in found.items():
        for head, entries in heads.items():
            n = 1 + max(i for i, _ in entries)
            made.setdefault(address, {})[head] = [[entries[i, j] for j in range(n)] for i in range(n)]
    return made


def draw_maps(rows: Sequence[Row], path: Path | str, *, note: str = "") -> Path:
    """Every head's mix on one example, a row a block: red is positive, blue negative.

    Raises:
        ConfigError: the rows hold no map, or the suffix is not png, pdf or svg.
    """
    path, maps = Path(path), maps_of(rows)
    kind_of(path)
    if not maps:
        raise ConfigError("there is no attention map to draw: this model has no mixing matrix.")

    def make() -> Any:
        from matplotlib.figure import Figure

        across, down = _shape(maps)
        figure = Figure(figsize=(1.9 * across + 0.9, 2.0 * down + 0.4), layout="constrained")
        _maps(figure, figure.subplots(down, across, squeeze=False), maps)
        return figure

    return save(make, path, note)


def draw_portrait(record: RunRecord, rows: Sequence[Row], path: Path | str, *, note: str = "") -> Path:
    """One run at a glance: its learning curve, a square a head for what it reads and what is lost without it, and maps.

    Args:
        record: of the run.
        rows: of the probes induction, head_ablation and attention_map on the trained model.
        path: a png, pdf or svg file.
        note: in small print below.
    """
    path, maps = Path(path), maps_of(rows)
    kind_of(path)
    squares = {title: found for title, name in _SQUARES.items() if (found := _by_head(rows, name))}

    def make() -> Any:
        from matplotlib.figure import Figure

        across, down = _shape(maps) if maps else (1, 0)
        width = max(3.6 + 2.7 * len(squares), 1.7 * across + 0.9)
        figure = Figure(figsize=(width, 3.2 + 2.3 * down), layout="constrained")
        parts = figure.subfigures(2, 1, height_ratios=[3.2, 2.3 * down], squeeze=False).flat if maps else [figure]
        top = parts[0].subplots(1, 1 + len(squares), squeeze=False, width_ratios=[1.4, *[1.0] * len(squares)])[0]
        _curve(top[0], record)
        for axes, (title, found) in zip(top[1:], squares.items(), strict=True):
            _square(axes, title, found)
        if maps:
            _maps(parts[1], parts[1].subplots(down, across, squeeze=False), maps)
        return figure

    return save(make, path, note)


_SQUARES = {
    "reads the answer's place\n(induction.retrieval)": "induction.retrieval",
    "reads what followed before\n(induction.repeated)": "induction.repeated",
    "score lost without it\n(head_ablation.mean)": "head_ablation.mean",
}


def _by_head(rows: Sequence[Row], quantity: str) -> dict[tuple[str, int], float]:
    """{(mixer, head): value}; a mixer that does not see its input has none."""
    found = {}
    for row in rows:
        head = readings.HEAD.fullmatch(row.where)
        if row.quantity == quantity and head:
            found[head[1], int(head[2])] = row.value
    return found


def _shape(maps: Mapping[str, Mapping[int, Map]]) -> tuple[int, int]:
    return min(MOST, max(map(len, maps.values()))), min(MOST, len(maps))


def _curve(axes: "Axes", record: RunRecord) -> None:
    name = record.headline["name"]
    scored = [(entry["step"], entry["validation"].get(name)) for entry in record.history if "validation" in entry]
    points = [(step, value) for step, value in scored if value is not None]
    of = readings.metric(name, record.headline, [])
    known = readings.score(record, name, "test", of)
    for value, label, below in ((known.floor, "floor", False), (known.ceiling, "ceiling", True)):
        if math.isfinite(value):
            axes.axhline(value, linestyle=(0, (4, 3)), linewidth=1, color="#888888")
            place: dict[str, Any] = {
                "xytext": (-2, -3 if below else 3),
                "va": "top" if below else "bottom",
                "ha": "right",
            }
            axes.annotate(label, (1, value), xycoords=("axes fraction", "data"), textcoords="offset points",
                          fontsize=7.5, color="#666666", **place)  # fmt: skip
    if points:
        axes.plot(*zip(*points, strict=True), color=PALETTE[0], marker="o", markersize=3.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("step")
    axes.set_ylabel(f"{name} on validation")
    axes.set_title(f"{record.architecture} on {record.task}")
    axes.grid(axis="y", color="#EEEEEE")


def _square(axes: "Axes", title: str, found: Mapping[tuple[str, int], float]) -> None:
    addresses = list(dict.fromkeys(address for address, _ in found))
    n_heads = 1 + max(head for _, head in found)
    values = [[found.get((address, head), math.nan) for head in range(n_heads)] for address in addresses]
    axes.imshow(values, cmap="Reds", vmin=0, vmax=1, aspect="auto")
    for row, line in enumerate(values):
        for column, value in enumerate(line):
            if math.isfinite(value):
                colour = "white" if value > 0.6 else "#222222"
                axes.text(column, row, formats.share(value), ha="center", va="center", fontsize=7.5, color=colour)
    axes.set_xticks(range(n_heads), map(str, range(n_heads)))
    axes.set_yticks(range(len(addresses)), [short(address) for address in addresses])
    axes.set_xlabel("head")
    axes.set_title(title, fontsize=8.5)
    axes.spines[:].set_visible(False)


def _maps(figure: Any, grid: Any, maps: Mapping[str, Mapping[int, Map]]) -> None:
    largest = (
        max(abs(v) for heads in maps.values() for matrix in heads.values() for line in matrix for v in line) or 1.0
    )
    image = None
    for axes in grid.flat:
        axes.set_axis_off()
    for row, (address, heads) in enumerate(list(maps.items())[:MOST]):
        for column, matrix in list(heads.items())[:MOST]:
            axes = grid[row][column]
            axes.set_axis_on()
            image = axes.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, interpolation="nearest")
            axes.set_title(f"{short(address)} head {column}", fontsize=7.5)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(True)
    grid[-1][0].set_xlabel("reads", fontsize=7.5)
    grid[-1][0].set_ylabel("position", fontsize=7.5)
    figure.colorbar(image, ax=list(grid.flat), shrink=0.8, label="mix")
