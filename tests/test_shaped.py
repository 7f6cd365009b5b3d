"""Shaped attention and the shaped feed-forward: near the identity, and how near."""

import math

import pytest
import torch

from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.mlp import Mlp
from partwise.channel_mixers.shaped_mlp import ShapedMlp, shaped_slopes
from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.shapes import MixerSize
from partwise.taps import record
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.shaped_attention import ShapedAttention
from partwise.token_mixers.uniform import Uniform

EXACT = {"rtol": 0, "atol": 1e-12}


def build(config, width=16, causal=True):
    size = MixerSize(width=width, length=9, causal=causal, layer=0, n_layers=1)
    return config.build(size, generator=generator_for(0, "shaped")).double()


def inputs(n=3, length=9, width=16):
    return torch.randn(n, length, width, generator=generator_for(0, "x"), dtype=torch.float64)


def heard(module, tap, x_BLD=None, lengths=None):
    x_BLD = inputs() if x_BLD is None else x_BLD
    with record(module, tap) as seen, torch.no_grad():
        module(x_BLD, None if lengths is None else torch.tensor(lengths))
    return seen[tap]


# Shaped attention


@pytest.mark.parametrize("lengths", [None, [9, 5, 1]])
@pytest.mark.parametrize("causal", [True, False])
def test_the_mix_is_the_identity_plus_attention_minus_the_plain_mean(causal, lengths):
    shaped, usual, mean = (
        heard(build(config, causal=causal), "mix", lengths=lengths)
        for config in (ShapedAttention(base_width=16), Attention(), Uniform())
    )
    torch.testing.assert_close(shaped, torch.eye(9, dtype=torch.float64) + usual - mean, **EXACT)


@pytest.mark.parametrize("causal", [True, False])
def test_the_rows_of_shaped_attention_sum_to_one(causal):
    mix_BHLS = heard(build(ShapedAttention(), causal=causal), "mix", lengths=[9, 4, 1])
    assert mix_BHLS.shape == (3, 4, 9, 9)
    torch.testing.assert_close(mix_BHLS.sum(-1), torch.ones(3, 4, 9, dtype=torch.float64), **EXACT)
    assert mix_BHLS.min() < 0  # what is chosen less than the mean is taken off


@pytest.mark.parametrize("causal", [True, False])
def test_with_scores_of_zero_every_position_keeps_itself(causal):
    module, x_BLD = build(ShapedAttention(qk_scale=0.0), causal=causal), inputs()
    torch.testing.assert_close(module(x_BLD, None), module.out(module.value(x_BLD)), **EXACT)


def test_it_starts_with_the_weights_of_attention():
    shaped, usual = build(ShapedAttention()).state_dict(), build(Attention()).state_dict()
    assert shaped.keys() == usual.keys()
    assert all(torch.equal(shaped[name], tensor) for name, tensor in usual.items())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ShapedAttention(), 512 / 16),
        (ShapedAttention(base_width=16), 1),
        (ShapedAttention(tau0=4.0, base_width=64), 1),
        (ShapedAttention(tau="theory"), 1 / 4),
        (ShapedAttention(tau="theory", tau0=0.5), 1 / 2),
    ],
)
def test_the_temperature_is_the_published_one_or_the_theorys(config, expected):
    ratio = heard(build(config), "scores") / heard(build(Attention()), "scores")
    torch.testing.assert_close(ratio, torch.full_like(ratio, expected))


def test_published_scores_shrink_as_the_width_and_those_of_the_theory_as_its_root():
    for tau, expected in (("published", 4.0), ("theory", 2.0)):
        small, large = (
            heard(build(ShapedAttention(tau=tau, n_heads=8), width), "scores", inputs(40, width=width)).std().item()
            for width in (64, 256)
        )
        assert small / large == pytest.approx(expected, rel=0.15)


def test_it_has_rope_as_published_and_can_do_without():
    order = torch.tensor([3, 1, 0, 5, 2, 4, 8, 7, 6])
    for rope in (True, False):
        module, x_BLD = build(ShapedAttention(rope=rope), causal=False), inputs()
        assert torch.allclose(module(x_BLD[:, order], None), module(x_BLD, None)[:, order]) is not rope
    assert ShapedAttention().rope


