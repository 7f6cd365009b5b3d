"""Answers to "must this part learn?", made of `retained` and its interval; silent where evidence is thin."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.groups import Group, groups
from partwise.report.statistics import SOLVED, two_groups

FLOOR = 0.1  # at most this share of the gain counts as doing nothing of it
ENOUGH = 3  # seeds, below which nothing is inferred


class Meaning(NamedTuple):
    """What an architecture tells when it keeps nearly all, some, or none of what standard has."""

    keeps: str
    partly: str
    loses: str


class Outcome(NamedTuple):
    """What one arm does, as one says it of one and of many."""

    one: str
    many: str
    rest: str


MEANINGS = {
    "frozen_qk": Meaning(
        "queries and keys need not learn", "queries and keys must learn for the rest", "queries and keys must learn"
    ),
    "frozen_mlp": Meaning(
        "the feed-forward need not learn", "the feed-forward must learn for the rest", "the feed-forward must learn"
    ),
    "mixit": Meaning(
        "a random mixing matrix is enough",
        "the random mixing matrix does it in part",
        "the random mixing matrix does not do it",
    ),
    "embeddings_only": Meaning(
        "it is enough that the embeddings learn",
        "learning the embeddings alone does it in part",
        "learning the embeddings alone does not do it",
    ),
    "norms_only": Meaning(
        "it is enough that the norms' gains learn",
        "learning the norms' gains alone does it in part",
        "learning the norms' gains alone does not do it",
    ),
    "frozen_vo": Meaning(
        "values and outputs need not learn",
        "values and outputs must learn for the rest",
        "values and outputs must learn",
    ),
}


def verdicts(cells: Iterable[Cell]) -> dict[tuple[str, str], list[str]]:
    """(task, its settings in words) to sentences.

    With three seeds or more and standard solved, each arm is read by its retained share and interval: it keeps nearly
    all (low end at least .9), does next to nothing (high end at most .1), lies in between, or is not settled (the
    interval straddles a border, or the seeds split into two groups). With fewer seeds the outcome is told and nothing
    inferred. Where standard is not solved, the arms are put in order, with what that order measures. What is inferred
    says of how many seeds and at which sizes.
    """
    return {(group.task, group.label): sentences(group) for group in groups(cells)}


def sentences(group: Group) -> list[str]:
    """The verdict on one group of arms."""
    arms = [cell for cell in group.arms.values() if cell.n]
    standard = group.standard
    if group.any_arm.margin is not None:
        return _apart(arms, standard, group.scope)
    if standard is None:  # measured against one in another row
        return [_verdict(cell, group.scope) for cell in arms if cell.retained is not None and cell.n >= ENOUGH]
    if standard.closed is None or len(arms) < 2:
        return []
    if standard.closed < SOLVED:
        return _unsolved(standard, arms, group.scope)
    if standard.n < ENOUGH:
        return [_few(arms)]
    others = [cell for cell in arms if cell is not standard and cell.retained is not None]
    few = [cell for cell in others if cell.n < ENOUGH]
    return [_verdict(cell, group.scope) for cell in others if cell.n >= ENOUGH] + ([_few(few)] if few else [])


def _apart(arms: Sequence[Cell], standard: Cell | None, scope: str) -> list[str]:
    """What the arms lose, where the best score is not known: told once standard beats the floor by a margin."""
    if standard is None or not standard.n:
        return []
    if not standard.above_margin:
        name, bar = standard.bar
        return [
            f"Too short to tell: standard's {formats.number(standard.mean, standard)} is not {standard.margin:g} "
            f"{_unit(standard)} better than the floor ({name}, "
            f"{formats.number(bar, standard)}), so nothing is learnt of its parts."
        ]
    others = [cell for cell in arms if cell.difference is not None]
    few = [cell for cell in others if min(cell.n, standard.n) < ENOUGH]
    said = [_loses(cell, scope) for cell in others if cell not in few]
    if few:
        named = ", ".join(f"{cell.architecture} {formats.signed(cell.difference or 0.0)}" for cell in few)
        said.append(f"{_of_few(few)}: against standard, {named} {_unit(standard)}. --seeds 5 gives a verdict.")
    return said


def _loses(cell: Cell, scope: str) -> str:
    value, low, high = cell.difference or 0.0, cell.difference_low or 0.0, cell.difference_high or 0.0
    if low <= 0 <= high:
        apart = f"{formats.apart(cell)} {_unit(cell)}"
        return f"{cell.architecture} is not told from standard: {apart} ({_seeds(cell.n, scope)})."
    worse = (value > 0) == (cell.better == "lower")
    ends = sorted((abs(low), abs(high)))
    return (
        f"{cell.architecture} {'loses' if worse else 'gains'} {formats.share(abs(value))} {_unit(cell)} "
        f"[{formats.share(ends[0])}, {formats.share(ends[1])}] against standard ({_seeds(cell.n, scope)})."
    )


def _unit(cell: Cell) -> str:
    """'nats a token' of a loss; else the metric's unit, or its name where it has none: 'of accuracy'."""
    return "nats a token" if cell.unit == "nat" else cell.unit or f"of {cell.metric}"


