"""From the records of runs to the cells of tables."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from partwise.records import RunRecord
from partwise.report import readings
from partwise.report.cell import RISING, STANDARD, Cell, rank
from partwise.report.paper import paper_values
from partwise.report.readings import mean
from partwise.report.settings import disagreements, flatten, identity, is_own_choice, settings_of
from partwise.report.statistics import interval, retained, wilson


def cells(records: Iterable[RunRecord]) -> list[Cell]:
    """Group runs by task, varying settings, architecture and metric; one cell each, with all that a table says of it.

    Seeds are averaged over; strata of the test set are cells of their own. The same run, met in two folders, counts
    once. Order: task, settings, architecture as in the paper, headline first.
    """
    tasks: dict[str, list[RunRecord]] = {}
    seen: set[tuple[str, str, str]] = set()
    for record in records:
        run = (record.digest, record.architecture, record.matching)
        if not record.digest or run not in seen:
            tasks.setdefault(record.task, []).append(record)
        seen.add(run)
    made = [cell for task in sorted(tasks) for cell in _of_task(task, tasks[task])]
    _compare_with_standard([cell for cell in made if cell.headline])
    return made


def _of_task(task: str, records: list[RunRecord]) -> list[Cell]:
    arms: dict[tuple[str, str], list[tuple[RunRecord, dict[str, Any]]]] = {}
    for record, settings in zip(records, settings_of(records), strict=True):
        arms.setdefault((record.architecture, identity(settings)), []).append((record, settings))
    # a run that failed before it was built knows no headline: another one of the task does
    headline = next((record.headline for record in records if record.headline), {"name": "headline"})
    found = []
    for (architecture, _), members in arms.items():
        runs = sorted((record for record, _ in members), key=lambda record: (readings.pair_key(record), record.digest))
        settings = members[0][1]
        name = runs[0].headline.get("name", headline["name"])
        rows = [row for run in runs for row in run.rows if readings.is_score(row.quantity, row.where)]
        measured = {(row.quantity, row.where): None for row in rows}
        for metric, split in {(name, "test"): None} | measured:
            metric_of = next((run.headline for run in runs if run.headline), headline)
            found.append(_cell(task, architecture, settings, runs, metric, split, metric_of))
    return sorted(found, key=_place)


def _cell(
    task: str,
    architecture: str,
    settings: dict[str, Any],
    runs: list[RunRecord],
    metric: str,
    split: str,
    headline: dict[str, Any],
) -> Cell:
    is_headline = metric == headline["name"] and split == "test"
    of = readings.metric(metric, headline, [row.unit for run in runs for row in run.rows if row.quantity == metric])
    scored = [run for run in runs if run.status == "done" and math.isfinite(run.value(metric, where=split))]
    scores = [readings.score(run, metric, split, of) for run in scored]
    floors = [readings.floor(run, metric, split, of)[1] for run in scored]
    values, closed = [score.value for score in scores], mean(score.closed for score in scores)
    span = mean(score.ceiling - score.floor for score in scores)
    summary = interval(values, of["low"], of["high"], span=span)
    k = sum(score.solved for score in scores) if is_headline else None
    sure = wilson(k, len(scores)) if k is not None and scores else (None, None)
    known = paper_values().get((task, metric, architecture)) if split == "test" else None
    gains = [run.value(f"{metric}.gain_last_tenth", where="validation") for run in scored]
    gain = mean(gains) if is_headline else None
    counted, flat = scored or runs, flatten(runs[0].experiment)
    return Cell(
        task=task,
        architecture=architecture,
        settings=settings,
        metric=metric,
        headline=is_headline,
        unit=of["unit"],
        split=split,
        mean=summary.mean,
        ci_low=summary.low,
        ci_high=summary.high,
        interval=summary.kind,
        n=len(scores),
        n_failed=sum(run.status != "done" for run in runs),
        solved=k,
        floor=mean(score.floor for score in scores),
        ceiling=mean(score.ceiling for score in scores),
        paper=known.value if known else None,
        paper_status=known.status if known else "not known",
        trainable_parameters=readings.count(counted, "trainable_parameters", "model"),
        total_parameters=readings.count(counted, "total_parameters", "model"),
        tokens=readings.count(counted, "tokens", "train"),
        flops=mean(run.value("flops", where="train") for run in counted),
        matching=", ".join(dict.fromkeys(run.matching for run in runs)),
        selection="; ".join(dict.fromkeys(run.selection for run in runs)),
        runs=[run.digest for run in runs],
        lr=flat.get("train.lr"),
        n_examples=readings.examples(scored, split),
        floor_name=max(floors, key=floors.count) if floors else None,
        closed=closed,
        values=values,
        seeds=[run.seed for run in scored],
        solved_low=sure[0],
        solved_high=sure[1],
        paper_setting=f"{known.setting}; {known.source}{known.note and '; ' + known.note}" if known else None,
        still_rising=None if gain is None else (gain if of["better"] == "higher" else -gain) > RISING,
        gain_last_tenth=gain,
        steps=round(sum(run.steps for run in counted) / len(counted)),
        notes=readings.notes(runs, metric) if is_headline else [],
        better=of["better"],
        low=of["low"],
        high=of["high"],
        scores=readings.by_seed(scored, scores),
        draws=[(readings.frozen_seed(run), run.seed) for run in scored],
        experiment=flat,
        outcomes=[(run.status, run.steps) for run in runs if not math.isfinite(run.value(metric, where=split))],
        probes=readings.probes(runs) if is_headline else {},
        looks=readings.looks(runs) if is_headline else {},
    )


def _compare_with_standard(headlines: list[Cell]) -> None:
    for cell in headlines:
        other = reference(cell, headlines)
        if cell.architecture == STANDARD:
            cell.retained_reason = "it is standard"
        elif other is None:
            cell.retained_reason = "no standard arm at the same settings"
        else:
            kept = retained(cell.scores, other.scores)
            cell.retained, cell.retained_low, cell.retained_high = kept.value, kept.low, kept.high
            cell.retained_interval, cell.retained_reason, cell.retained_n = kept.kind, kept.reason, kept.n
        cell.other_steps = other is not None and cell.matching == other.matching == "steps" and _differ(cell, other)


def _differ(cell: Cell, other: Cell) -> bool:
    return cell.experiment.get("train.steps") != other.experiment.get("train.steps")


def reference(cell: Cell, among: Sequence[Cell]) -> Cell | None:
    """The standard arm that a headline cell is measured against: the one that agrees with it in all that varies, else
    the only one that differs in nothing but what an arm chooses for itself (its rate, its mixers), else none."""
    there = [other for other in among if other.task == cell.task and other.architecture == STANDARD]
    differ = [disagreements(cell.settings, cell.experiment, other.settings, other.experiment) for other in there]
    for acceptable in ([not keys for keys in differ], [all(map(is_own_choice, keys)) for keys in differ]):
        if sum(acceptable) == 1:
            return there[acceptable.index(True)]
    return None


def _place(cell: Cell) -> tuple[Any, ...]:
    settings = tuple(
        (key, value if isinstance(value, (int, float)) else math.inf, identity(value))
        for key, value in cell.settings.items()
    )
    stratum, _, level = cell.split.partition("=")
    return (
        *(settings, rank(cell.architecture), not cell.headline, cell.split != "test", cell.metric, stratum),
        *((float(level), "") if level.replace(".", "", 1).isdigit() else (math.inf, level)),
    )
