"""From the records of runs to the cells of tables."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from partwise.records import RunRecord
from partwise.report.cell import ORDER, RISING, STANDARD, Cell
from partwise.report.paper import paper_values
from partwise.report.settings import disagreements, flatten, identity, is_own_choice, settings_of
from partwise.report.statistics import Score, interval, mean_score, retained, wilson

# bounds of what is no headline, and so comes without a Metric: shares, and amounts that start at zero
SHARES = ("accuracy", "exact_match")
LOWER_IS_BETTER = ("loss", "squared_error")


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
        runs = sorted((record for record, _ in members), key=lambda record: (_pair_key(record), record.digest))
        settings = members[0][1]
        name = runs[0].headline.get("name", headline["name"])
        measured = {
            (row.quantity, row.where): None for run in runs for row in run.rows if _is_score(row.quantity, row.where)
        }
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
    of = _metric(metric, headline, [row.unit for run in runs for row in run.rows if row.quantity == metric])
    scored = [run for run in runs if run.status == "done" and math.isfinite(run.value(metric, where=split))]
    scores = [_score(run, metric, split, of) for run in scored]
    floors = [_floor(run, metric, split, of)[1] for run in scored]
    values, closed = [score.value for score in scores], _mean(score.closed for score in scores)
    span = _mean(score.ceiling - score.floor for score in scores)
    summary = interval(values, of["low"], of["high"], span=span)
    k = sum(score.solved for score in scores) if is_headline else None
    sure = wilson(k, len(scores)) if k is not None and scores else (None, None)
    known = paper_values().get((task, metric, architecture)) if split == "test" else None
    gain = _mean(run.value(f"{metric}.gain_last_tenth", where="validation") for run in scored) if is_headline else None
    counted = scored or runs
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
        floor=_mean(score.floor for score in scores),
        ceiling=_mean(score.ceiling for score in scores),
        paper=known.value if known else None,
        paper_status=known.status if known else "not known",
        trainable_parameters=_count(counted, "trainable_parameters", "model"),
        total_parameters=_count(counted, "total_parameters", "model"),
        tokens=_count(counted, "tokens", "train"),
        flops=_mean(run.value("flops", where="train") for run in counted),
        matching=", ".join(dict.fromkeys(run.matching for run in runs)),
        selection="; ".join(dict.fromkeys(run.selection for run in runs)),
        runs=[run.digest for run in runs],
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
        notes=_notes(runs, metric) if is_headline else [],
        better=of["better"],
        low=of["low"],
        high=of["high"],
        scores=_by_seed(scored, scores),
        experiment=flatten(runs[0].experiment),
        outcomes=[(run.status, run.steps) for run in runs if not math.isfinite(run.value(metric, where=split))],
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
            cell.retained_reason = kept.reason


def reference(cell: Cell, among: Sequence[Cell]) -> Cell | None:
    """The standard arm that a headline cell is measured against: the one that agrees with it in all that varies, else
    the only one that differs in nothing but what an arm chooses for itself (its rate, its mixers), else none."""
    there = [other for other in among if other.task == cell.task and other.architecture == STANDARD]
    differ = [disagreements(cell.settings, cell.experiment, other.settings, other.experiment) for other in there]
    for acceptable in ([not keys for keys in differ], [all(map(is_own_choice, keys)) for keys in differ]):
        if sum(acceptable) == 1:
            return there[acceptable.index(True)]
    return None


def _is_score(quantity: str, where: str) -> bool:
    return where.split("/")[0] == "test" and ".floor." not in quantity and not quantity.endswith(".ceiling")


def _metric(name: str, headline: dict[str, Any], units: list[str]) -> dict[str, Any]:
    """Bounds, unit and direction: the task's own for its headline, else by the kind of number."""
    share = name in SHARES
    usual = {
        "unit": units[0] if units else "",
        "better": "lower" if name in LOWER_IS_BETTER else "higher",
        "low": 0.0 if share or any(units) else None,
        "high": 1.0 if share else None,
        "perfect": 1.0 if share else None,
    }
    return usual | headline if name == headline["name"] else usual


def _score(run: RunRecord, metric: str, split: str, of: dict[str, Any]) -> Score:
    ceiling = run.value(f"{metric}.ceiling", where=split)
    if not math.isfinite(ceiling):
        ceiling = math.nan if of["perfect"] is None else of["perfect"]
    return Score(run.value(metric, where=split), _floor(run, metric, split, of)[0], ceiling)


def _floor(run: RunRecord, metric: str, split: str, of: dict[str, Any]) -> tuple[float, str | None]:
    """The best of the run's floors, and its name; without any, zero for a headline where higher is better."""
    start = f"{metric}.floor."
    rows = [row for row in run.rows if row.where == split and row.quantity.startswith(start)]
    rows = [row for row in rows if math.isfinite(row.value)]
    if not rows:
        has_zero = of["better"] == "higher" and metric == run.headline.get("name") and split == "test"
        return (0.0 if has_zero else math.nan), None
    best = (max if of["better"] == "higher" else min)(rows, key=lambda row: row.value)
    return best.value, best.quantity.removeprefix(start)


def _pair_key(record: RunRecord) -> tuple[int, int, int]:
    """What two arms share when they are paired: seed, weights and data; the frozen draw is the arm's own."""
    asked = record.experiment
    own = [asked.get(name) for name in ("init_seed", "data_seed")]
    return (record.seed, *(record.seed if seed is None else seed for seed in own))  # type: ignore[return-value]


def _by_seed(runs: list[RunRecord], scores: list[Score]) -> dict[Any, Score]:
    together: dict[Any, list[Score]] = {}
    for run, score in zip(runs, scores, strict=True):
        together.setdefault(_pair_key(run), []).append(score)
    return {key: mean_score(same) for key, same in together.items()}


def _notes(runs: list[RunRecord], metric: str) -> list[str]:
    """What happened to single runs; seeds with the same fate share a sentence."""
    fates: dict[str, list[str]] = {}
    for run in runs:
        at = f"{run.status} at step {run.steps}" if run.steps else run.status
        if run.status != "done":
            fate = run.detail if run.detail.startswith(run.status) else f"{at}: {run.detail}" if run.detail else at
        elif not math.isfinite(run.value(metric)):
            fate = f"trained to the end and has no {metric}"
        elif run.stopped_early:
            asked = run.experiment.get("train", {}).get("steps", "?")
            fate = f"stopped early, solved, at step {run.steps} of {asked}"
        else:
            continue
        fates.setdefault(fate.strip().rstrip("."), []).append(str(run.seed))
    return [f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)} {fate}." for fate, seeds in fates.items()]


def _place(cell: Cell) -> tuple[Any, ...]:
    settings = tuple(
        (key, value if isinstance(value, (int, float)) else math.inf, identity(value))
        for key, value in cell.settings.items()
    )
    order = ORDER.index(cell.architecture) if cell.architecture in ORDER else len(ORDER)
    stratum, _, level = cell.split.partition("=")
    return (
        *(settings, order, cell.architecture, not cell.headline, cell.split != "test", cell.metric, stratum),
        *((float(level), "") if level.replace(".", "", 1).isdigit() else (math.inf, level)),
    )


def _count(runs: list[RunRecord], quantity: str, where: str) -> int | None:
    mean = _mean(run.value(quantity, where=where) for run in runs)
    return None if mean is None else round(mean)


def _mean(values: Iterable[float]) -> float | None:
    """Mean of what is finite; None where nothing is."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