def _verdict(cell: Cell, scope: str) -> str:
    name, low, high = cell.architecture, cell.retained_low, cell.retained_high
    keeps = "is below the floor" if formats.is_below_floor(cell) else f"keeps {formats.kept(cell)}"
    if cell.still_rising and not cell.solved:
        keeps += f" and still {_rises(cell)}"
    count = f"{cell.solved} of {cell.n} seeds {'solves' if cell.solved == 1 else 'solve'} it"
    if low is None or high is None:
        text = f"{name} {keeps}, of a single shared seed"
    elif two_groups(cell.values, (cell.ceiling or 0.0) - (cell.floor or 0.0)):
        text = f"{name} is not settled, its seeds split into two groups: it {keeps}, and {count}"
    elif low >= SOLVED:
        text = _told(name, 0, keeps)
    elif high <= FLOOR:
        text = _told(name, 2, keeps)
    elif low > FLOOR and high < SOLVED:
        text = _told(name, 1, keeps)
    else:
        text = f"{name} is not settled: it {keeps}, and {count}"
    lost = f"; {cell.n_failed} of {cell.n + cell.n_failed} runs have no score" if cell.n_failed else ""
    return f"{text} ({_seeds(cell.n, scope)}{lost})."


def _told(name: str, outcome: int, keeps: str) -> str:
    if name in MEANINGS:
        return f"{MEANINGS[name][outcome]}: {name} {keeps}"
    return f"{name} {('does without what it lacks', 'does it in part', 'does not do it')[outcome]}: it {keeps}"


def _seeds(n: int, scope: str) -> str:
    """'5 seeds at n_pairs=8, width 64': what a sentence holds for."""
    return f"{n} seed{'s' if n > 1 else ''}{scope and ' at ' + scope}"


def _few(arms: Sequence[Cell]) -> str:
    """What happened, told without inference: who solves it, then the others, from the ceiling down."""
    seeds = _of_few(arms)
    solving = [cell for cell in arms if cell.solved]
    others = sorted((cell for cell in arms if not cell.solved), key=lambda cell: -(cell.closed or 0.0))
    told = [", ".join(_outcomes(some)) for some in (solving, others) if some]
    return f"{seeds}: {'; '.join(told)}. --seeds 5 gives a verdict."


def _of_few(arms: Sequence[Cell]) -> str:
    return "One seed, so no interval" if max(cell.n for cell in arms) == 1 else "Two seeds, too few for a verdict"


def _outcomes(arms: Sequence[Cell]) -> list[str]:
    """Arms of the same outcome share a clause."""
    named: dict[Outcome, list[str]] = {}
    for cell in arms:
        named.setdefault(_outcome(cell), []).append(cell.architecture)
    return [
        f"{formats.listed(names)} {outcome.one if len(names) == 1 else outcome.many} {outcome.rest}"
        for outcome, names in named.items()
    ]


def _outcome(cell: Cell) -> Outcome:
    if cell.solved:
        return Outcome("solves", "solve", "it" if cell.solved == cell.n else f"it with {cell.solved} of {cell.n} seeds")
    rising = f" (and still {_rising(cell)})" if cell.still_rising else ""
    share = round(100 * (cell.closed or 0.0))
    if share <= 0:
        return Outcome("is", "are", f"{'below' if share else 'at'} the floor{rising}")
    return Outcome("closes", "close", f"{share} % of the way from the floor{rising}")


def _unsolved(standard: Cell, arms: Sequence[Cell], scope: str) -> list[str]:
    if standard.solved:
        return [f"standard is solved by {standard.solved} of {standard.n} seeds only: too unsure to measure others by."]
    if standard.closed is not None and standard.closed <= FLOOR:
        (where,) = _outcomes([standard])
        return [f"{where}, so nothing is learnt of its parts: more steps or another rate may do."]
    down = standard.better == "higher"
    ordered = sorted(arms, key=lambda cell: cell.mean or 0.0, reverse=down)
    return [_order(ordered, ">" if down else "<", scope), *_measures(standard, ordered)]


def _order(ordered: Sequence[Cell], sign: str, scope: str) -> str:
    values = [f"{cell.architecture} {formats.number(cell.mean, cell)}" for cell in ordered]
    holds = f" ({_seeds(min(cell.n for cell in ordered), scope)})"
    if any(cell.ci_low is None for cell in ordered):
        return f"Order, without intervals and so unsure: {', '.join(values)}{holds}."
    signs = ["≈" if _overlap(*pair) else sign for pair in itertools.pairwise(ordered)]
    text = values[0] + "".join(f" {sign} {value}" for sign, value in zip(signs, values[1:], strict=True))
    return f"Order: {text}{holds}{'; ≈: their intervals overlap' if '≈' in signs else ''}."


def _measures(standard: Cell, arms: Sequence[Cell]) -> list[str]:
    """Whether the order is one of speed or of capacity, by who still rises."""
    rising = [cell for cell in arms if cell.still_rising]
    if rising:
        gains = [(cell, formats.percent(abs(cell.gain_last_tenth or 0.0))) for cell in rising]
        named = formats.listed([f"{cell.architecture} (by {gain} %)" for cell, gain in gains], quoted=False)
        verb, whose = (_rises(standard), "its") if len(rising) == 1 else (_rises(standard)[:-1], "their")
        rest = "speed, not capacity" if standard in rising else "speed as well as capacity"
        return [f"{named} still {verb} over the last tenth of {whose} steps, so this compares {rest}."]
    if any(cell.still_rising is None or cell.n < ENOUGH for cell in arms):
        return []
    decays = standard.experiment.get("train.decay", "constant") != "constant"
    caution = ", as far as a rate that decays to zero can tell" if decays else ""
    steps = "by more than 2 % over the last tenth of its steps"
    return [f"No arm still {_rises(standard)} {steps}, so this compares capacity{caution}."]


def _rises(cell: Cell) -> str:
    return "rises" if cell.better == "higher" else "falls"


def _rising(cell: Cell) -> str:
    return "rising" if cell.better == "higher" else "falling"


def _overlap(one: Cell, other: Cell) -> bool:
    lows, highs = (one.ci_low, other.ci_low), (one.ci_high, other.ci_high)
    return max(end or 0.0 for end in lows) <= min(end or 0.0 for end in highs)