def test_a_temperature_that_is_not_positive_is_refused():
    for wrong in ({"tau0": 0.0}, {"tau0": -1.0}, {"tau0": math.inf}, {"tau0": math.nan}, {"base_width": 0}):
        with pytest.raises(ConfigError, match="both must be positive and finite"):
            ShapedAttention(**wrong)


# The shaped feed-forward


def test_the_published_slopes_are_one_and_one_minus_a_root_times_a_gain():
    a = 1 - 512**-0.5
    gain = (2 / (1 + a**2)) ** 0.5
    assert shaped_slopes(0.0, -1.0, 512) == pytest.approx((gain, gain * a))
    assert ShapedMlp().c_plus == 0
    assert ShapedMlp().c_minus == -1


@pytest.mark.parametrize("c", [(0.0, -1.0), (0.0, 1.0), (0.5, -2.0), (-3.0, 3.0)])
def test_the_gain_keeps_the_mean_square(c):
    module = build(ShapedMlp(c_plus=c[0], c_minus=c[1]), width=64)
    z_BLF = torch.randn(4, 500, 64, generator=generator_for(0, "z"), dtype=torch.float64)
    z_BLF = torch.cat((z_BLF, -z_BLF))  # symmetric, so that the mean square is kept exactly
    assert module._activated(z_BLF).square().mean().item() == pytest.approx(z_BLF.square().mean().item())


def test_it_tends_to_a_linear_net_as_the_width_grows():
    def bend(width):
        plus, minus = shaped_slopes(0.0, -1.0, width)
        return (plus - minus) * width**0.5

    assert bend(10**6) == pytest.approx(1, abs=1e-2)
    assert bend(16) == pytest.approx(1, abs=0.2)


def test_without_bend_it_is_the_linear_net_and_gated_the_product_of_two_maps():
    x_BLD = inputs()
    for shaped, plain in (
        (ShapedMlp(c_minus=0.0), GatedMlp(activation="identity")),
        (ShapedMlp(c_minus=0.0, gated=False), Mlp(activation="identity")),
    ):
        torch.testing.assert_close(build(shaped)(x_BLD), build(plain)(x_BLD), **EXACT)


def test_the_feed_forward_is_its_formula():
    x_BLD = inputs()
    gated, plain = build(ShapedMlp(hidden=5)), build(ShapedMlp(hidden=5, gated=False, c_plus=1.0))

    def act(z, c_plus, c_minus):
        plus, minus = 1 + c_plus / 4, 1 + c_minus / 4
        return (plus * z.clamp_min(0) + minus * z.clamp_max(0)) * (2 / (plus**2 + minus**2)) ** 0.5

    expected = gated.down(act(gated.gate(x_BLD), 0, -1) * gated.up(x_BLD))
    torch.testing.assert_close(gated(x_BLD), expected, **EXACT)
    torch.testing.assert_close(plain(x_BLD), plain.down(act(plain.up(x_BLD), 1, -1)), **EXACT)
    assert {name.split(".")[0] for name, _ in plain.named_parameters()} == {"up", "down"}


def test_it_starts_with_the_weights_of_the_gated_feed_forward():
    shaped, usual = build(ShapedMlp(base_hidden=1.0)).state_dict(), build(GatedMlp()).state_dict()
    assert all(torch.equal(shaped[name], tensor) for name, tensor in usual.items())
    assert shaped.keys() == usual.keys()


def test_base_hidden_scales_what_down_gives_and_its_bias():
    x_BLD, dead, alive = inputs(), build(ShapedMlp(base_hidden=1.0)), build(ShapedMlp())
    for module in (dead, alive):
        torch.nn.init.ones_(module.down.bias)
    torch.testing.assert_close(dead(x_BLD), alive(x_BLD) / 64**0.5, **EXACT)  # 1 / sqrt(4 width)
    fixed = build(ShapedMlp(base_hidden=64.0))
    torch.nn.init.ones_(fixed.down.bias)
    torch.testing.assert_close(fixed(x_BLD), alive(x_BLD), **EXACT)


def test_an_impossible_shape_is_refused():
    with pytest.raises(ConfigError, match="both slopes are zero"):
        build(ShapedMlp(c_plus=-4.0, c_minus=-4.0))
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="a positive number was expected, or null"):
            ShapedMlp(base_hidden=wrong)
