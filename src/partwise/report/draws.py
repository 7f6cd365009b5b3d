"""How much of what differs between runs is due to the frozen draw?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

ROUNDING = 1e-12  # a mean square below this share of the others is floating point, not variance


@dataclass(frozen=True)
class DrawShare:
    """The variance of a score, taken apart.

    Args:
        draws: how many frozen draws.
        seeds: how many seeds of all else.
        sd: of all runs.
        draw: share of the variance that is the frozen draw's; None where all runs agree.
        seed: share of the seed that sets data and the weights that learn.
        rest: share of what neither explains alone.
        low: lower end of the 95 % interval of draw / (draw + rest).
        high: upper end; both None where neither the draw nor the rest varies.
    """

    draws: int
    seeds: int
    sd: float
    draw: float | None
    seed: float | None
    rest: float | None
    low: float | None
    high: float | None


def draw_share(scores: Mapping[tuple[int, int], float]) -> DrawShare | None:
    """Two-way random effects without replication, a draws crossed with b seeds:

        y_ij = mu + draw_i + seed_j + rest_ij
        var_rest = MS_rest,  var_draw = max(0, MS_draw - MS_rest) / b,  var_seed = max(0, MS_seed - MS_rest) / a
        share = var_draw / (var_draw + var_seed + var_rest)

    and for var_draw / (var_draw + var_rest) the exact interval from F = MS_draw / MS_rest with a - 1 and
    (a - 1)(b - 1) degrees of freedom: L / (1 + L), L = (F / F_q - 1) / b, cut at 0.

    Source: Searle, Casella, McCulloch 1992, Variance Components, chapter 4.

    Args:
        scores: by (frozen seed, the seed of all else).

    Returns:
        None unless at least two draws are crossed with at least two seeds, each pair there once.
    """
    draws, seeds = sorted({i for i, _ in scores}), sorted({j for _, j in scores})
    a, b = len(draws), len(seeds)
    if a < 2 or b < 2 or len(scores) != a * b:
        return None
    mean = math.fsum(scores.values()) / (a * b)
    of_draw = {i: math.fsum(scores[i, j] for j in seeds) / b for i in draws}
    of_seed = {j: math.fsum(scores[i, j] for i in draws) / a for j in seeds}
    ms_draw = b * math.fsum((of_draw[i] - mean) ** 2 for i in draws) / (a - 1)
    ms_seed = a * math.fsum((of_seed[j] - mean) ** 2 for j in seeds) / (b - 1)
    ms_rest = math.fsum((scores[i, j] - of_draw[i] - of_seed[j] + mean) ** 2 for i in draws for j in seeds)
    ms_rest /= (a - 1) * (b - 1)
    draw, seed = max(0.0, ms_draw - ms_rest) / b, max(0.0, ms_seed - ms_rest) / a
    whole = draw + seed + ms_rest
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in scores.values()) / (a * b - 1))
    if whole <= 1e-18:
        return DrawShare(a, b, sd, None, None, None, None, None)
    low, high = (_ratio(ms_draw, ms_rest, a, b, tail) for tail in (0.975, 0.025))
    if ms_rest <= ROUNDING * (ms_draw + ms_seed):  # nothing is left over: all of it is the draw's, or there is none
        low = high = 1.0 if ms_draw > ROUNDING * ms_seed else None
    return DrawShare(a, b, sd, draw / whole, seed / whole, ms_rest / whole, low, high)


def _ratio(ms_draw: float, ms_rest: float, a: int, b: int, tail: float) -> float | None:
    from scipy.special import fdtri  # slow to import

    if ms_rest <= 0:
        return None
    above = max(0.0, (ms_draw / ms_rest / float(fdtri(a - 1, (a - 1) * (b - 1), tail)) - 1) / b)
    return above / (1 + above)
