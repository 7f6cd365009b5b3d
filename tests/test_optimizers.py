"""SGD beside AdamW: its update by hand, its resuming, and who refuses it."""

import dataclasses

import pytest
import torch
from small import experiment

from partwise.errors import ConfigError
from partwise.experiment import run
from partwise.population import train_population
from partwise.seeds import generator_for
from partwise.stack import Unstackable
from partwise.train_config import TrainConfig
from partwise.updates import optimizer_for, update

SGD = {"train__optimizer": "sgd", "train__momentum": 0.8, "train__weight_decay": 0.1, "train__clip": None}


def test_two_updates_are_those_of_sgd_with_momentum():
    one = experiment(**SGD)
    data, model = one.build()
    names = set(dict(model.named_parameters()))
    optimizer = optimizer_for(model, names, one.train)
    weight = model.blocks[0].channel_mixer.up.weight
    value, momentum = weight.detach().clone(), None
    for step in range(2):
        batch = data.sample(8, split="train", generator=generator_for(0, f"{step}"))
        from partwise.evaluation import loss_of

        (loss_of(model, batch, *batch.read()) / batch.scored_BL.sum()).backward()
        gradient = weight.grad.clone() + 0.1 * value
        model.zero_grad()
        momentum = gradient if momentum is None else 0.8 * momentum + gradient
        value = value - one.train.lr * momentum
        update(model, batch, optimizer, config=one.train, device=torch.device("cpu"), precision="float32")
        assert torch.allclose(weight, value, atol=1e-6)


def test_a_run_with_sgd_that_was_stopped_goes_on_with_the_same_bits(tmp_path):
    one = experiment(**SGD)
    whole = run(one, tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.step >= 15:
            raise Stop

    with pytest.raises(Stop):
        run(one, tmp_path / "parts", checkpoint_seconds=0.0, watch=stop)
    again = run(one, tmp_path / "parts")
    assert [dataclasses.astuple(row) for row in again.rows] == [dataclasses.astuple(row) for row in whole.rows]


def test_a_stack_refuses_sgd():
    with pytest.raises(Unstackable, match="their optimizer is not adamw"):
        train_population([experiment(**SGD, seed=0), experiment(**SGD, seed=1)])


def test_an_impossible_optimizer_is_told():
    with pytest.raises(ConfigError, match=r"train\.optimizer is 'sdg': input should be 'adamw' or 'sgd'"):
        experiment(train__optimizer="sdg")
    with pytest.raises(ConfigError, match="from 0 up to 1 was expected"):
        TrainConfig(momentum=1.0)
