"""How a claim is judged. Each function makes a judge, which reads a study and gives a finding.

All rest on what tables show: `retained`, (arm - floor) / (standard - floor) with its 95 % interval over seeds, and how
many seeds solve a task. Nothing is inferred from fewer than three seeds, or where standard is not solved.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from partwise.claims.claim import OPEN, Finding, Judge, Study, Verdict
from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.settings import in_words
from partwise.report.statistics import SOLVED, Interval, ratio, two_groups

ENOUGH = 3  # seeds
HALF = 0.5  # of standard's gain: an arm that surely keeps less fails
COUNTS = {"bits": "by loss", "bits_accuracy": "by accuracy", "bits_fano": "Fano"}
PER = "_per_trainable_parameter"

Settings = Mapping[str, Any]
NOWHERE: Settings = {}


def keeps(task: str, arm: str, *at: Settings, claimed_for: str = "") -> Judge:
    """The arm does as well as standard: confirmed where it surely keeps 90 % of the gain, contradicted where it surely
    keeps less. With several settings, the last one decides (the nearest to the paper's) and all are shown. A claim that
    is made for a size, and for which size matters, is open where a smaller arm fails."""

    def decide(cell: Cell) -> tuple[Verdict, str]:
        verdict, why = _keeps(cell)
        if verdict == "contradicted" and claimed_for:
            return OPEN, f"{why}; ours is {cell.experiment.get('model.width')} wide, and the claim is for {claimed_for}"
        return verdict, why

    return _judged(task, arm, at or (NOWHERE,), decide)


def fails(task: str, arm: str, *at: Settings) -> Judge:
    """The arm does not do it: confirmed where no seed solves it and it surely keeps less than half of the gain,
    contradicted where it surely keeps 90 %."""
    return _judged(task, arm, at or (NOWHERE,), _fails)


def _judged(task: str, arm: str, at: Sequence[Settings], decide: Callable[[Cell], tuple[Verdict, str]]) -> Judge:
    def judge(study: Study) -> Finding:
        found = [study.find(task, arm, **settings) for settings in at]
        cells = [cell for cell in found if cell is not None]
        if found[-1] is None:
            return _missing(study)
        ours = "; ".join(told(cell, settings) for cell, settings in zip(found, at, strict=True) if cell is not None)
        verdict, why = _thin(cells[-1]) or decide(cells[-1])
        return Finding(ours, verdict, f"{_where(at[-1])}{why}")

    return judge


def _where(settings: Settings) -> str:
    return f"at {_named(settings)}: " if settings else ""


def _thin(cell: Cell) -> tuple[Verdict, str] | None:
    """Why nothing can be said, where that is so."""
    if cell.n < ENOUGH:
        return OPEN, f"{cell.n} seeds are too few"
    if cell.retained is None:
        return OPEN, f"{cell.retained_reason}, so there is nothing to measure by"
    return None


def _keeps(cell: Cell) -> tuple[Verdict, str]:
    low, high = _ends(cell)
    if low >= SOLVED:
        return "confirmed", _kept(cell)
    if _splits(cell):
        return OPEN, f"its seeds split into two groups: {cell.solved} of {cell.n} solve it"
    if high < SOLVED:
        return "contradicted", _kept(cell) + _slow(cell)
    return OPEN, f"{_kept(cell)}: the interval straddles 90 %"


def _fails(cell: Cell) -> tuple[Verdict, str]:
    low, high = _ends(cell)
    if not cell.solved and high < HALF:
        return "confirmed", f"no seed solves it, and {_kept(cell)}{_slow(cell)}"
    if low >= SOLVED:
        return "contradicted", _kept(cell)
    return OPEN, f"{_kept(cell)}, and {cell.solved} of {cell.n} seeds solve it"


def _kept(cell: Cell) -> str:
    if formats.is_below_floor(cell):
        return "it is below the floor"
    return f"it keeps {formats.kept(cell)} of standard's gain over the floor"


def _slow(cell: Cell) -> str:
    """A caution where an arm had not come to rest."""
    return f"; it still rises by {_rise(cell)} over the last tenth of its steps" if cell.still_rising else ""


def _rise(cell: Cell) -> str:
    return f"{100 * abs(cell.gain_last_tenth or 0.0):.1f} %"


def worsens(task: str, arm: str, path: str) -> Judge:
    """The arm falls behind standard as a setting grows: its retained share at the largest value is surely below that at
    the smallest."""

    def judge(study: Study) -> Finding:
        along = _along(study, task, arm, path)
        if len(along) < 2:
            return _missing(study)
        ours = "; ".join(told(cell, {path: x}) for x, cell in along)
        kept = [(x, cell) for x, cell in along if cell.retained is not None and cell.n >= ENOUGH]
        if len(kept) < 2:
            return Finding(ours, OPEN, "standard is solved at fewer than two of the values")
        (first, few), (last, many) = kept[0], kept[-1]
        if _ends(many)[1] < _ends(few)[0]:
            return Finding(ours, "confirmed", f"it keeps {_at(path, first, few)} and {_at(path, last, many)}")
        if _ends(few)[1] < _ends(many)[0]:
            return Finding(ours, "contradicted", f"it keeps {_at(path, first, few)} and {_at(path, last, many)}")
        why = f"it keeps {_at(path, first, few)} and {_at(path, last, many)}: the intervals overlap"
        return Finding(ours, OPEN, f"{why}; larger values than {last:g} were not run")

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
        if min(few.n, many.n) < ENOUGH or None in (few.ci_low, few.ci_high, many.ci_low, many.ci_high):
            return Finding(ours, OPEN, "too few seeds")
        if many.ci_low > few.ci_high:  # type: ignore[operator]
            return Finding(ours, "confirmed", said)
        if many.ci_high < few.ci_low:  # type: ignore[operator]
            return Finding(ours, "contradicted", said)
        return Finding(ours, OPEN, f"{said}: the intervals overlap")

    return judge


def ordered(task: str, arms: Sequence[str], count: str, **settings: Any) -> Judge:
    """The arms' bits per trainable parameter fall in this order: confirmed where no interval overlaps the next one,
    contradicted where some pair surely stands the other way round."""

    def judge(study: Study) -> Finding:
        cells = [study.find(task, arm, count + PER, **settings) for arm in arms]
        heads = [study.find(task, arm, **settings) for arm in arms]
        if any(cell is None for cell in cells) or any(cell is None for cell in heads):
            return _missing(study)
        known = [cell for cell in cells if cell is not None]
        ours = ", ".join(f"{cell.architecture} {number(cell)}" for cell in known)
        pairs = list(itertools.pairwise(known))
        wrong = [f"{b.architecture} holds more than {a.architecture}" for a, b in pairs if _surely_less(a, b)]
        unsure = [f"{a.architecture} and {b.architecture} overlap" for a, b in pairs if not _apart(a, b)]
        caution = _rising([head for head in heads if head is not None])
        if wrong:
            return Finding(ours, "contradicted", "; ".join([*wrong, *unsure]) + caution)
        if unsure:
            return Finding(ours, OPEN, "; ".join(unsure) + caution)
        return Finding(ours, "confirmed", f"all intervals are apart{caution}")

    return judge


def proportion(task: str, arm: str, wanted: float, **settings: Any) -> Judge:
    """The arm's bits per trainable parameter are this share of standard's, by each of the three counts; judged by the
    paper's own, accuracy, and open while an arm still rises: then it is a share of speed."""

    def judge(study: Study) -> Finding:
        shares: dict[str, Interval] = {}
        for count in COUNTS:
            ours, theirs = (study.find(task, name, count + PER, **settings) for name in (arm, "standard"))
            if ours is None or theirs is None:
                return _missing(study)
            shares[count] = ratio(_by_seed(ours), _by_seed(theirs))
        said = ", ".join(f"{COUNTS[count]} {_interval(one)}" for count, one in shares.items())
        heads = [study.find(task, name, **settings) for name in (arm, "standard")]
        by_accuracy = shares["bits_accuracy"]
        if by_accuracy.low is None or by_accuracy.high is None:
            return Finding(said, OPEN, "too few seeds")
        inside = by_accuracy.low <= wanted <= by_accuracy.high
        why = f"the paper's {wanted:.2f} is {'inside' if inside else 'outside'} the interval by accuracy"
        caution = _rising([head for head in heads if head is not None])
        if caution:
            return Finding(said, OPEN, why + caution)
        return Finding(said, "confirmed" if inside else "contradicted", why)

    return judge


def answer(question: Callable[[Study], str]) -> Judge:
    """A question has an answer and no verdict."""

    def judge(study: Study) -> Finding:
        text = question(study)
        return Finding(text, None, "") if text else _missing(study)

    return judge


def told(cell: Cell, settings: Settings) -> str:
    """'m=8: .998 [.997, .999], 5/5 solved, floor .352'."""
    parts = [number(cell)]
    parts += [f"{cell.solved}/{cell.n} solved"] if cell.solved is not None else []
    parts += [f"floor {formats.number(cell.floor, cell)}"] if cell.floor is not None else []
    return (f"{_named(settings)}: " if settings else "") + ", ".join(parts)


def number(cell: Cell) -> str:
    """The mean with its interval, as tables write them."""
    spread = formats.spread(cell)
    return formats.mean(cell) + (f" [{spread}]" if spread else "")


def _interval(one: Interval) -> str:
    if one.mean is None:
        return "–"
    ends = "" if one.low is None or one.high is None else f" [{formats.share(one.low)}–{formats.share(one.high)}]"
    return formats.share(one.mean) + ends


def _named(settings: Settings) -> str:
    return in_words({path.replace("__", ".").rsplit(".", 1)[-1]: value for path, value in settings.items()})


def _at(path: str, x: float, cell: Cell) -> str:
    return f"{formats.kept(cell)} at {_named({path: x})}"


def _along(study: Study, task: str, arm: str, path: str, metric: str = "") -> list[tuple[float, Cell]]:
    """The arm's cells by the value of a field."""
    values = {cell.experiment.get(path) for cell in study.cells if (cell.task, cell.architecture) == (task, arm)}
    there = sorted(value for value in values if isinstance(value, (int, float)))
    found = [(x, study.find(task, arm, metric, **{path: x})) for x in there]
    return [(x, cell) for x, cell in found if cell is not None]


def _ends(cell: Cell) -> tuple[float, float]:
    low, high = cell.retained_low, cell.retained_high
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _splits(cell: Cell) -> bool:
    return two_groups(cell.values, (cell.ceiling or 0.0) - (cell.floor or 0.0))


def _apart(a: Cell, b: Cell) -> bool:
    return _surely_less(a, b) or _surely_less(b, a)


def _surely_less(a: Cell, b: Cell) -> bool:
    return a.ci_high is not None and b.ci_low is not None and a.ci_high < b.ci_low


def _by_seed(cell: Cell) -> dict[int, float]:
    return dict(zip(cell.seeds, cell.values, strict=True))


def _rising(heads: Sequence[Cell]) -> str:
    rising = [f"{cell.architecture} by {_rise(cell)}" for cell in heads if cell.still_rising]
    return f"; over the last tenth of the steps still rise {', '.join(rising)}, so speed counts too" if rising else ""


def _missing(study: Study) -> Finding:
    return Finding("–", OPEN, f"no such runs are in {study.name}")
