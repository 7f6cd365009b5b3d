"""Every mixer of positions in the catalogue is held to the contract, and the contract can fail."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from partwise import contracts
from partwise.layers import linear
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.shaped_attention import ShapedAttention
from partwise.token_mixers.uniform import Uniform

CONFIGS = {name: TOKEN_MIXERS[name]() for name in TOKEN_MIXERS.names()} | {
    "attention, grouped": Attention(n_kv_heads=2, bias=False),
    "attention, without rope": Attention(rope=False, n_heads=1, qk_scale=0.3),
    "random_mixing, sink": RandomMixing(sink=True),
    "random_mixing, identity": RandomMixing(std=(0.0, 0.0), n_heads=2),
    "random_mixing, depth_alpha": RandomMixing(identity=False, std="row", sink=True),
    "shaped_attention, theory": ShapedAttention(tau="theory", n_kv_heads=2, rope=False, bias=False),
    "uniform, without bias": Uniform(bias=False),
}

every_mixer = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_mixer
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_mixer
def test_output_has_the_shape_of_the_input(config):
    contracts.output_has_the_shape_of_the_input(config)


@every_mixer
def test_the_future_does_not_reach_the_past(config):
    contracts.the_future_does_not_reach_the_past(config)


@every_mixer
def test_padding_does_not_matter(config):
    contracts.padding_does_not_matter(config)


@every_mixer
def test_reading_a_few_rows_equals_reading_all(config):
    contracts.reading_a_few_rows_equals_reading_all(config)


@every_mixer
def test_reading_on_equals_reading_at_once(config):
    contracts.reading_on_equals_reading_at_once(config)


@every_mixer
def test_a_listening_tap_changes_nothing(config):
    contracts.a_listening_tap_changes_nothing(config)


@every_mixer
def test_the_mix_tap_is_the_mixing(config):
    contracts.the_mix_tap_is_the_mixing(config)


@every_mixer
def test_gradients_reach_its_parameters(config):
    contracts.gradients_reach_its_parameters(config)


@every_mixer
def test_nothing_is_kept_between_calls(config):
    contracts.nothing_is_kept_between_calls(config)


@every_mixer
def test_save_and_load_give_the_same_output(config):
    contracts.save_and_load_give_the_same_output(config)


@every_mixer
def test_the_same_seed_gives_the_same_weights(config):
    contracts.the_same_seed_gives_the_same_weights(config)


@every_mixer
def test_swapping_it_in_leaves_the_other_parts(config):
    contracts.swapping_it_in_leaves_the_other_parts(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.TOKEN_MIXER_LAWS} <= set(globals())


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A uniform mixer with one fault, to see it found."""

    fault: str

    def build(self, size, *, generator):
        return _Planted(self.fault, size, generator)


class _Planted(nn.Module):
    def __init__(self, fault, size, generator):
        super().__init__()
        self.fault, self.causal = fault, size.causal
        self.value = linear(size.width, size.width, generator)
        self.out = linear(size.width, size.width, generator)
        self.mix = Tap()
        if fault == "draws from the global generator":
            self.drawn_LS = torch.nn.Parameter(torch.rand(size.length, size.length))
        elif fault == "does not save its matrix":
            self.drawn_LS = torch.rand(size.length, size.length, generator=generator)  # a plain attribute
        else:
            self.drawn_LS = torch.ones(size.length, size.length)
        if fault == "has a parameter that does nothing":
            self.idle = linear(size.width, size.width, generator)
        self.calls = 0

    def forward(self, x_BLD, lengths_B):
        length = x_BLD.shape[1]
        mix_LS = self.drawn_LS[:length, :length].double()
        if self.causal:
            ahead = 1 if self.fault == "looks one position ahead" else 0
            mix_LS = mix_LS.tril(ahead)
        used_BS = torch.ones(len(x_BLD), length)
        if lengths_B is not None and (self.causal or self.fault != "ignores padding"):
            used_BS = (torch.arange(length) < lengths_B[:, None]).double()
        mix_BLS = mix_LS * used_BS[:, None]
        mix_BLS = mix_BLS / mix_BLS.sum(-1, keepdim=True)
        if self.fault == "divides by the length of the input":
            mix_BLS = mix_BLS / length
        if self.fault == "remembers":
            self.calls += 1
            mix_BLS = mix_BLS * self.calls
        if self.fault == "carries three axes":
            return self.out(self.mix(mix_BLS) @ self.value(x_BLD))
        heard_BHLS = self.mix(mix_BLS[:, None])
        if self.fault == "throws away what is written":
            heard_BHLS = mix_BLS[:, None]
        if self.fault == "differs while a tap listens" and self.mix.listening:
            heard_BHLS = heard_BHLS * 1.001
        return self.out(heard_BHLS[:, 0] @ self.value(x_BLD))

    def forward_at(self, x_BLD, read_BQ, lengths_B):
        length = None if self.fault == "reads rows without the lengths" and not self.causal else lengths_B
        y_BLD = self.forward(x_BLD, length)
        return y_BLD.gather(1, read_BQ[..., None].expand(-1, -1, y_BLD.shape[-1]))

    def forward_next(self, x_BND, cache):
        x_BLD = cache.grown("input", x_BND)
        if self.fault == "forgets what came before":
            x_BLD = torch.where(torch.arange(x_BLD.shape[1])[:, None] < cache.seen, 0, x_BLD)
        return self.forward(x_BLD, None)[:, cache.seen :]


FAULTS = {
    "looks one position ahead": (contracts.the_future_does_not_reach_the_past, "from 1 on reach those before"),
    "divides by the length of the input": (contracts.the_future_does_not_reach_the_past, "when the input ends there"),
    "ignores padding": (contracts.padding_does_not_matter, "reads what the padding holds"),
    "does not save its matrix": (contracts.save_and_load_give_the_same_output, "saved and loaded"),
    "draws from the global generator": (contracts.the_same_seed_gives_the_same_weights, "global random generator"),
    "has a parameter that does nothing": (contracts.gradients_reach_its_parameters, "no finite gradient reaches idle"),
    "remembers": (contracts.nothing_is_kept_between_calls, "remembers an earlier call"),
    "carries three axes": (contracts.the_mix_tap_is_the_mixing, "carries"),
    "throws away what is written": (contracts.the_mix_tap_is_the_mixing, "changes nothing"),
    "differs while a tap listens": (contracts.a_listening_tap_changes_nothing, "while a tap listens"),
    "reads rows without the lengths": (contracts.reading_a_few_rows_equals_reading_all, "forward_at differs"),
    "forgets what came before": (contracts.reading_on_equals_reading_at_once, "forward_next in pieces of 1 differs"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))


@pytest.mark.parametrize("law", contracts.TOKEN_MIXER_LAWS[1:], ids=lambda law: law.__name__)
def test_the_plant_without_a_fault_is_sound(law):
    law(Planted(fault="none"))


def test_a_mixer_that_is_registered_nowhere_is_told_so():
    with pytest.raises(AssertionError, match="Planted is registered nowhere"):
        contracts.check_token_mixer(Planted(fault="none"))
