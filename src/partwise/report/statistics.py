"""What a handful of seeds can say: intervals that stay honest where trainings are two-valued."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["t", "range", "bootstrap"]

SOLVED = 0.9  # of the way from floor to ceiling
T_NEEDS = 3  # values; with two, t(.975, 1) = 12.7 makes an interval that says nothing
AT_BOUND = 0.02  # of the metric's scale
GAP_TO_SPREAD = 3  # two groups: the gap is this many times the spread inside them ...
GAP_TO_SPAN = 0.2  # ... and at least this share of the way from floor to ceiling


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval.

    Args:
        mean: of the values; None if there are none.
        low: lower end; None with fewer than two values.
        high: upper end.
        kind: t (Student), range (least and largest value), bootstrap, or None where there is no interval.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    kind: Kind | None = None


@dataclass(frozen=True)
class Score:
    """One run's headline with what it must be read against."""

    value: float
    floor: float
    ceiling: float

    @property
    def above(self) -> float:
        """Distance from the floor; negative where lower is better."""
        return self.value - self.floor

    @property
    def closed(self) -> float:
        """Share of the way from floor to ceiling, (value - floor) / (ceiling - floor); nan where they coincide.

        Numerator and denominator change sign together, so it reads the same where lower is better.
        """
        span = self.ceiling - self.floor
        return self.above / span if span else math.nan

    @property
    def solved(self) -> bool:
        """At least 90 % of the way."""
        return self.closed >= SOLVED


def mean_score(scores: Sequence[Score]) -> Score:
    """One score for runs that share a seed and differ in the frozen draw only: they are no pairs of their own."""
    parts = ([s.value for s in scores], [s.floor for s in scores], [s.ceiling for s in scores])
    return Score(*(math.fsum(part) / len(scores) for part in parts))


