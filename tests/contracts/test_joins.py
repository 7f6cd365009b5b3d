"""Every join in the catalogue is held to the contract, and the contract can fail."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from partwise import contracts
from partwise.joins import JOINS
from partwise.joins.add import Add, DepthScaled, Scaled

CONFIGS = {name: JOINS[name]() for name in JOINS.names()} | {
    "scaled, uneven": Scaled(s=0.3, r=2.0),
    "depth_scaled, published": DepthScaled(alpha=0.5, base_blocks=4),
}

every_join = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_join
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_join
def test_the_stream_is_as_wide_as_out_width_says(config):
    contracts.the_stream_is_as_wide_as_out_width_says(config)


@every_join
def test_a_join_meets_each_position_on_its_own(config):
    contracts.a_join_meets_each_position_on_its_own(config)


@every_join
def test_both_sides_go_through_a_join(config):
    contracts.both_sides_go_through_a_join(config)


@every_join
def test_a_model_can_be_made_with_the_join(config):
    contracts.a_model_can_be_made_with_the_join(config)


@every_join
def test_a_saved_join_gives_the_same_output(config):
    contracts.a_saved_join_gives_the_same_output(config)


@every_join
def test_the_same_seed_gives_the_same_join(config):
    contracts.the_same_seed_gives_the_same_join(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.JOIN_LAWS} <= set(globals())


def test_add_is_plain_addition_and_scaled_is_weighted():
    x_BLD, y_BLD = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[10.0, 20.0]]])
    assert contracts._join(Add(), 2)(x_BLD, y_BLD).tolist() == [[[11.0, 22.0]]]
    assert contracts._join(Scaled(s=2.0, r=0.5), 2)(x_BLD, y_BLD).tolist() == [[[7.0, 14.0]]]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """Addition with one fault."""

    fault: str

    def out_width(self, width):
        return 2 * width if self.fault == "says it widens" else width

    def build(self, size, *, generator):
        return _Planted(self.fault)


class _Planted(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, x_BLD, y_BLD):
        if self.fault == "drops the stream":
            return y_BLD
        if self.fault == "takes the mean over positions":
            return x_BLD + y_BLD.mean(1, keepdim=True)
        return x_BLD + y_BLD


FAULTS = {
    "says it widens": (contracts.the_stream_is_as_wide_as_out_width_says, "out_width"),
    "drops the stream": (contracts.both_sides_go_through_a_join, "no gradient comes back to the stream"),
    "takes the mean over positions": (contracts.a_join_meets_each_position_on_its_own, "one position reach another"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))
