"""Needle: the floors are what mathematics says, and every field shows in what is drawn."""

import pytest
import torch

from partwise.batch import IGNORE
from partwise.errors import ConfigError
from partwise.evaluation import _hits
from partwise.seeds import generator_for
from partwise.tasks.needle import Needle

N = 20_000


def draw(n=N, split="train", **fields):
    data = Needle(**fields).build(seed=0)
    return data, data.sample(n, split=split, generator=generator_for(0, f"needle {split}"))


def floor_of(name, **fields):
    data, batch = draw(**fields)
    right, scored = _hits(data.floors(batch)[name], batch.targets_BL)
    assert scored.sum() == N
    return (right & scored).sum().item() / N


def within(share):
    """Four standard errors, and the rounding of a number given to three places."""
    return 4 * (share * (1 - share) / N) ** 0.5 + 0.0005


@pytest.mark.parametrize(("n_pairs", "n_values"), [(5, 255), (10, 255), (8, 31), (3, 2)])
def test_naming_one_value_is_right_by_the_harmonic_number_and_the_chance_of_a_collision(n_pairs, n_values):
    shares = [1 / k + (1 - 1 / k) / n_values for k in range(1, n_pairs + 1)]
    expected = sum(shares) / n_pairs
    assert floor_of("last_value", n_pairs=n_pairs, n_values=n_values) == pytest.approx(expected, abs=within(expected))


@pytest.mark.parametrize(
    ("n_pairs", "n_values", "expected"),
    [(5, 255, 0.463), (10, 255, 0.303), (20, 255, 0.196), (30, 255, 0.155), (40, 255, 0.130), (8, 31, 0.385)],
)
def test_naming_the_most_frequent_value_is_right_as_often_as_was_measured_elsewhere(n_pairs, n_values, expected):
    found = floor_of("most_frequent_value", n_pairs=n_pairs, n_values=n_values)
    assert found == pytest.approx(expected, abs=within(expected))


def test_with_one_pair_both_floors_are_perfect():
    for name in ("last_value", "most_frequent_value"):
        assert floor_of(name, n_pairs=1, n_values=50, n_keys=100) == 1


def histogram(values, low, high):
    return torch.bincount(values, minlength=high + 1)[low : high + 1]


def assert_uniform(counts):
    """Chi-square, at four standard deviations above its mean."""
    expected = counts.sum() / len(counts)
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    free = len(counts) - 1
    assert counts.min() > 0
    assert chi_square < free + 4 * (2 * free) ** 0.5


@pytest.mark.parametrize(("low", "high"), [(1, 8), (3, 5), (5, 10), (4, 4)])
def test_the_number_of_pairs_covers_its_whole_range_evenly(low, high):
    _, batch = draw(min_pairs=low, n_pairs=high)
    counts = histogram(batch.strata["n_pairs"], 0, high)
    assert not counts[:low].any()
    if high > low:
        assert_uniform(counts[low:])
    assert torch.equal(batch.lengths_B, 2 * batch.strata["n_pairs"] + 1)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_every_field_shows_in_what_is_drawn_in_every_split(split):
    data, batch = draw(split=split, n_pairs=4, min_pairs=3, n_keys=11, n_values=9)
    tokens_BL = batch.tokens_BL
    assert tokens_BL.shape == (N, 9)
    assert data.shape.vocabulary == 1 + 9 + 11 + 11
    pairs_BPT = tokens_BL[batch.strata["n_pairs"] == 4][:, :8].unflatten(1, (4, 2))
    assert_uniform(histogram(pairs_BPT[..., 0].flatten() - 10, 0, 10))
    assert_uniform(histogram(pairs_BPT[..., 1].flatten() - 1, 0, 8))
    asked_B = tokens_BL.gather(1, batch.marks["answer"][:, None])[:, 0]
    assert_uniform(histogram(asked_B - 21, 0, 10))
    assert_uniform(histogram(batch.marks["key"][batch.strata["n_pairs"] == 4] // 2, 0, 3))


def test_the_keys_of_an_example_differ():
    _, batch = draw(n_pairs=6, min_pairs=6, n_keys=7, n_values=5)
    keys_BP = batch.tokens_BL[:, 0:12:2]
    assert all(len(set(keys)) == 6 for keys in keys_BP[:500].tolist())


def test_marks_point_at_the_key_its_value_and_the_question():
    data, batch = draw(n=200, n_pairs=5)
    rows = torch.arange(200)
    key_B, source_B, answer_B = (batch.marks[name] for name in ("key", "source", "answer"))
    assert torch.equal(batch.tokens_BL[rows, key_B] + data.n_keys, batch.tokens_BL[rows, answer_B])
    assert torch.equal(batch.tokens_BL[rows, source_B], batch.targets_BL[rows, answer_B])
    assert torch.equal(source_B, key_B + 1)
    assert (batch.targets_BL != IGNORE).sum() == 200


def test_padding_is_zero_and_nothing_else_is():
    _, batch = draw(n=500, n_pairs=5)
    assert torch.equal(batch.tokens_BL != 0, batch.used_BL)


def test_a_worked_example():
    data = Needle(n_pairs=3, n_values=7).build(seed=0)  # values 1..7, keys 8..10, questions 11..13
    tokens = [10, 7, 8, 2, 9, 5, 11]
    assert data.referee(tokens) == [IGNORE] * 6 + [2]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_pairs": 0}, "1 <= min_pairs <= n_pairs"),
        ({"n_pairs": 2, "min_pairs": 3}, "1 <= min_pairs <= n_pairs"),
        ({"n_pairs": 5, "n_keys": 4}, "need as many different keys"),
        ({"n_values": 1}, "nothing to retrieve"),
    ],
)
def test_an_impossible_needle_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Needle(**fields)


def test_a_task_too_small_to_split_says_so():
    data = Needle(n_pairs=1, n_values=2, n_keys=1).build(seed=0)
    with pytest.raises(ConfigError, match="no example of this task falls into the test split: it is too small"):
        data.sample(4, split="test", generator=generator_for(0, "x"))
