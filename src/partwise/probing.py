"""Probes put to runs that are done, each beside the same model as it was drawn: what `partwise probe` does."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from partwise.circuits import INPUT_FREE
from partwise.errors import PartwiseError
from partwise.execution import choose_execution
from partwise.experiment import Experiment, load_run
from partwise.looking import Looking
from partwise.probes import PROBES
from partwise.records import SELECTION, RunRecord, write_json
from partwise.report import formats, readings
from partwise.report.grid import Grid
from partwise.report.heads import draw_maps, short
from partwise.report.settings import in_words, settings_of
from partwise.report.table import grid_text
from partwise.rows import Row

WEIGHTS, KEPT = "model.safetensors", "probes.json"
BEFORE = "In brackets: the same model as it was drawn, before any step."
CONSTANT = "c: not applicable, input-free: the mix does not depend on the tokens, and this is its constant score."


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
    with choose_execution(model).in_force():  # its threads: with more than a small model is worth, each waits for all
        trained, at_start = looking.rows(model, record.steps), looking.rows(drawn, 0)
    found = Probed(record=record, experiment=experiment, trained=trained, at_start=at_start)
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
    if not grids and len(lines) < len(every):
        lines.append(f"Nothing was found: {formats.listed(list(names))} does not apply here.")
    if grids:
        marks = [BEFORE]
        marks += [CONSTANT] if any(cell.endswith(" c") for grid in grids for row in grid.rows for cell in row) else []
        grids[-1] = dataclasses.replace(grids[-1], below=marks)
    lines.append(f"rows: {KEPT} in each run's folder" if len(every) > 1 else f"rows: {places[0] / KEPT}")
    return "\n\n".join([*(grid_text(grid) for grid in grids), "\n".join(lines)]) + "\n"


def _grids(probe: str, every: Sequence[Probed]) -> list[Grid]:
    """Heads in a grid of their own: a line a head of one run; of several, a line an arm. Below, what is the model's."""
    arms: dict[str, list[Probed]] = {}
    for one, own in zip(every, settings_of([one.record for one in every]), strict=True):
        arms.setdefault(f"{one.record.task} {one.experiment.arm}{f' {in_words(own)}' if own else ''}", []).append(one)
    if len(every) == 1:
        title, first = f"{probe}: {next(iter(arms))}, seed {every[0].record.seed}", "head"
    else:
        title, first = f"{probe}: the strongest head, the mean over seeds", "arm"
    grids = []
    for of_heads in (True, False):
        trained, at_start = (_lines(probe, arms, name, of_heads) for name in ("trained", "at_start"))
        names = list(dict.fromkeys(name.removesuffix(INPUT_FREE) for line in trained.values() for name in line))
        columns = [[_cell(name, trained[line], at_start.get(line, {})) for line in trained] for name in names]
        shorter = [name.removeprefix(f"{probe}.") for name in names]
        if of_heads:
            grids.append(Grid(title, [first, *shorter], [list(row) for row in zip(trained, *columns, strict=True)]))
        else:  # many numbers and few lines
            rows = [[name, *column] for name, column in zip(shorter, columns, strict=True)]
            grids.append(Grid(f"{probe}, the model as a whole", ["quantity", *trained], rows))
    return [grid for grid in grids if grid.rows]


def _lines(
    probe: str, arms: Mapping[str, Sequence[Probed]], name: Literal["trained", "at_start"], of_heads: bool
) -> dict[str, dict[str, float]]:
    """{head or arm: {quantity: value}}; of a single run its heads, or the model."""
    every = [run for runs in arms.values() for run in runs]
    if len(every) == 1:
        return _by_place(probe, getattr(every[0], name), of_heads)
    means = {arm: _means(probe, [getattr(run, name) for run in runs], of_heads) for arm, runs in arms.items()}
    return {arm: found for arm, found in means.items() if found}


def _by_place(probe: str, rows: Sequence[Row], of_heads: bool) -> dict[str, dict[str, float]]:
    """{head, or `model`: {quantity: value}} of one run."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if _is_of(probe, row) and bool(readings.HEAD.fullmatch(row.where)) == of_heads:
            found.setdefault(short(row.where), {})[row.quantity] = row.value
    return found


def _means(probe: str, every: Sequence[Sequence[Row]], of_heads: bool) -> dict[str, float]:
    """{quantity: mean over the runs that have it}, of each run's strongest head."""
    found: dict[str, list[float]] = {}
    for row in (row for rows in every for row in readings.of_strongest_heads(rows)):
        if _is_of(probe, row) and (row.where == readings.STRONGEST) == of_heads:
            found.setdefault(row.quantity, []).append(row.value)
    means = {quantity: readings.mean(values) for quantity, values in found.items()}
    return {quantity: mean for quantity, mean in means.items() if mean is not None}


def _is_of(probe: str, row: Row) -> bool:
    return row.quantity == probe or row.quantity.startswith(f"{probe}.")


def _cell(quantity: str, trained: dict[str, float], at_start: dict[str, float]) -> str:
    """'.998 (.112)'; '.251 c' for a constant."""
    if (constant := trained.get(quantity + INPUT_FREE)) is not None:
        return f"{formats.share(constant)} c"
    if (value := trained.get(quantity)) is None:
        return ""
    start = at_start.get(quantity)
    return formats.share(value) + ("" if start is None else f" ({formats.share(start)})")
