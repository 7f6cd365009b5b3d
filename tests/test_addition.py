"""Addition: the sums are right, the floors are what was measured elsewhere, and every option shows."""

import pytest
import torch

from partwise.batch import IGNORE
from partwise.errors import ConfigError
from partwise.evaluation import _hits, measure
from partwise.model import ModelConfig, Transformer
from partwise.seeds import generator_for
from partwise.tasks.addition import ANSWER, EQUALS, PAD, PLUS, STOP, Addition, _carry_chain
from partwise.tasks.tables import most_frequent
from partwise.token_mixers.uniform import Uniform


def draw(n=4000, split="train", **fields):
    data = Addition(**fields).build(seed=0)
    return data, data.sample(n, split=split, generator=generator_for(0, f"addition {split}"))


def share_right(predicted_BL, batch):
    right, scored = _hits(predicted_BL, batch.targets_BL)
    return (right.sum() / scored.sum()).item()


def test_a_worked_example_with_a_last_carry():
    data = Addition(n_digits=2).build(seed=0)
    tokens = [8, 5, PLUS, 7, 6, EQUALS, ANSWER + 5, ANSWER + 2, ANSWER + 1]  # 58 + 67 = 125
    assert data.referee(tokens) == [IGNORE] * 5 + [ANSWER + 5, ANSWER + 2, ANSWER + 1, STOP]


def test_a_worked_example_without_one_ends_in_a_stop_that_is_not_scored():
    data = Addition(n_digits=2).build(seed=0)
    tokens = [1, 2, PLUS, 3, 4, EQUALS, ANSWER + 4, ANSWER + 6, STOP]  # 21 + 43 = 64
    assert data.referee(tokens) == [IGNORE] * 5 + [ANSWER + 4, ANSWER + 6, STOP, IGNORE]


def test_published_scoring_leaves_out_the_first_answer_digit_and_scores_what_follows_stop():
    data = Addition(n_digits=2, published_scoring=True).build(seed=0)
    short = [1, 2, PLUS, 3, 4, EQUALS, ANSWER + 4, ANSWER + 6, STOP]
    assert data.referee(short) == [IGNORE] * 6 + [ANSWER + 6, STOP, PAD]
    full = [8, 5, PLUS, 7, 6, EQUALS, ANSWER + 5, ANSWER + 2, ANSWER + 1]
    assert data.referee(full) == [IGNORE] * 6 + [ANSWER + 2, ANSWER + 1, STOP]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("published", [False, True])
def test_the_referee_agrees_with_long_and_short_sums_in_every_split(split, published):
    data, batch = draw(n=300, split=split, n_digits=7, published_scoring=published)
    for tokens, targets in zip(batch.tokens_BL.tolist(), batch.targets_BL.tolist(), strict=True):
        assert data.referee(tokens) == targets
    n_scored_B = batch.scored_BL.sum(-1)
    has_last_carry_B = batch.tokens_BL[:, -1] != STOP
    assert 0 < has_last_carry_B.sum() < 300
    expected_B = torch.full_like(n_scored_B, 8) if published else 8 + has_last_carry_B
    assert torch.equal(n_scored_B, expected_B)


@pytest.mark.parametrize(
    ("name", "expected"), [("best_by_position_and_class", 0.232), ("best_by_position_and_token", 0.265)]
)
def test_tables_counted_on_4000_examples_and_scored_on_the_same_give_the_figures_measured_elsewhere(name, expected):
    data, batch = draw(split="test", n_digits=10, published_scoring=True)
    seen_BL, n_seen = data._seen(batch.tokens_BL)[name]
    own = most_frequent(seen_BL, batch.targets_BL, n_seen=n_seen, n_answers=data.shape.output_width)
    assert share_right(own[seen_BL], batch) == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize(
    ("name", "expected"), [("best_by_position_and_class", 0.228), ("best_by_position_and_token", 0.246)]
)
def test_the_floors_were_counted_on_other_examples_and_so_are_lower(name, expected):
    data, batch = draw(n=20_000, split="test", n_digits=10, published_scoring=True)
    assert share_right(data.floors(batch)[name], batch) == pytest.approx(expected, abs=0.003)


def exact(predicted_BL, batch):
    right, scored = _hits(predicted_BL, batch.targets_BL)
    return (right | ~scored).all(-1)


def test_no_table_ever_has_a_whole_sum_right():
    data, batch = draw(split="test")
    for name, predicted_BL in data.floors(batch).items():
        if name != "no_carry":
            assert exact(predicted_BL, batch).double().mean() < 0.002


