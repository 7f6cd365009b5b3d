"""Arms made equal in parameters or FLOPs."""

import dataclasses

import pytest
from small import experiment

from partwise.architectures import architecture
from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.matching import matched
from partwise.plan import costs

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only")


def arms(n_seeds=2):
    base = experiment(model__width=32)
    made = [(name, architecture(name)) for name in ARMS]
    return [
        dataclasses.replace(base, model=arm.model(base.model), learn=arm.learn, architecture=name, seed=seed)
        for seed in range(n_seeds)
        for name, arm in made
    ]


def test_steps_is_as_they_come():
    assert matched(arms(), "steps") == arms()


def test_parameters_agree_within_one_percent_and_only_mixit_widens():
    made = matched(arms(), "parameters")
    totals = [cost.census.total for cost in costs(made, seconds=0.01)]
    assert max(totals) - min(totals) <= 0.01 * totals[0]
    assert {one.matching for one in made} == {"parameters"}
    for one, before in zip(made, arms(), strict=True):
        assert (one.digest != before.digest) == (one.architecture == "mixit")
    assert all(one.model.channel_mixer.hidden > 128 for one in made if one.architecture == "mixit")


def test_flops_are_paid_in_steps():
    made = matched(arms(), "flops")
    spent = {one.architecture: cost.flops for one, cost in zip(made, costs(made, seconds=0.01), strict=True)}
    for name in ARMS:
        assert spent[name] == pytest.approx(spent["standard"], rel=0.03)
    steps = {one.architecture: one.train.steps for one in made}
    assert steps["embeddings_only"] > steps["frozen_mlp"] > steps["frozen_qk"] > steps["standard"] == 30


def test_without_a_standard_arm_there_is_nothing_to_match():
    with pytest.raises(ConfigError, match="needs the standard arm"):
        matched([one for one in arms() if one.architecture != "standard"], "flops")


def test_an_arm_without_a_feed_forward_cannot_be_widened():
    made = [arms(1)[0], replaced(replaced(arms(1)[3], "model.channel_mixer", "none"), "architecture", "bare")]
    with pytest.raises(ConfigError, match="has none to widen"):
        matched(made, "parameters")
