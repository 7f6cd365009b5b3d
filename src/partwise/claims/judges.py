"""How a claim is judged. Each function makes a judge, which reads a study and gives a finding.

All rest on what tables show: `retained`, (arm - floor) / (standard - floor) with its 95 % interval over seeds, and how
many seeds solve a task. Nothing is inferred from fewer than three seeds of either, or where standard is not solved;
runs that have no score are told of.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partwise.claims.claim import NOT_RUN, OPEN, Finding, Judge, Study, Verdict
from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.settings import in_words
from partwise.report.statistics import SOLVED, Interval, Retained, ratio, retained, two_groups
from partwise.report.verdict import ENOUGH

QUARTER = 0.25  # of standard's gain: an arm that surely keeps no more does not do the task
MARGIN = 0.05  # of standard's gain: what an arm must lose along a setting to have fallen behind
COUNTS = {"bits": "by loss", "bits_accuracy": "by accuracy", "bits_fano": "Fano"}
PER = "_per_trainable_parameter"
PAPERS_COUNT = "bits_accuracy"

Settings = Mapping[str, Any]
NOWHERE: Settings = {}


def keeps(task: str, arm: str, *at: Settings, metric: str = "", width: int = 0) -> Judge:
    """The arm does as well as standard: confirmed where it surely keeps 90 % of standard's gain over the floor,
    contradicted where it surely keeps less.

    Args:
        task: its name.
        arm: an architecture.
        at: settings; the last one decides (the nearest to the paper's), and all are shown.
        metric: "" is the headline.
        width: that the claim is made for, where width matters: then a narrower arm that fails leaves it open.
    """

    def decide(cell: Cell, kept: Retained) -> tuple[Verdict, str]:
        verdict, why = _keeps(cell, kept)
        ours = cell.experiment.get("model.width") or 0
        if verdict == "contradicted" and ours < width:
            return OPEN, f"{why}; the claim is for width {width}"
        return verdict, why

    return _judged(task, arm, at or (NOWHERE,), metric, decide)


def fails(task: str, arm: str, *at: Settings, metric: str = "") -> Judge:
    """The arm does not do it: confirmed where no seed solves it and it surely keeps at most a quarter of standard's
    gain, contradicted where it surely keeps 90 %; in between it does it in part, and the claim is open."""
    return _judged(task, arm, at or (NOWHERE,), metric, _fails)


def _judged(
    task: str,
    arm: str,
    at: Sequence[Settings],
    metric: str,
    decide: Callable[[Cell, Retained], tuple[Verdict, str]],
) -> Judge:
    def judge(study: Study) -> Finding:
        found = [(study.find(task, arm, metric, **settings), settings) for settings in at]
        ours = "; ".join(told(cell, settings) for cell, settings in found if cell is not None)
        cell, last = found[-1]
        if cell is None:
            return _missing(study, ours, at=last)
        kept = _retained(study, cell)
        verdict, why = _thin(kept) or decide(cell, kept)
        where = [*([_named(last)] if last else []), f"width {cell.experiment.get('model.width')}"]
        return Finding(ours, verdict, f"at {', '.join(where)}: {why}")

    return judge


def _retained(study: Study, cell: Cell) -> Retained:
    """What the cell keeps of standard's gain: the table's own where it is a headline, else made anew."""
    if cell.headline:
        ends = (cell.retained_low, cell.retained_high, cell.retained_interval)
        return Retained(cell.retained, *ends, n=cell.retained_n, reason=cell.retained_reason)
    task = {key: value for key, value in cell.experiment.items() if key.startswith("task.") and key != "task.name"}
    standard = study.find(cell.task, "standard", cell.metric, **task)
    return retained(cell.scores, standard.scores if standard else {})


def _thin(kept: Retained) -> tuple[Verdict, str] | None:
    """Why nothing can be said, where that is so."""
    if kept.value is None:
        return OPEN, f"{kept.reason}, so there is nothing to measure by"
    if kept.n < ENOUGH:
        return OPEN, f"{kept.n} shared seed{'s are' if kept.n > 1 else ' is'} too few"
    return None


def _keeps(cell: Cell, kept: Retained) -> tuple[Verdict, str]:
    low, high = _ends(kept)
    if low >= SOLVED:
        return "confirmed", _said(kept)
    if two_groups(cell.values, (cell.ceiling or 0.0) - (cell.floor or 0.0)):
        return OPEN, f"its seeds split into two groups{_solved(cell)}"
    if high >= SOLVED:
        return OPEN, f"{_said(kept)}: the interval straddles 90 %"
    if _ahead(cell) >= SOLVED:
        return OPEN, f"{_said(kept)}, and it still rises by {_rise(cell)} over the last tenth of its steps"
    return "contradicted", _said(kept)


def _fails(cell: Cell, kept: Retained) -> tuple[Verdict, str]:
    low, high = _ends(kept)
    if low >= SOLVED:
        return "contradicted", _said(kept)
    if cell.solved or high > QUARTER:
        return OPEN, f"{_said(kept)}: it does it in part{_solved(cell)}"
    if _ahead(cell) > SOLVED:
        return OPEN, f"{_said(kept)}, and it still rises by {_rise(cell)} over the last tenth of its steps"
    return "confirmed", _said(kept)


def _ahead(cell: Cell) -> float:
    """Share of the way from floor to ceiling after as many steps again, at the pace of the last tenth."""
    span = abs((cell.ceiling or 0.0) - (cell.floor or 0.0))
    gained = (_ahead_of_itself(cell) - 1.0) * (cell.mean or 0.0)
    return (cell.closed or 0.0) + (gained / span if span else 0.0)


def worsens(task: str, arm: str, path: str) -> Judge:
    """The arm falls behind standard as a setting grows: of standard's gain it surely keeps less, by 5 % at least, at
    the largest value than at the smallest. Below the floor counts as the floor, since floors differ along the axis."""

    def judge(study: Study) -> Finding:
        along = _along(study, task, arm, path)
        ours = "; ".join(told(cell, {path: x}) for x, cell in along)
        kept = [(x, _retained(study, cell)) for x, cell in along]
        kept = [(x, one) for x, one in kept if one.value is not None and one.n >= ENOUGH]
        if len(kept) < 2:
            return _missing(study) if not along else Finding(ours, OPEN, "standard is solved at fewer than two values")
        (first, few), (last, many) = kept[0], kept[-1]
        said = f"{_said(few)} at {_named({path: first})}, and {_said(many)} at {_named({path: last})}"
        if last < along[-1][0]:
            said += f"; standard is not solved at {_named({path: along[-1][0]})}"
        (few_low, few_high), (many_low, many_high) = (_ends(few, least=0.0), _ends(many, least=0.0))
        if many_high < few_low - MARGIN:
            return Finding(ours, "confirmed", said)
        if few_high < many_low - MARGIN:
            return Finding(ours, "contradicted", said)
        return Finding(ours, OPEN, f"{said}: no sure fall; larger values than {along[-1][0]:g} were not run")

    return judge


def rises(task: str, arm: str, metric: str, path: str) -> Judge:
    """The arm's number grows with a setting: surely more at the largest value than at the smallest."""

    def judge(study: Study) -> Finding:
        along = _along(study, task, arm, path, metric)
        if len(along) < 2:
            return _missing(study)
        ours = "; ".join(told(cell, {path: x}) for x, cell in along)
        (first, few), (last, many) = along[0], along[-1]
        said = f"{number(few)} with {first:g}, {number(many)} with {last:g}"
        if min(few.n, many.n) < ENOUGH:
            return Finding(ours, OPEN, "too few seeds")
        if _surely_less(few, many):
            return Finding(ours, "confirmed", said)
        if _surely_less(many, few):
            return Finding(ours, "contradicted", said)
        return Finding(ours, OPEN, f"{said}: the intervals overlap")

    return judge


def ordered(task: str, arms: Sequence[str], **settings: Any) -> Judge:
    """The arms' bits per trainable parameter fall in this order. Judged by accuracy, as the paper counts; all three
    counts are shown. Confirmed where no interval overlaps the next one, contradicted where some pair surely stands the
    other way round; open where the lower of two still rises fast enough to catch up in as many steps again."""

    def judge(study: Study) -> Finding:
        by_count = {}
        for count in COUNTS:
            found = [study.find(task, arm, count + PER, **settings) for arm in arms]
            by_count[count] = [cell for cell in found if cell is not None]
            if len(by_count[count]) < len(arms):
                return _missing(study)
        told_of = {
            count: [f"{cell.architecture} {number(cell)}" for cell in cells] for count, cells in by_count.items()
        }
        ours = "; ".join(f"{how}: {', '.join(told_of[count])}" for count, how in COUNTS.items())
        judged = by_count[PAPERS_COUNT]
        if min(cell.n for cell in judged) < ENOUGH:
            return Finding(ours, OPEN, "too few seeds")
        ahead = {arm: _ahead_of_itself(study.find(task, arm, **settings)) for arm in arms}
        wrong, unsure = [], []
        for a, b in itertools.combinations(judged, 2):
            if _surely_less(a, b, ahead):
                wrong.append(f"{b.architecture} holds more than {a.architecture}")
            elif not _surely_less(b, a, ahead):
                unsure.append(f"{a.architecture} and {b.architecture} are not settled")
        verdict: Verdict = "contradicted" if wrong else OPEN if unsure else "confirmed"
        why = "; ".join([*wrong, *unsure]) or "all are apart"
        return Finding(ours, verdict, why + _rising(study, task, arms, settings))

    return judge


def loses_capacity(task: str, arm: str, **settings: Any) -> Judge:
    """The arm holds fewer bits per trainable parameter than standard: surely less, by each of the three counts, and
    also if it went on rising at the pace of the last tenth for as many steps again. How much less is shown beside the
    paper's share, which is of other sizes, and is no pass mark."""

    def judge(study: Study) -> Finding:
        shares: dict[str, Interval] = {}
        for count in COUNTS:
            ours, theirs = (study.find(task, name, count + PER, **settings) for name in (arm, "standard"))
            if ours is None or theirs is None:
                return _missing(study)
            shares[count] = ratio(by_seed(ours), by_seed(theirs))
            if min(ours.n, theirs.n) < ENOUGH:
                return Finding(f"{COUNTS[count]} {_interval(shares[count])}", OPEN, "too few seeds")
        said = ", ".join(f"{COUNTS[count]} {_interval(one)}" for count, one in shares.items())
        caution = _rising(study, task, (arm, "standard"), settings)
        ours_ahead, theirs_ahead = (_ahead_of_itself(study.find(task, name, **settings)) for name in (arm, "standard"))
        low, high = min(one.low or 0.0 for one in shares.values()), max(one.high or 0.0 for one in shares.values())
        if high * ours_ahead < 1:
            return Finding(said, "confirmed", f"less by all three counts{caution}")
        if low / theirs_ahead > 1:
            return Finding(said, "contradicted", f"more by all three counts{caution}")
        if low > 1 or high < 1:
            how = "more" if low > 1 else "less"
            return Finding(said, OPEN, f"{how} by all three counts, at equal steps{caution}")
        return Finding(said, OPEN, f"the counts do not agree, or their intervals hold 1{caution}")

    return judge


def answer(question: Callable[[Study], str]) -> Judge:
    """A question has an answer and no verdict."""

    def judge(study: Study) -> Finding:
        return Finding(question(study) or f"– (no such runs are in {study.name})", None, "")

    return judge


def told(cell: Cell, settings: Settings = NOWHERE) -> str:
    """'n_pairs=8: .998 [.997–.999], 5/5 solved, floor .352'."""
    parts = [number(cell)]
    parts += [f"{cell.solved}/{cell.n} solved"] if cell.solved is not None else []
    parts += [f"floor {formats.number(cell.floor, cell)}"] if cell.floor is not None else []
    parts += [f"{cell.n_failed} of {cell.n + cell.n_failed} runs without a score"] if cell.n_failed else []
    return (f"{_named(settings)}: " if settings else "") + ", ".join(parts)


def number(cell: Cell) -> str:
    """The mean with its interval, as tables write them."""
    spread = formats.spread(cell)
    return formats.mean(cell) + (f" [{spread}]" if spread else "")


def _said(kept: Retained) -> str:
    """'it keeps 98 % [97, 99] of standard's gain over the floor'."""
    low, high = _ends(kept)
    if high < 0:
        return "it is below the floor"
    ends = "" if math.isinf(low) else f" [{formats.percent(low)}, {formats.percent(high)}]"
    return f"it keeps {formats.percent(kept.value or 0.0)} %{ends} of standard's gain over the floor"


def _solved(cell: Cell) -> str:
    return "" if cell.solved is None else f", and {cell.solved} of {cell.n} seeds solve it"


def _rise(cell: Cell) -> str:
    return f"{100 * abs(cell.gain_last_tenth or 0.0):.1f} %"


def _interval(one: Interval) -> str:
    if one.mean is None:
        return "–"
    ends = "" if one.low is None or one.high is None else f" [{formats.share(one.low)}–{formats.share(one.high)}]"
    return formats.share(one.mean) + ends


def _named(settings: Settings) -> str:
    return in_words({path.replace("__", ".").rsplit(".", 1)[-1]: value for path, value in settings.items()})


def _along(study: Study, task: str, arm: str, path: str, metric: str = "") -> list[tuple[float, Cell]]:
    """The arm's cells by the value of a field."""
    values = {cell.experiment.get(path) for cell in study.cells if (cell.task, cell.architecture) == (task, arm)}
    there = sorted(value for value in values if isinstance(value, (int, float)))
    found = [(x, study.find(task, arm, metric, **{path: x})) for x in there]
    return [(x, cell) for x, cell in found if cell is not None]


def _ends(kept: Retained, *, least: float = -math.inf) -> tuple[float, float]:
    """The interval's ends; without one, nothing is sure."""
    low, high = kept.low, kept.high
    return max(least, -math.inf if low is None else low), max(least, math.inf if high is None else high)


def _surely_less(a: Cell, b: Cell, ahead: Mapping[str, float] = NOWHERE) -> bool:
    """Whether a's interval lies below b's, also if a went on rising."""
    if a.ci_high is None or b.ci_low is None:
        return False
    return a.ci_high * ahead.get(a.architecture, 1.0) < b.ci_low


def _ahead_of_itself(head: Cell | None) -> float:
    """How many times its score an arm would have after as many steps again, at the pace of the last tenth."""
    if head is None or not head.still_rising:
        return 1.0
    return 1.0 + 10 * abs(head.gain_last_tenth or 0.0)


def by_seed(cell: Cell) -> dict[int, float]:
    """Its scores, for pairing with those of another arm."""
    return dict(zip(cell.seeds, cell.values, strict=True))


def _rising(study: Study, task: str, arms: Sequence[str], settings: Settings) -> str:
    """A caution where arms had not come to rest."""
    heads = [study.find(task, arm, **settings) for arm in arms]
    rising = [f"{cell.architecture} by {_rise(cell)}" for cell in heads if cell is not None and cell.still_rising]
    return f"; over the last tenth of their steps scores still rise ({', '.join(rising)})" if rising else ""


def _missing(study: Study, ours: str = "", at: Settings = NOWHERE) -> Finding:
    where = f" at {_named(at)}" if at else ""
    return Finding(ours or "–", NOT_RUN, f"no such runs{where} are in {study.name}")
