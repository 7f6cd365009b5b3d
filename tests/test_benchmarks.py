"""The benchmark compares like with like: both sides have the same parameters, lose the same, and learn the same."""

import math

import pytest
import torch

pytest.importorskip("transformers", reason="the peer is Hugging Face's; `make bench` installs it")

from benchmarks import ours, peer
from benchmarks.__main__ import line
from benchmarks.pairs import Bench, Measured, interleaved
from benchmarks.steps import check_agreement
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.tasks.needle import Needle

TASKS = {"ragged": Needle(n_pairs=5), "full": RandomText(length=12, vocabulary=40)}


@pytest.fixture(params=["standard", "mixit"])
def arm(request):
    return request.param


@pytest.fixture(params=TASKS)
def sides(request, arm):
    """Our model, its twin, and batches for both."""
    work = Work(arm=arm, task=TASKS[request.param], width=32, batch=16)
    model = work.model()
    return model, peer.twin(model), [work.draw(step) for step in range(4)]


def test_both_sides_have_the_same_parameters(sides):
    """Nothing differs: the fixed matrix is a buffer on both sides, and MixiT's positions are learned on both."""
    model, llama, _ = sides
    count = sum(parameter.numel() for parameter in model.parameters())
    assert sum(parameter.numel() for parameter in llama.parameters()) == count


def test_both_sides_lose_the_same_before_and_after_each_step(sides):
    model, llama, batches = sides
    our_step, their_step = ours.stepper(model, "float32"), peer.stepper(llama)
    for batch in batches:
        theirs = their_step(peer.inputs(batch), batch.targets_BL)
        assert our_step(batch) == pytest.approx(theirs, rel=1e-5)


def test_both_sides_give_the_same_logits_wherever_a_position_is_in_use(sides):
    model, llama, (batch, *_) = sides
    with torch.no_grad():
        given, theirs = model(batch), llama(**peer.inputs(batch)).logits
    torch.testing.assert_close(given[batch.used_BL], theirs[batch.used_BL], rtol=1e-4, atol=1e-5)


def test_turns_alternate_and_the_first_pair_does_not_count():
    turns = []
    found = interleaved(
        lambda pair: turns.append(("ours", pair)), lambda pair: turns.append(("peer", pair)), pairs=3, each=2
    )
    assert [side for side, _ in turns] == ["peer", "ours", "ours", "peer"] * 2
    assert [pair for _, pair in turns] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert found.pairs == 3 and found.ratio_low <= found.ratio <= found.ratio_high


@pytest.mark.parametrize(
    ("kind", "goal", "seen", "met"),
    [
        ("defaults", 3, {"ours_ms": 10, "peer_ms": 30, "ratio": 3.0}, True),
        ("defaults", 3, {"ours_ms": 10, "peer_ms": 29, "ratio": 2.9}, False),
        ("share", 0.03, {"ours_ms": 1, "peer_ms": 100, "ratio": 0.01}, True),
        ("share", 0.03, {"ours_ms": 4, "peer_ms": 100, "ratio": 0.04}, False),
        ("start-up", 350, {"ours_ms": 349}, True),
        ("start-up", 350, {"ours_ms": 351}, False),
    ],
)
def test_a_goal_is_a_ratio_to_reach_or_a_bound_to_stay_under(kind, goal, seen, met):
    bench = Bench(name="a row", kind=kind, goal=goal, measure=lambda setting: found)
    ratios = {"ratio_low": seen["ratio"], "ratio_high": seen["ratio"]} if "ratio" in seen else {}
    found = Measured(precision="float32", pairs=7, **seen, **ratios)
    assert bench.row(found)["met"] is met
    assert ("NOT met" in line(bench, found)) is not met


def test_a_first_loss_is_near_that_of_a_guess(sides):
    """So that equal losses are not two zeros."""
    model, _, batches = sides
    assert ours.stepper(model, "float32")(batches[0]) == pytest.approx(math.log(model.shape.output_width), rel=0.1)


def test_sides_that_part_at_a_later_step_are_no_row():
    check_agreement([2.0, 1.0], [2.001, 1.0], rel_tol=1e-3)
    with pytest.raises(RuntimeError, match=r"at step 1 1\.0 against 1\.1"):
        check_agreement([2.0, 1.0], [2.0, 1.1], rel_tol=1e-3)
