"""Modular addition: a table parted once and for all, mirrors kept together, floors that know how it was parted."""

import pytest
import torch

from partwise.batch import IGNORE
from partwise.errors import ConfigError
from partwise.evaluation import _hits, evaluation_batch
from partwise.seeds import generator_for
from partwise.tasks.modular_addition import ModularAddition

SPLITS = ("train", "validation", "test")


def floors_on_test(**fields):
    data = ModularAddition(**fields).build(seed=0)
    batch = data.all_of("test")
    hits = {name: _hits(said, batch.targets_BL)[0] for name, said in data.floors(batch).items()}
    return {name: right.sum().item() / len(batch) for name, right in hits.items()}


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize(("p", "share"), [(97, 0.9), (7, 0.5)])
def test_the_three_splits_are_the_whole_table_and_share_no_pair(p, share, published):
    data = ModularAddition(p=p, train_share=share, published_split=published).build(seed=0)
    held = [{tuple(pair) for pair in data.all_of(split).tokens_BL.tolist()} for split in SPLITS]
    assert sum(map(len, held)) == len(set.union(*held)) == p**2
    assert len(held[0]) / p**2 == pytest.approx(share, abs=0.5 / p)
    assert abs(len(held[1]) - len(held[2])) <= p


def test_the_papers_table_has_its_size():
    task = ModularAddition(p=599, train_share=0.95, published_split=True)
    assert task.sizes[0] == 340_861  # 340,860 and 17,941 in the paper, which cuts off where we round
    assert sum(task.sizes[1:]) == 17_940


def test_a_pair_and_its_mirror_stay_together_unless_the_split_is_the_published_one():
    for published in (False, True):
        data = ModularAddition(p=31, published_split=published).build(seed=0)
        held = {tuple(pair) for pair in data.all_of("test").tokens_BL.tolist()}
        assert all((b, a) in held for a, b in held) is not published


def test_the_split_hangs_on_the_seed_and_sampling_stays_inside_it():
    one, same, other = (ModularAddition(p=23).build(seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.pairs["test"], same.pairs["test"])
    assert not torch.equal(one.pairs["test"], other.pairs["test"])
    for split in SPLITS:
        drawn = one.sample(5000, split=split, generator=generator_for(0, split)).tokens_BL.unique(dim=0)
        assert torch.equal(drawn, one.all_of(split).tokens_BL.unique(dim=0))  # all of it, and with replacement
        assert torch.equal(evaluation_batch(one, split, n=3, seed=0).tokens_BL, one.pairs[split])


def test_every_answer_is_right_and_each_occurs():
    data = ModularAddition(p=13).build(seed=0)
    batch = data.all_of("train")
    for tokens, targets in zip(batch.tokens_BL.tolist(), batch.targets_BL.tolist(), strict=True):
        assert data.referee(tokens) == targets == [IGNORE, sum(tokens) % 13]
    assert torch.bincount(batch.targets_BL[:, 1], minlength=13).min() > 5


def test_scores_are_split_by_whether_the_sum_wraps_around():
    batch = ModularAddition(p=11).build(seed=0).all_of("train")
    assert torch.equal(batch.strata["wraps"], (batch.tokens_BL.sum(-1) > 10).long())
    assert 0.3 < batch.strata["wraps"].double().mean() < 0.6


def test_the_published_split_is_nearly_solved_by_whoever_remembers_the_mirror():
    assert floors_on_test(published_split=True)["mirror"] == pytest.approx(0.9, abs=0.05)
    assert floors_on_test()["mirror"] < 0.03


def test_what_the_last_token_never_had_in_training_is_the_best_by_the_last_token():
    for published in (False, True):  # one of about 97 * 0.1 unmet answers
        assert floors_on_test(published_split=published)["unmet_by_last_token"] == pytest.approx(0.1, abs=0.04)
    assert floors_on_test(train_share=0.5)["unmet_by_last_token"] == pytest.approx(0.02, abs=0.015)


def test_the_most_frequent_answer_is_near_chance():
    assert floors_on_test()["most_frequent_answer"] == pytest.approx(1 / 97, abs=0.012)


def test_looking_ahead_is_allowed_since_nothing_follows_the_second_number():
    shape = ModularAddition(p=5, train_share=0.5).build(seed=0).shape
    assert (shape.length, shape.vocabulary, shape.may_look_ahead) == (2, 5, True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"p": 1}, "p=1: at least 2 was expected"),
        ({"train_share": 1.0}, "train_share=1.0: a share between 0 and 1"),
        ({"train_share": 0.0}, "train_share=0.0: a share between 0 and 1"),
        ({"p": 2}, r"p=2 has 3 pairs, and train_share=0.9 splits them into 3 \+ 0 \+ 0 for train, validation and test"),
        ({"p": 3, "train_share": 0.01}, r"splits them into 0 \+ 3 \+ 3"),
    ],
)
def test_an_impossible_table_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        ModularAddition(**fields)
