"""What probes found against the step: when a head forms, and what the model loses without it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.errors import ConfigError, did_you_mean
from partwise.records import RunRecord
from partwise.report import readings
from partwise.report.canvas import PALETTE, kind_of, save
from partwise.report.cell import canonical
from partwise.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INPUT_FREE = ".input_free"
UNIFORM = ".uniform"

Line = dict[int, float]  # value by step


def draw_steps(records: Iterable[RunRecord], path: Path | str, quantities: Sequence[str], *, note: str = "") -> Path:
    """Draw what probes found while models trained: a row a task, a panel a quantity, a thin line a seed, a thick mean.

    Of several heads the strongest is drawn; a mixer that does not see its input is dotted, and grey dashes are a head
    that reads all alike. The quantity "" is the task's own score on validation.

    Raises:
        ConfigError: no run here has been probed at more than one step, or has such a quantity.
    """
    path = Path(path)
    kind_of(path)
    done = [record for record in records if record.status == "done"]
    rows = {record.digest: readings.of_strongest_heads(readings.found_by_probes(record.rows)) for record in done}
    known = sorted({row.quantity for found in rows.values() for row in found})
    if len({row.step for found in rows.values() for row in found}) < 2:
        raise ConfigError("no run here was probed at several steps: give probes and probe_at when it is run.")
    for quantity in quantities:
        if quantity and quantity not in known and quantity + INPUT_FREE not in known:
            near = did_you_mean(quantity, known)
            raise ConfigError(f"no probe here found {quantity!r}.{near} There are: {', '.join(known)}.")
    return save(lambda: _figure(done, rows, quantities), path, note)


def _figure(records: Sequence[RunRecord], rows: Mapping[str, list[Row]], quantities: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(record.task for record in records))
    names = canonical({record.architecture for record in records})
    across = min(3, len(quantities))
    down = math.ceil(len(quantities) / across)
    figure = Figure(figsize=(3.5 * across, 2.7 * down * len(tasks) + 0.5), layout="constrained")
    axes = figure.subplots(down * len(tasks), across, squeeze=False)
    for axis in list(axes.flat):
        axis.set_visible(False)
    for row, task in enumerate(tasks):
        mine = [record for record in records if record.task == task]
        for i, quantity in enumerate(quantities):
            axis = axes[row * down + i // across][i % across]
            axis.set_visible(True)
            _panel(axis, mine, rows, quantity, names)
            title = quantity or f"{mine[0].headline['name']} on validation"
            axis.set_title(f"{task}: {title}" if len(tasks) > 1 else title, fontsize=9)
            axis.set_xlabel("step")
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        marks, labels = axis.get_legend_handles_labels()
        handles |= dict(zip(labels, marks, strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    return figure


def _panel(
    axes: "Axes", records: Sequence[RunRecord], rows: Mapping[str, list[Row]], quantity: str, names: Sequence[str]
) -> None:
    for i, name in enumerate(names):
        colour = PALETTE[i % len(PALETTE)]
        for suffix, style in (("", "-"), (INPUT_FREE, ":")):
            lines = [_line(record, rows[record.digest], quantity, suffix) for record in records
                     if record.architecture == name]  # fmt: skip
            lines = [line for line in lines if line]
            for line in lines:
                axes.plot(*zip(*sorted(line.items()), strict=True), style, color=colour, alpha=0.35, linewidth=0.8)
            label = f"{name} (input-free)" if suffix else name
            mean = _mean(lines)
            if mean:
                axes.plot(*zip(*sorted(mean.items()), strict=True), style, color=colour, linewidth=2, label=label)
    chance = _mean([_line(record, rows[record.digest], quantity + UNIFORM, "") for record in records])
    if chance:
        axes.axhline(max(chance.values()), linestyle=(0, (4, 3)), linewidth=1, color="#888888", label="reads all alike")
    axes.set_ylim(min(-0.06, axes.get_ylim()[0]), max(1.04, axes.get_ylim()[1]))
    axes.set_xlim(left=0)
    axes.grid(axis="y", color="#EEEEEE")


def _line(record: RunRecord, rows: Iterable[Row], quantity: str, suffix: str) -> Line:
    """Value by step; the score on validation for the quantity ""."""
    if not quantity:
        name = record.headline["name"]
        scored = ((e["step"], e["validation"].get(name)) for e in record.history if "validation" in e and not suffix)
        return {step: value for step, value in scored if value is not None}
    return {row.step: row.value for row in rows if row.quantity == quantity + suffix and math.isfinite(row.value)}


def _mean(lines: Sequence[Line]) -> Line:
    """Over the lines that have a value there; only steps that most have, so that it does not jump."""
    steps = sorted({step for line in lines for step in line})
    at = {step: [line[step] for line in lines if step in line] for step in steps}
    return {step: math.fsum(values) / len(values) for step, values in at.items() if 2 * len(values) > len(lines)}
