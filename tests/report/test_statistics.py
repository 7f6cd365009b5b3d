import math
import random

import pytest

from partwise.report.statistics import Score, interval, ratio, retained, two_groups, wilson


def scores(*values, floor=0.0, ceiling=1.0):
    return {seed: Score(value, floor, ceiling) for seed, value in enumerate(values)}


def test_the_t_interval_is_the_one_computed_by_hand():
    # mean .5, sd .1, n 3: half width 4.302653 * .1 / sqrt(3) = .248414
    found = interval([0.4, 0.5, 0.6], 0.0, 1.0)
    assert (found.mean, found.kind) == (pytest.approx(0.5), "t")
    assert (found.low, found.high) == (pytest.approx(0.251586, abs=1e-6), pytest.approx(0.748414, abs=1e-6))


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert interval([0.7], 0.0, 1.0) == interval([0.7], None, None)
    one = interval([0.7], 0.0, 1.0)
    assert (one.mean, one.low, one.high, one.kind) == (0.7, None, None, None)
    assert interval([], 0.0, 1.0).mean is None


def test_two_values_have_a_range_and_no_t_interval():
    found = interval([0.4, 0.6], 0.0, 1.0)
    assert (found.low, found.high, found.kind) == (0.4, 0.6, "range")
    found = retained(scores(0.4, 0.6), scores(1.0, 0.8))
    assert (found.value, found.low, found.high, found.kind) == (
        pytest.approx(1 / 1.8),
        0.4,
        pytest.approx(0.75),
        "range",
    )


def test_the_interval_is_the_range_where_seeds_split_in_two():
    found = interval([0.21, 0.98, 0.2, 0.99], 0.0, 1.0)
    assert (found.low, found.high, found.kind) == (0.2, 0.99, "range")


def test_the_interval_is_the_range_where_all_sit_near_a_bound():
    assert interval([0.98, 0.99, 1.0], 0.0, 1.0).kind == "range"
    assert interval([0.0, 0.02], 0.0, 1.0).kind == "range"
    assert interval([0.97, 0.99, 1.0], 0.0, 1.0).kind == "t"
    assert interval([3990.0, 3930.0], 0.0, 4000.0).kind == "range", "the margin is a share of the scale"


@pytest.mark.parametrize(
    ("values", "split"),
    [
        ([0.2, 0.9], True),
        ([0.2, 0.25, 0.9, 0.95], True),
        ([0.2, 0.4, 0.6, 0.8], False),  # evenly spread: no gap stands out
        ([0.1, 0.31, 0.9], False),  # a gap of .59 is not more than 3 times .21
        ([0.1, 0.29, 0.9], True),
        ([0.80, 0.81, 0.99], False),  # a gap of .18 is less than a fifth of the span
        ([0.5, 0.5, 0.5], False),
        ([0.5], False),
    ],
)
def test_two_groups_need_a_gap_that_stands_out_and_counts(values, split):
    assert two_groups(values, 1.0) is split


def test_a_gap_is_measured_against_the_way_from_floor_to_ceiling():
    values = [0.80, 0.81, 0.95]
    assert interval(values, 0.0, 1.0).kind == "t"
    assert interval(values, 0.0, 1.0, span=0.5).kind == "range"


def test_no_interval_leaves_the_bounds():
    draw = random.Random(0)
    for _ in range(500):
        values = [min(1.0, max(0.0, draw.gauss(draw.random(), 0.3))) for _ in range(draw.randint(2, 6))]
        found = interval(values, 0.0, 1.0)
        assert 0.0 <= found.low <= found.mean + 1e-12 <= found.high + 2e-12 <= 1.0 + 2e-12
        assert found.high <= 1.0


def test_a_metric_without_an_upper_bound_has_an_interval_cut_below_only():
    found = interval([0.5, 5.0, 3.0, 1.5], 0.0, None)
    assert found.low == 0.0
    assert found.high > 5.0


def test_wilson_gives_the_known_values():
    assert wilson(8, 10) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert wilson(0, 5) == (0.0, pytest.approx(0.4345, abs=1e-4))
    assert wilson(5, 5) == (pytest.approx(0.5655, abs=1e-4), 1.0)
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


def test_retained_is_the_ratio_computed_by_hand():
    # above the floor: arm .4 .5 .6, standard .8 .8 .8; R = 1.5 / 2.4; d = -.1 0 .1, sd .1
    found = retained(scores(0.6, 0.7, 0.8, floor=0.2), scores(1.0, 1.0, 1.0, floor=0.2))
    half = 4.302653 * 0.1 / (math.sqrt(3) * 0.8)
    assert found.value == pytest.approx(0.625)
    assert (found.low, found.high) == (pytest.approx(0.625 - half), pytest.approx(0.625 + half))
    assert (found.kind, found.n) == ("t", 3)


def test_retained_pairs_the_seeds_that_both_arms_have():
    arm = {1: Score(0.5, 0.0, 1.0), 2: Score(0.45, 0.0, 1.0), 9: Score(0.0, 0.0, 1.0)}
    found = retained(arm, scores(1.0, 1.0, 0.9))
    assert (found.value, found.n) == (pytest.approx(0.5), 2)
    assert (found.low, found.high) == (pytest.approx(0.5), pytest.approx(0.5)), "half of it, seed by seed"


def test_retained_reads_the_same_where_lower_is_better():
    found = retained(scores(1.0, 1.0, floor=2.0, ceiling=0.0), scores(0.0, 0.0, floor=2.0, ceiling=0.0))
    assert found.value == pytest.approx(0.5)


def test_retained_is_not_given_where_standard_is_not_solved():
    found = retained(scores(0.5, 0.5), scores(0.8, 0.9))
    assert found.value is None
    assert found.reason == "standard is not solved"
    assert retained({}, scores(1.0)).reason == "no run was scored"
    assert retained({5: Score(1, 0, 1)}, scores(1.0)).reason == "no seed is shared with standard"
    assert retained(scores(1.0), {}).reason == "standard has no score"


def test_one_seed_gives_a_ratio_without_an_interval():
    found = retained(scores(0.5), scores(1.0))
    assert (found.value, found.low, found.high, found.kind) == (0.5, None, None, None)


def test_retained_has_the_range_of_the_ratios_where_the_arm_splits():
    found = retained(scores(0.1, 0.95, 0.12), scores(1.0, 1.0, 1.0))
    assert (found.low, found.high, found.kind) == (pytest.approx(0.1), pytest.approx(0.95), "range")


def test_a_ratio_of_means_is_paired_over_the_seeds_that_both_have():
    """2, 4 over 4, 8 is one half in every seed: no spread. Against a simulated ratio, the interval covers."""
    exact = ratio({0: 2.0, 1: 4.0, 2: 1.0, 9: 50.0}, {0: 4.0, 1: 8.0, 2: 2.0})
    assert (exact.mean, exact.low, exact.high, exact.kind) == (0.5, 0.5, 0.5, "t")
    assert ratio({0: 1.0}, {0: 2.0}).low is None
    assert ratio({0: 1.0, 1: 3.0}, {0: 2.0, 1: 2.0}).kind == "range"
    assert ratio({}, {0: 1.0}).mean is None
    law, inside = random.Random(0), 0
    for _ in range(400):
        seeds = {i: law.gauss(10, 1) for i in range(5)}
        one = ratio({i: 0.4 * x + law.gauss(0, 0.3) for i, x in seeds.items()}, seeds)
        inside += one.low <= 0.4 <= one.high
    assert 0.92 < inside / 400 < 0.98
