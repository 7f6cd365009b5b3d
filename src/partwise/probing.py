"""Probes put to runs that are done, each beside the same model as it was drawn: what `partwise probe` does."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partwise.circuits import INPUT_FREE
from partwise.errors import PartwiseError
from partwise.experiment import Experiment, load_run
from partwise.looking import Looking
from partwise.probes import PROBES
from partwise.records import SELECTION, RunRecord, write_json
from partwise.report import formats, readings
from partwise.report.grid import Grid, without_empty_columns
from partwise.report.heads import draw_maps, short
from partwise.report.settings import in_words, settings_of
from partwise.report.table import grid_text
from partwise.rows import Row

WEIGHTS, KEPT = "model.safetensors", "probes.json"
INTERVAL_FREE = "In brackets: the same model as it was drawn, before any step."
CONSTANT = "(c): not applicable, input-free: the mix does not depend on the tokens; its constant score is given."


@dataclass(frozen=True, kw_only=True)
class Probed:
    """One run, what was found in its trained model, and what in the same model as it was drawn."""

    record: RunRecord
    experiment: Experiment
    trained: list[Row]
    at_start: list[Row]


def run_folders(folder: Path) -> list[Path]:
    """The runs in a folder, or the folder itself, whose weights are kept; those that rates were chosen by left out.

    Raises:
        PartwiseError: there is none.
    """
    found = [path.parent for path in sorted(folder.rglob("record.json"))]
    found = [place for place in found if SELECTION not in place.relative_to(folder).parts]
    whole = [place for place in found if (place / WEIGHTS).is_file()]
    if not whole:
        why = f"{len(found)} records are there, none with its {WEIGHTS}" if found else "no record.json is there"
        raise PartwiseError(f"no run in {folder} can be probed: {why}. Name the --out of a run, or a run's own folder.")
    return whole


def probed(place: Path, probes: Sequence[Any]) -> Probed:
    """Measure the probes on a run's model and on the same one as it was drawn; keep the rows in probes.json there."""
    record = RunRecord.from_file(place / "record.json")
    experiment, model = load_run(place)
    data, drawn = experiment.build()
    seed, size = experiment.seed_of("data"), experiment.test_size
    looking = Looking(data=data, seed=seed, test_size=size, probes=tuple(probes))
    found = Probed(
        record=record,
        experiment=experiment,
        trained=looking.rows(model, record.steps),
        at_start=looking.rows(drawn, 0),
    )
    plain = {name: [dataclasses.asdict(row) for row in getattr(found, name)] for name in ("trained", "at_start")}
    write_json(place / KEPT, {"digest": record.digest, **plain})
    return found


def probe_runs(folder: Path, names: Sequence[str]) -> str:
    """Probe every run in a folder; the table of what was found, and where more is kept.

    One run has a line a head. Of several, a line an arm: the strongest of its heads, the mean over seeds.

    Raises:
        UnknownName: there is no such probe.
        PartwiseError: no run there can be probed.
    """
    probes = [PROBES[name]() for name in names]
    places = run_folders(folder)
    every, lines = [], []
    for place in places:
        if (status := RunRecord.from_file(place / "record.json").status) != "done":
            lines.append(f"{place} is left out: it {status}.")
            continue
        every.append(probed(place, probes))
        if readings.MAP in names and any(row.quantity == readings.MAP for row in every[-1].trained):
            lines.append(f"figure: {draw_maps(every[-1].trained, place / f'{readings.MAP}.png')}")
    grids = [grid for name in names if name != readings.MAP for grid in _grids(name, every)]
    if grids:
        marks = [INTERVAL_FREE]
        marks += [CONSTANT] if any("(c)" in cell for grid in grids for row in grid.rows for cell in row) else []
        grids[-1] = dataclasses.replace(grids[-1], below=marks)
    elif not lines:
        lines.append(f"Nothing was found: {formats.listed(list(names))} does not apply here.")
    kept = f"{KEPT} in {len(every)} folders of runs" if len(every) > 1 else str(places[0] / KEPT)
    tables = [grid_text(grid) for grid in grids]
    return "\n\n".join([*tables, "\n".join([*lines, f"rows: {kept}"])]) + "\n"


def _grids(probe: str, every: Sequence[Probed]) -> list[Grid]:
    if len(every) == 1:
        return _of_one(probe, every[0])
    return _of_many(probe, every)


def _of_one(probe: str, found: Probed) -> list[Grid]:
    """A line a head, a column a quantity."""
    trained, at_start = _named(probe, found.trained), _named(probe, found.at_start)
    title = f"{probe}: {found.experiment.arm} on {found.record.task}, seed {found.record.seed}"
    grid = _grid(title, {short(where): where for where, _ in trained}, trained, at_start, probe, "where")
    return [grid] if grid.rows else []


def _of_many(probe: str, every: Sequence[Probed]) -> list[Grid]:
    """A line an arm."""
    settings = settings_of([one.record for one in every])
    arms: dict[str, list[Probed]] = {}
    for one, own in zip(every, settings, strict=True):
        words = f" ({in_words(own)})" if own else ""
        arms.setdefault(f"{one.record.task}: {one.experiment.arm}{words}", []).append(one)
    trained, at_start = ({} for _ in range(2))
    for arm, runs in arms.items():
        for into, name in ((trained, "trained"), (at_start, "at_start")):
            found: dict[str, list[float]] = {}
            for run in runs:
                for row in readings.of_strongest_heads(getattr(run, name)):
                    if _is_of(probe, row):
                        found.setdefault(row.quantity, []).append(row.value)
            into |= {(arm, quantity): value for quantity, v in found.items() if (value := readings.mean(v)) is not None}
    grid = _grid(
        f"{probe}: the strongest head, the mean over seeds",
        {f"{arm}, {len(runs)} seeds": arm for arm, runs in arms.items()},
        trained,
        at_start,
        probe,
        "arm",
    )
    return [grid] if any(any(row[1:]) for row in grid.rows) else []


def _is_of(probe: str, row: Row) -> bool:
    return row.quantity == probe or row.quantity.startswith(f"{probe}.")


def _named(probe: str, rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    return {(row.where, row.quantity): row.value for row in rows if _is_of(probe, row)}


def _grid(
    title: str,
    labels: dict[str, str],
    trained: dict[tuple[str, str], float],
    at_start: dict[tuple[str, str], float],
    probe: str,
    first: str,
) -> Grid:
    """`labels` are lines to their keys. A quantity and its input-free form share a column."""
    quantities = list(dict.fromkeys(name.removesuffix(INPUT_FREE) for _, name in trained))
    rows = [[label, *(_cell(key, name, trained, at_start) for name in quantities)] for label, key in labels.items()]
    header = [first, *(name.removeprefix(f"{probe}.") for name in quantities)]
    return without_empty_columns(Grid(title, header, rows))


def _cell(
    key: str, quantity: str, trained: dict[tuple[str, str], float], at_start: dict[tuple[str, str], float]
) -> str:
    """'.998 (.112)'; '.251 (c)' for a constant."""
    if (constant := trained.get((key, quantity + INPUT_FREE))) is not None:
        return f"{formats.share(constant)} (c)"
    if (value := trained.get((key, quantity))) is None:
        return ""
    start = at_start.get((key, quantity))
    return formats.share(value) + ("" if start is None else f" ({formats.share(start)})")
