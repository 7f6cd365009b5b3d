"""k-hop: hops by doubling are hops one by one, the floors are what was measured elsewhere, every field shows."""

import pytest
import torch

from partwise.batch import IGNORE
from partwise.errors import ConfigError
from partwise.evaluation import _hits, measure
from partwise.model import ModelConfig, Transformer
from partwise.seeds import generator_for
from partwise.tasks.k_hop import KHop
from partwise.token_mixers.uniform import Uniform


def draw(n=1000, split="train", **fields):
    data = KHop(**fields).build(seed=0)
    return data, data.sample(n, split=split, generator=generator_for(0, f"k_hop {split}"))


def floors_of(**fields):
    data, batch = draw(n=4000, split="test", **fields)
    hits = {name: _hits(said_BL, batch.targets_BL) for name, said_BL in data.floors(batch).items()}
    return {name: (right.sum() / scored.sum()).item() for name, (right, scored) in hits.items()}


def test_a_worked_example():
    data = KHop(length=6, max_hops=2, alphabet=3).build(seed=0)
    a, b, c, nowhere = 0, 1, 2, data.nowhere
    string = [a, b, a, c, b, c]
    by_hops = {
        0: string,
        1: [nowhere, nowhere, b, nowhere, a, b],
        2: [nowhere, nowhere, nowhere, nowhere, b, a],
    }
    for hops, answers in by_hops.items():
        tokens = torch.tensor([[data.no_hops + hops, *string]])
        assert data.referee(tokens[0].tolist()) == [IGNORE, *answers]
        place_L = data._places(tokens[:, 1:], torch.tensor([[hops]]))[0]
        said = [tokens[0, place].item() if place else nowhere for place in place_L.tolist()]
        assert said[1:] == answers


@pytest.mark.parametrize(
    "fields", [{}, {"length": 18, "max_hops": 16}, {"length": 30, "max_hops": 9, "min_hops": 5, "alphabet": 3}]
)
@pytest.mark.parametrize("split", ["train", "test"])
def test_hops_by_doubling_are_hops_one_by_one(fields, split):
    data, batch = draw(n=150, split=split, **fields)
    for tokens, targets in zip(batch.tokens_BL.tolist(), batch.targets_BL.tolist(), strict=True):
        assert data.referee(tokens) == targets


def test_sixteen_hops_alone_have_the_floor_measured_elsewhere():
    found = floors_of(length=98, max_hops=16, min_hops=16)  # .59-.63; the upper end knows which answers exist
    assert max(found.values()) == pytest.approx(0.59, abs=0.01)


def test_the_floor_averaged_over_0_to_16_hops_is_the_one_measured_elsewhere():
    found = floors_of(length=98, max_hops=16)
    assert found["best_by_position_hops_and_symbol"] == pytest.approx(0.48, abs=0.012)
    assert found["best_by_position_hops_and_symbol"] > found["best_by_position_and_hops"] + 0.05


def test_with_no_hop_the_table_by_symbol_is_perfect_and_the_one_without_it_is_at_chance():
    found = floors_of(length=20, max_hops=0)
    assert found["best_by_position_hops_and_symbol"] == 1
    assert found["best_by_position_and_hops"] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize(("low", "high"), [(0, 4), (2, 5), (3, 3)])
def test_hops_cover_their_range_evenly_in_every_split(low, high, split):
    data, batch = draw(n=6000, split=split, length=20, min_hops=low, max_hops=high)
    counts = torch.bincount(batch.strata["hops"], minlength=high + 1)
    assert not counts[:low].any()
    expected = 6000 / (high + 1 - low)
    assert (counts[low:] - expected).abs().max() < 5 * expected**0.5
    assert torch.equal(batch.tokens_BL[:, 0] - data.no_hops, batch.strata["hops"])


@pytest.mark.parametrize("alphabet", [3, 4, 9])
def test_symbols_are_uniform_and_no_two_neighbours_are_equal(alphabet):
    data, batch = draw(n=4000, length=15, alphabet=alphabet)
    symbols_BN = batch.tokens_BL[:, 1:]
    assert data.shape.vocabulary == alphabet + 1 + 5
    assert batch.tokens_BL.shape == (4000, 16)
    assert not (symbols_BN[:, 1:] == symbols_BN[:, :-1]).any()
    for column_B in symbols_BN.unbind(1):
        counts = torch.bincount(column_B, minlength=alphabet)
        assert len(counts) == alphabet
        assert (counts - 4000 / alphabet).abs().max() < 5 * (4000 / alphabet) ** 0.5


def test_an_answer_does_not_hang_on_what_comes_after_it():
    data, batch = draw(n=200, length=20)
    other_BN = batch.tokens_BL[:, 1:].clone()
    other_BN[:, 12:] = (other_BN[:, 12:] + 1) % 4
    place_BL = data._places(batch.tokens_BL[:, 1:], batch.strata["hops"][:, None])
    other_BL = data._places(other_BN, batch.strata["hops"][:, None])
    assert torch.equal(place_BL[:, :13], other_BL[:, :13])
    assert data.shape.may_look_ahead


def test_every_symbol_is_scored_and_the_hop_count_is_not():
    _, batch = draw(n=20)
    assert batch.scored_BL[:, 1:].all() and not batch.scored_BL[:, 0].any()


def test_the_first_symbol_that_has_k_hops_to_go_is_the_one_that_the_message_speaks_of():
    data = KHop(length=10, max_hops=8, min_hops=8, alphabet=3).build(seed=0)
    string = torch.tensor([[0, 1] * 5])
    place_L = data._places(string, torch.tensor([[8]]))[0]
    assert (place_L > 0).tolist() == [False] * 10 + [True]


def test_marks_point_at_the_answer_and_strata_say_whether_it_exists():
    data, batch = draw(n=300, length=12, max_hops=3)
    source_BN, answer_BN = batch.marks["source"], batch.targets_BL[:, 1:]
    exists_BN = batch.strata["exists"][:, 1:].bool()
    assert torch.equal(batch.tokens_BL.gather(1, source_BN)[exists_BN], answer_BN[exists_BN])
    assert (answer_BN[~exists_BN] == data.nowhere).all() and (source_BN[~exists_BN] == 0).all()
    assert (source_BN <= batch.marks["answer"]).all()
    model = Transformer(ModelConfig(n_blocks=1, width=8, token_mixer=Uniform()), data.shape, seed=0)
    found = measure(model, data, batch, split="train", step=0, counts={})
    wheres = {row.where for row in found}
    assert wheres == {"train", *(f"train/hops={k}" for k in range(4)), "train/exists=0", "train/exists=1"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_hops": 3, "max_hops": 2}, "0 <= min_hops <= max_hops"),
        ({"min_hops": -1}, "0 <= min_hops <= max_hops"),
        ({"alphabet": 2}, "alphabet=2: with fewer than 3"),
        ({"length": 10, "max_hops": 16}, "length=10: 16 hops need a string of 18 or more"),
        ({"length": 0, "max_hops": 0}, "length=0: 0 hops need a string of 2 or more"),
    ],
)
def test_an_impossible_string_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        KHop(**fields)


def test_a_task_too_small_to_split_says_so():
    with pytest.raises(ConfigError, match="too small to be split"):
        KHop(length=2, max_hops=0, alphabet=3).build(seed=0).sample(4, split="test", generator=generator_for(0, "x"))