def test_who_leaves_out_the_carries_is_right_where_there_is_none():
    data, batch = draw(n=10_000, split="test")
    said_BL = data.floors(batch)["no_carry"]
    assert torch.equal(exact(said_BL, batch), batch.strata["carry_chain"] == 0)
    assert exact(said_BL, batch).double().mean().item() == pytest.approx(36 / 81 * 0.55**4, abs=0.008)
    assert share_right(said_BL, batch) > 0.5
    data, batch = draw(split="test", published_scoring=True)
    assert exact(data.floors(batch)["no_carry"], batch)[batch.strata["carry_chain"] == 0].all()


@pytest.mark.parametrize("n_digits", [1, 2, 5, 18])
def test_numbers_have_as_many_digits_as_asked_for_and_cover_them_all(n_digits):
    data, batch = draw(n_digits=n_digits)
    assert batch.tokens_BL.shape == (4000, 3 * n_digits + 3)
    assert data.shape.length == 3 * n_digits + 3
    for number_BN in (batch.tokens_BL[:, :n_digits], batch.tokens_BL[:, n_digits + 1 : 2 * n_digits + 1]):
        assert set(number_BN[:, -1].tolist()) == set(range(1, 10))  # the first digit, which is written last
        for column_B in number_BN[:, :-1].unbind(1):
            assert torch.bincount(column_B, minlength=10).min() > 300
    assert (batch.tokens_BL[:, n_digits] == PLUS).all() and (batch.tokens_BL[:, 2 * n_digits + 1] == EQUALS).all()


def test_sums_of_eighteen_digits_do_not_overflow():
    data, batch = draw(n=200, n_digits=18)
    assert all(
        data.referee(tokens) == targets
        for tokens, targets in zip(batch.tokens_BL.tolist(), batch.targets_BL.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("first", "second", "chain"),
    [
        ("12", "34", 0),
        ("18", "34", 1),
        ("58", "67", 1),
        ("58", "47", 2),
        ("99999", "00001", 5),
        ("90009", "00991", 3),
        ("50005", "50005", 1),
        ("45454", "54545", 0),
    ],
)
def test_the_carry_chain_is_as_long_as_the_farthest_carry_goes(first, second, chain):
    total = [int(a) + int(b) for a, b in zip(reversed(first), reversed(second), strict=True)]
    assert _carry_chain(torch.tensor([total])).tolist() == [chain]


def test_carry_chains_cover_their_range_and_each_is_what_adding_by_hand_finds():
    _, batch = draw(n=20_000)
    assert set(batch.strata["carry_chain"].tolist()) == set(range(6))
    for tokens, found in zip(batch.tokens_BL[:300].tolist(), batch.strata["carry_chain"].tolist(), strict=False):
        longest = length = 0
        for a, b in zip(tokens[:5], tokens[6:11], strict=True):
            length = 1 if a + b >= 10 else length + 1 if a + b == 9 and length else 0
            longest = max(longest, length)
        assert longest == found


def test_scores_are_split_by_answer_digit_and_by_carry_chain():
    data, batch = draw(n=500, split="test")
    assert batch.strata["digit"][:, 11:].unique(dim=0).tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    model = Transformer(ModelConfig(n_blocks=1, width=8, token_mixer=Uniform()), data.shape, seed=0)
    found = measure(model, data, batch, split="test", step=0, counts={})
    by_digit = {row.where: row.n for row in found if row.where.startswith("test/digit=")}
    assert by_digit["test/digit=0"] == by_digit["test/digit=5"] == 500
    assert by_digit["test/digit=6"] == (batch.tokens_BL[:, -1] != STOP).sum()
    assert {row.where for row in found} >= {"test/carry_chain=0", "test/carry_chain=1", "test/carry_chain=2"}


def test_marks_point_at_the_digits_that_make_an_answer_digit():
    _, batch = draw(n=50, n_digits=3)
    first_BN, second_BN, answer_BN = (
        batch.tokens_BL.gather(1, batch.marks["first"]),
        batch.tokens_BL.gather(1, batch.marks["second"]),
        batch.targets_BL.gather(1, batch.marks["answer"]) - ANSWER,
    )
    lowest_B = (first_BN[:, 0] + second_BN[:, 0]) % 10
    assert torch.equal(answer_BN[:, 0], lowest_B)
    without_carry = (first_BN + second_BN < 10).all(-1)
    assert torch.equal((first_BN + second_BN)[without_carry], answer_BN[without_carry])


def test_a_two_way_model_is_refused_since_the_input_holds_its_own_answers():
    with pytest.raises(ConfigError):
        Transformer(ModelConfig(two_way=True), Addition().build(seed=0).shape, seed=0)


@pytest.mark.parametrize("n_digits", [0, -1, 19])
def test_an_impossible_number_of_digits_is_refused(n_digits):
    with pytest.raises(ConfigError, match=f"n_digits={n_digits}: from 1 to 18 were expected"):
        Addition(n_digits=n_digits)
