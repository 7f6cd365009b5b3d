"""What one record says of one metric: its score with its floor and ceiling, what probes found, what became of it."""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

from partwise.records import RunRecord
from partwise.report.statistics import Score, mean_score
from partwise.rows import Row

# bounds of what is no headline, and so comes without a Metric: shares, and amounts that start at zero
SHARES = ("accuracy", "exact_match")
LOWER_IS_BETTER = ("loss", "squared_error", "bits_per_byte", "perplexity")
NO_ADDRESS = ("test", "validation", "train")  # where a row is from that is no probe's
COUNTED = ("trainable_parameters", "total_parameters", "fixed_values")  # of the model, and no probe's either
MAP = "attention_map"  # a row an entry: for a figure of its own
HEAD = re.compile(r"(.*\.mix)\.(\d+)")  # a head's address; it has the same number in every seed and another task
STRONGEST = "strongest head"


def is_score(quantity: str, where: str) -> bool:
    """Whether a row is the model's own number on the test set or a stratum of it."""
    return where.split("/")[0] == "test" and ".floor." not in quantity and not quantity.endswith(".ceiling")


def metric(name: str, headline: dict[str, Any], units: list[str]) -> dict[str, Any]:
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


def score(run: RunRecord, metric: str, split: str, of: dict[str, Any]) -> Score:
    """The number with its floor and ceiling; nan for what is not known."""
    ceiling = run.value(f"{metric}.ceiling", where=split)
    if not math.isfinite(ceiling):
        ceiling = math.nan if of["perfect"] is None else of["perfect"]
    return Score(run.value(metric, where=split), floor(run, metric, split, of)[0], ceiling)


def floor(run: RunRecord, metric: str, split: str, of: dict[str, Any]) -> tuple[float, str | None]:
    """The best of the run's floors, and its name; without any, zero for a headline where higher is better.

    On a stratum it is the one that is best on the whole test set: who always says yes is no floor for the yeses alone.
    """
    start = f"{metric}.floor."
    rows = [row for row in run.rows if row.where == split and row.quantity.startswith(start)]
    rows = [row for row in rows if math.isfinite(row.value)]
    if not rows:
        has_zero = of["better"] == "higher" and metric == run.headline.get("name") and split == "test"
        return (0.0 if has_zero else math.nan), None
    if split != "test":
        whole = floor(run, run.headline.get("name", metric), "test", of)[1]
        rows = [row for row in rows if row.quantity == f"{start}{whole}"] or rows
    best = (max if of["better"] == "higher" else min)(rows, key=lambda row: row.value)
    return best.value, best.quantity.removeprefix(start)


def floors(runs: list[RunRecord], metric: str, split: str) -> dict[str, float]:
    """Every floor by its name, the mean over runs."""
    start = f"{metric}.floor."
    found: dict[str, list[float]] = {}
    for row in (row for run in runs for row in run.rows if row.where == split and row.quantity.startswith(start)):
        found.setdefault(row.quantity.removeprefix(start), []).append(row.value)
    means = {name: mean(values) for name, values in found.items()}
    return {name: value for name, value in means.items() if value is not None}


def pair_key(record: RunRecord) -> tuple[int, int, int]:
    """What two arms share when they are paired: seed, weights and data; the frozen draw is the arm's own."""
    asked = record.experiment
    own = [asked.get(name) for name in ("init_seed", "data_seed")]
    return (record.seed, *(record.seed if seed is None else seed for seed in own))  # type: ignore[return-value]


def frozen_seed(record: RunRecord) -> int:
    """The seed of what never learns."""
    own = [record.experiment.get(name) for name in ("frozen_seed", "init_seed")]
    return next((seed for seed in own if seed is not None), record.seed)


def by_seed(runs: list[RunRecord], scores: list[Score]) -> dict[Any, Score]:
    """One score for each key of pairing."""
    together: dict[Any, list[Score]] = {}
    for run, one in zip(runs, scores, strict=True):
        together.setdefault(pair_key(run), []).append(one)
    return {key: mean_score(same) for key, same in together.items()}


def examples(runs: list[RunRecord], split: str) -> int | None:
    """How many scored test answers a run's scores are made of; a number that a task derives from others counts none."""
    return max((row.n for run in runs for row in run.rows if row.where == split), default=None)


def found_by_probes(rows: Iterable[Row]) -> list[Row]:
    """The rows of probes, but for the entries of maps."""
    own = (row for row in rows if row.where.split("/")[0] not in NO_ADDRESS)
    return [row for row in own if row.quantity not in (*COUNTED, MAP)]


def of_strongest_heads(rows: Iterable[Row]) -> list[Row]:
    """In place of a row a head, the highest of all heads: which head it is differs from seed to seed."""
    found: dict[tuple[str, str, int], Row] = {}
    others = []
    for row in rows:
        if not HEAD.fullmatch(row.where):
            others.append(row)
            continue
        key = (row.quantity, row.unit, row.step)
        if key not in found or row.value > found[key].value:
            found[key] = dataclasses.replace(row, where=STRONGEST)
    return [*found.values(), *others]


def probes(runs: list[RunRecord]) -> dict[tuple[str, str, str], float]:
    """(quantity, unit, address) to what a probe found there in the trained models, the mean over runs."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for run in runs:
        rows = found_by_probes(run.rows)
        end = max((row.step for row in rows), default=0)
        for row in of_strongest_heads(row for row in rows if row.step == end):
            found.setdefault((row.quantity, row.unit, row.where), []).append(row.value)
    means = {key: mean(values) for key, values in found.items()}
    return {key: value for key, value in means.items() if value is not None}


def looks(runs: list[RunRecord]) -> dict[tuple[str, str, str], dict[int, float]]:
    """(quantity, unit, address) to what a probe found there after some steps, the mean over runs; none if only the
    trained model was looked at."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for run in runs:
        for row in of_strongest_heads(found_by_probes(run.rows)):
            found.setdefault((row.quantity, row.unit, row.where), {}).setdefault(row.step, []).append(row.value)
    means = {key: {step: mean(values) for step, values in sorted(at.items())} for key, at in found.items()}
    return {key: {step: v for step, v in at.items() if v is not None} for key, at in means.items() if len(at) > 1}


def notes(runs: list[RunRecord], metric: str) -> list[str]:
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


def count(runs: list[RunRecord], quantity: str, where: str) -> int | None:
    """The mean over runs, as a whole number."""
    found = mean(run.value(quantity, where=where) for run in runs)
    return None if found is None else round(found)


def mean(values: Iterable[float]) -> float | None:
    """Mean of what is finite; None where nothing is."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
