"""Every mixer of channels in the catalogue is held to the contract, and the contract can fail."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from partwise import contracts
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.mlp import Mlp
from partwise.channel_mixers.shaped_mlp import ShapedMlp
from partwise.layers import linear

CONFIGS = {name: CHANNEL_MIXERS[name]() for name in CHANNEL_MIXERS.names()} | {
    "mlp, linear": Mlp(activation="identity", hidden=5),
    "gated_mlp, without bias": GatedMlp(bias=False, hidden=1),
    "shaped_mlp, of the theory": ShapedMlp(gated=False, c_plus=0.5, hidden=32),
    "shaped_mlp, nearly dead": ShapedMlp(base_hidden=1.0, bias=False),
}

every_mixer = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_mixer
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_mixer
def test_permuting_positions_permutes_the_output(config):
    contracts.permuting_positions_permutes_the_output(config)


@every_mixer
def test_each_position_is_on_its_own(config):
    contracts.each_position_is_on_its_own(config)


@every_mixer
def test_gradients_reach_the_channel_mixer(config):
    contracts.gradients_reach_the_channel_mixer(config)


@every_mixer
def test_the_channel_mixer_keeps_nothing(config):
    contracts.the_channel_mixer_keeps_nothing(config)


@every_mixer
def test_a_saved_channel_mixer_gives_the_same_output(config):
    contracts.a_saved_channel_mixer_gives_the_same_output(config)


@every_mixer
def test_the_same_seed_gives_the_same_channel_mixer(config):
    contracts.the_same_seed_gives_the_same_channel_mixer(config)


@every_mixer
def test_swapping_the_channel_mixer_leaves_the_other_parts(config):
    contracts.swapping_the_channel_mixer_leaves_the_other_parts(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.CHANNEL_MIXER_LAWS} <= set(globals())


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One map of the channels, with one fault."""

    fault: str

    def build(self, size, *, generator):
        return _Planted(self.fault, size, generator)


class _Planted(nn.Module):
    def __init__(self, fault, size, generator):
        super().__init__()
        self.fault = fault
        self.map = linear(size.width, size.width, generator)
        self.shift_LD = torch.randn(size.length, size.width, generator=generator)  # not saved, if it is used

    def forward(self, x_BLD):
        y_BLD = self.map(x_BLD)
        if self.fault == "knows where it stands":
            return y_BLD * torch.arange(1, x_BLD.shape[1] + 1)[:, None]
        if self.fault == "subtracts the mean over positions":
            return y_BLD - y_BLD.mean(1, keepdim=True)
        if self.fault == "mixes examples":
            return y_BLD - y_BLD.mean(0, keepdim=True)
        if self.fault == "does not save its shift":
            return y_BLD + self.shift_LD[0]
        return y_BLD.detach() if self.fault == "cuts the gradient" else y_BLD


FAULTS = {
    "knows where it stands": (contracts.permuting_positions_permutes_the_output, "knows the order"),
    "subtracts the mean over positions": (contracts.each_position_is_on_its_own, "gives a position alone another"),
    "mixes examples": (contracts.each_position_is_on_its_own, "lets one example reach another"),
    "does not save its shift": (contracts.a_saved_channel_mixer_gives_the_same_output, "saved and loaded"),
    "cuts the gradient": (contracts.gradients_reach_the_channel_mixer, "no finite gradient reaches map.weight"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))


@pytest.mark.parametrize("law", contracts.CHANNEL_MIXER_LAWS[1:], ids=lambda law: law.__name__)
def test_the_plant_without_a_fault_is_sound(law):
    law(Planted(fault="none"))