@dataclass(frozen=True)
class Retained:
    """How much of the standard arm's gain over the floor an arm keeps.

    Args:
        value: the ratio; None where it is not given.
        low: lower end of its 95 % interval; None where there is no interval.
        high: upper end.
        kind: of the interval.
        n: seeds that both arms share.
        reason: why `value` is None, else "".
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    kind: Kind | None = None
    n: int = 0
    reason: str = ""


def two_groups(values: Sequence[float], span: float) -> bool:
    """Whether the values fall into two groups, cut at the largest gap between neighbours:

        gap > 3 * max(range of the left group, range of the right group)   and   gap >= .2 * span

    Source: ours. Small trainings are solved or not; a mean with a t interval would describe a run that never happens.

    Args:
        values: one a seed.
        span: the distance from floor to ceiling, or the metric's whole scale.
    """
    ordered = sorted(values)
    if len(ordered) < 2:
        return False
    cut = max(range(1, len(ordered)), key=lambda i: ordered[i] - ordered[i - 1])
    gap = ordered[cut] - ordered[cut - 1]
    spread = max(ordered[cut - 1] - ordered[0], ordered[-1] - ordered[cut])
    return gap > GAP_TO_SPREAD * spread and gap > 0 and gap >= GAP_TO_SPAN * abs(span)


def interval(values: Sequence[float], low: float | None, high: float | None, *, span: float | None = None) -> Interval:
    """The mean with a 95 % interval:

        mean +- t(.975, n - 1) * sd / sqrt(n),    cut at the metric's bounds

    It is the range of the values, and marked so, where they are two, fall into two groups, or all lie within .02 of
    the scale of a bound: there a t interval is too wide and means nothing on one side at least.

    Args:
        values: one a seed.
        low: the metric's lower bound; None if it has none.
        high: the upper bound.
        span: from floor to ceiling, against which a gap is measured; None is the metric's scale, `high - low`, or
            the largest magnitude of an unbounded one.

    Source: Student 1908; the range rule is ours.
    """
    if not values:
        return Interval(None)
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Interval(mean)
    bounded = low is not None and high is not None
    scale = high - low if bounded else max(map(abs, values))  # type: ignore[operator]
    near = AT_BOUND * scale + 1e-12  # .98 is within .02 of 1, whatever floating point says
    at_bound = any(b is not None and all(abs(value - b) <= near for value in values) for b in (low, high))
    if len(values) < T_NEEDS or at_bound or two_groups(values, span or scale):
        return Interval(mean, _within(min(values), low, high), _within(max(values), low, high), "range")
    half = t_quantile(len(values) - 1) * _sd(values) / math.sqrt(len(values))
    return Interval(mean, _within(mean - half, low, high), _within(mean + half, low, high), "t")


def wilson(k: int, n: int) -> tuple[float, float]:
    """95 % interval of a share k of n, which stays inside [0, 1] and is not empty at k = 0 or n:

        (p + z^2/2n +- z sqrt(p(1 - p)/n + z^2/4n^2)) / (1 + z^2/n),    p = k/n, z = 1.96

    Source: Wilson 1927.

    Raises:
        ValueError: not 0 <= k <= n with n at least 1.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"{k} of {n}: 0 <= k <= n and n >= 1 were expected.")
    z, share = 1.959963984540054, k / n
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = ((middle + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return (0.0 if k == 0 else low), (1.0 if k == n else high)  # exact there; rounding would leave [0, 1]


def retained(arm: Mapping[Any, Score], standard: Mapping[Any, Score]) -> Retained:
    """What an arm keeps of the standard arm's gain over the floor, paired over the seeds that both have:

        R = sum_i (arm_i - floor_i) / sum_i (standard_i - floor_i)
        d_i = (arm_i - floor_i) - R (standard_i - floor_i),    se = sd(d) / (sqrt(n) |mean_i (standard_i - floor_i)|)
        R +- t(.975, n - 1) se

    Where seeds are two, or the arm's fall into two groups, the interval is the range of the seeds' own ratios. One
    seed has none.
    R is not given where standard is not solved: a ratio to a failure says nothing.

    Source: the ratio estimator and its linearisation, Cochran 1977, Sampling Techniques, chapter 6.

    Args:
        arm: seed to score.
        standard: seed to score of the arm in which everything learns.
    """
    if not standard:
        return Retained(reason="standard has no score")
    closed = math.fsum(score.closed for score in standard.values()) / len(standard)
    if not closed >= SOLVED:
        return Retained(reason="standard is not solved")
    seeds = [seed for seed in arm if seed in standard]
    if not seeds:
        return Retained(reason="no seed is shared with standard" if arm else "no run was scored")
    ours, theirs = [arm[seed].above for seed in seeds], [standard[seed].above for seed in seeds]
    n, whole = len(seeds), math.fsum(theirs)
    if not whole:
        return Retained(reason="standard is at its floor on the shared seeds")
    share = math.fsum(ours) / whole
    if n == 1:
        return Retained(share, n=1)
    spans = [standard[seed].ceiling - standard[seed].floor for seed in seeds]
    if (n < T_NEEDS or two_groups([arm[seed].value for seed in seeds], math.fsum(spans) / n)) and all(theirs):
        ratios = [a / s for a, s in zip(ours, theirs, strict=True)]
        return Retained(share, min(ratios), max(ratios), "range", n)
    half = _half_width(ours, theirs)
    return Retained(share, share - half, share + half, "t", n)


def difference(arm: Mapping[Any, Score], standard: Mapping[Any, Score]) -> Interval:
    """How the arm's score differs from standard's, paired over the seeds that both have:

        d_i = arm_i - standard_i,    mean(d) +- t(.975, n - 1) sd(d) / sqrt(n)

    For scores whose best nobody knows, so that `retained` means nothing. None for no shared seed, no interval for one,
    the range for two."""
    each = [arm[seed].value - standard[seed].value for seed in arm if seed in standard]
    if len(each) < T_NEEDS:
        ends = (min(each), max(each), "range") if len(each) == 2 else (None, None, None)
        return Interval(math.fsum(each) / len(each) if each else None, *ends)
    middle, half = math.fsum(each) / len(each), t_quantile(len(each) - 1) * _sd(each) / math.sqrt(len(each))
    return Interval(middle, middle - half, middle + half, "t")


def ratio(ours: Mapping[Any, float], theirs: Mapping[Any, float]) -> Interval:
    """The ratio of two means that are paired over seeds, sum_i ours_i / sum_i theirs_i, with the interval of `retained`
    (which is this with the floors taken off); none for one seed, the range of the seeds' own ratios for two."""
    seeds = [seed for seed in ours if seed in theirs]
    a, b = [ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]
    whole = math.fsum(b)
    if not seeds or not whole:
        return Interval(None)
    found = math.fsum(a) / whole
    if len(seeds) < T_NEEDS:
        each = [one / other for one, other in zip(a, b, strict=True) if other]
        return Interval(found) if len(each) < 2 else Interval(found, min(each), max(each), "range")
    half = _half_width(a, b)
    return Interval(found, found - half, found + half, "t")


def _half_width(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Of the 95 % interval of sum(ours) / sum(theirs), by the ratio estimator's linearisation."""
    n, whole = len(ours), math.fsum(theirs)
    found = math.fsum(ours) / whole
    residuals = [one - found * other for one, other in zip(ours, theirs, strict=True)]
    return t_quantile(n - 1) * _sd(residuals) / (math.sqrt(n) * abs(whole / n))


def t_quantile(freedom: int) -> float:
    """The .975 quantile of Student's t."""
    from scipy.special import stdtrit  # scipy is slow to import, and `partwise --help` does without

    return float(stdtrit(freedom, 0.975))


def _sd(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _within(value: float, low: float | None, high: float | None) -> float:
    value = value if low is None else max(low, value)
    return value if high is None else min(high, value)
