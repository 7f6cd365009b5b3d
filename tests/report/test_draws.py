"""Whose the variance is: against a hand-made table, simulated ones, and the table that a reader sees."""

import random

import pytest

from partwise.report import draw_share, render


def crossed(effect_of_draw, effect_of_seed, rest=lambda i, j: 0.0):
    return {(i, j): effect_of_draw[i] + effect_of_seed[j] + rest(i, j) for i in range(5) for j in range(3)}


def test_a_table_by_hand():
    """draws 0, 2; seeds 0, 1; rest +-.5: MS_draw 4, MS_seed 1, MS_rest 1, so variances 1.5, 0 and 1."""
    found = draw_share({(0, 0): 0.5, (0, 1): 0.5, (1, 0): 1.5, (1, 1): 3.5})
    assert (found.draw, found.seed, found.rest) == pytest.approx((0.6, 0.0, 0.4))
    assert (found.draws, found.seeds) == (2, 2)


def test_all_is_the_draws_or_all_is_the_seeds():
    steps = [0.0, 1.0, 2.0, 3.0, 4.0]
    draw, seed = draw_share(crossed(steps, [0, 0, 0])), draw_share(crossed([0] * 5, steps))
    assert (draw.draw, draw.seed, draw.rest) == pytest.approx((1, 0, 0))
    assert (draw.low, draw.high) == (1, 1)
    assert (seed.draw, seed.seed, seed.rest) == pytest.approx((0, 1, 0))
    assert (seed.low, seed.high) == (None, None)


@pytest.mark.parametrize("values", [(0.99975, 1, 0.9995), (1, 1, 0.998)])
def test_what_floating_point_leaves_over_is_no_variance(values):
    """A saturated task: only the seeds differ, in the fourth digit."""
    found = draw_share(crossed([0.0] * 5, values))
    assert found.draw == pytest.approx(0, abs=1e-9)
    assert (found.low, found.high) == (None, None)


def test_where_all_runs_agree_there_is_no_share():
    found = draw_share(crossed([0.3] * 5, [0] * 3))
    assert (found.draw, found.low) == (None, None)


def test_only_a_whole_crossing_is_taken_apart():
    table = crossed([0.0, 1.0, 2.0, 3.0, 4.0], [0, 1, 0])
    del table[0, 0]
    assert draw_share(table) is None
    assert draw_share({(0, 0): 1.0, (1, 0): 2.0}) is None


def test_the_interval_covers_the_truth_19_times_in_20():
    """Variances 1 and 1: the ratio is .5. 400 tables; the count's own standard error is 1.1 %."""
    law, inside, shares = random.Random(0), 0, []
    for _ in range(400):
        draws, seeds = ([law.gauss(0, 1) for _ in range(n)] for n in (5, 3))
        found = draw_share(crossed(draws, seeds, lambda i, j: law.gauss(0, 1)))
        inside += found.low <= 0.5 <= found.high
        shares.append(found.draw)
    assert 0.92 < inside / 400 < 0.98
    assert sum(shares) / 400 == pytest.approx(1 / 3, abs=0.05)


def test_a_table_says_whose_the_variance_is(run):
    records = [
        run("frozen_qk", seed, 0.5 + 0.1 * draw + 0.01 * seed, frozen_seed=draw)
        for seed in (0, 1)
        for draw in (3, 4, 5)
    ]
    text = render(records, "text")
    assert "whose variance is it?" in text
    assert "3 x 2" in text
    assert "whose variance" not in render([one for one in records if one.seed == 0], "text")
