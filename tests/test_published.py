"""What only the published code has: each quirk alone, the three presets, and the numbers of mixit.md 1.1, 1.5, 4.4."""

import copy
import functools
import statistics

import pytest
import torch
from small import experiment
from torch import nn

from partwise.architectures import architecture
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.shaped_mlp import ShapedMlp
from partwise.configs import digest, replaced
from partwise.errors import ConfigError
from partwise.experiment import run
from partwise.joins.add import Add, DepthScaled, Scaled
from partwise.layers import ScaledLinear
from partwise.model import ModelConfig, Transformer
from partwise.parts import AllBut
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, TaskShape
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.shaped_attention import ShapedAttention

ADDITION = TaskShape(length=34, vocabulary=31)  # of the published addition of ten digits
PRESETS = ("standard_published", "mixit_published", "shaped_published")


def build(seed=0, **fields):
    return Transformer(ModelConfig(**{"width": 64} | fields), ADDITION, seed=seed)


def preset(name, n_heads=4, settings=(), **fields):
    base = ModelConfig(**{"width": 512, "token_mixer": Attention(n_heads=n_heads)} | fields)
    config = architecture(name).model(base)
    for path, value in settings:
        config = replaced(config, path, value)
    return config


def maps(model):
    """The linear maps inside the blocks, by address."""
    return {name: part for name, part in model.blocks.named_modules() if isinstance(part, nn.Linear)}


def parameters(module):
    return sum(parameter.numel() for parameter in module.parameters())


# The sd of all weights


@pytest.mark.parametrize("width", [64, 128])
def test_linear_std_is_the_sd_of_every_map_in_the_blocks_at_every_width(width):
    for name, layer in maps(build(width=width, linear_std=0.02)).items():
        assert layer.weight.std().item() == pytest.approx(0.02, rel=0.04), name
        assert not layer.bias.any()
    for name, layer in maps(build(width=width)).items():
        assert layer.weight.std().item() == pytest.approx(layer.in_features**-0.5, rel=0.04), name


def test_linear_std_leaves_the_other_parts_and_the_direction_of_every_map():
    usual, small = build().state_dict(), build(linear_std=0.02).state_dict()
    for name, tensor in usual.items():
        if not name.startswith("blocks."):
            assert torch.equal(small[name], tensor), name
        elif tensor.any():
            torch.testing.assert_close(small[name] / small[name].norm(), tensor / tensor.norm())


def test_a_map_drawn_at_a_multiple_of_the_usual_keeps_the_multiple():
    found = maps(build(linear_std=0.02, token_mixer=Attention(qk_scale=3.0)))
    assert found["0.token_mixer.query"].weight.std().item() == pytest.approx(0.06, rel=0.04)
    assert found["0.token_mixer.value"].weight.std().item() == pytest.approx(0.02, rel=0.04)


# The width factor


@pytest.mark.parametrize("mixer", [Attention(), ShapedAttention(), RandomMixing()])
def test_base_width_multiplies_every_output_in_the_blocks_bias_included(mixer):
    scaled, plain = (build(token_mixer=mixer, base_width=base) for base in (16, None))
    assert scaled.state_dict().keys() == plain.state_dict().keys()
    for (name, layer), usual in zip(maps(scaled).items(), maps(plain).values(), strict=True):
        assert torch.equal(layer.weight, usual.weight), name
        for one in (layer, usual):
            nn.init.ones_(one.bias)
        x_D = torch.randn(layer.in_features, generator=generator_for(0, name))
        torch.testing.assert_close(layer(x_D), 0.5 * usual(x_D))
    assert not isinstance(scaled.unembed, ScaledLinear)


def test_at_its_base_width_a_model_is_as_without():
    tokens = torch.arange(31)[None]
    torch.testing.assert_close(build(base_width=64)(tokens), build()(tokens), rtol=0, atol=0)


def test_with_the_width_factor_one_sd_acts_alike_at_every_width():
    def branch(width, base_width):
        block = build(width=width, linear_std=0.02, base_width=base_width).blocks[0]
        with torch.no_grad():
            return block.channel_mixer(torch.randn(300, width, generator=generator_for(0, "x"))).std().item()

    assert branch(64, 512) == pytest.approx(branch(256, 512), rel=0.1)
    assert branch(64, None) < 0.3 * branch(256, None)


def test_a_map_with_a_factor_of_its_own_keeps_it():
    mixer = build(base_width=16, channel_mixer=ShapedMlp(base_hidden=1.0)).blocks[0].channel_mixer
    assert mixer.down.factor == pytest.approx(256**-0.5)
    assert mixer.up.factor == mixer.gate.factor == pytest.approx(0.5)


def test_a_scaled_model_is_copied_saved_and_addressed_like_any_other():
    model, tokens = build(base_width=16, linear_std=0.02), torch.arange(31)[None]
    other = build(base_width=16, seed=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens), model(tokens))
    assert torch.equal(copy.deepcopy(model)(tokens), model(tokens))
    frozen = set(dict(model.named_parameters())) - AllBut("blocks.*.token_mixer.query").learning(model)
    assert len(frozen) == 4


def test_impossible_scales_are_refused():
    with pytest.raises(ConfigError, match="base_width is 0: at least 1 was expected"):
        ModelConfig(base_width=0)
    with pytest.raises(ConfigError, match=r"linear_std is -0\.1: a finite sd was expected"):
        ModelConfig(linear_std=-0.1)
    with pytest.raises(ConfigError, match="base_blocks is 0"):
        DepthScaled(base_blocks=0)


def test_the_new_settings_leave_old_digests_as_they_were():
    assert digest(ModelConfig()) == digest(ModelConfig(linear_std=None, base_width=None))
    assert digest(ModelConfig()) != digest(ModelConfig(base_width=512))
    assert digest(RandomMixing()) == digest(RandomMixing(identity=True))


# The mixing matrix (the sink is held to in test_random_mixing.py) and its second regime


def mixing(length=34, width=64, n_heads=4, causal=True, **fields):
    size = MixerSize(width=width, length=length, causal=causal, layer=0, n_layers=1)
    return RandomMixing(n_heads=n_heads, **fields).build(size, generator=generator_for(0, "mixing")).mix_HLL


@pytest.mark.parametrize("causal", [True, False])
def test_without_the_identity_rows_sum_to_zero_and_the_rest_is_as_it_was(causal):
    with_it, without = mixing(causal=causal), mixing(causal=causal, identity=False)
    torch.testing.assert_close(without.sum(-1), torch.zeros(4, 34), rtol=0, atol=1e-5)
    torch.testing.assert_close(with_it - torch.eye(34), without, rtol=0, atol=1e-6)


def test_a_shorter_or_padded_two_way_input_without_the_identity_is_centred_anew():
    size = MixerSize(width=64, length=12, causal=False, layer=0, n_layers=1)
    module = RandomMixing(identity=False).build(size, generator=generator_for(0, "mixing"))
    mix_BHLS = module._matrix(9, torch.tensor([9, 5]))
    torch.testing.assert_close(mix_BHLS.sum(-1), torch.zeros(2, 4, 9), rtol=0, atol=1e-5)
    assert not mix_BHLS[1, ..., 5:].any()


@pytest.mark.parametrize(
    ("word", "expected"), [("row", 200**-0.5), ("head", (200 * 16) ** -0.5), ("width", (200 * 64) ** -0.5)]
)
def test_a_spread_in_words_is_one_sd_for_all_heads(word, expected):
    mix_HLL = mixing(length=200, causal=False, identity=False, std=word)
    for head in range(4):
        assert mix_HLL[head].std().item() == pytest.approx(expected, rel=0.03)


def test_the_sink_stands_in_the_second_regime_too():
    mix_HLL = mixing(identity=False, std="row", sink=True)
    assert mix_HLL[0, 0, 0] == 0.5
    assert mix_HLL[0, 7].tolist() == [0.5] + [0] * 6 + [0.5] + [0] * 26


# Joins


@pytest.mark.parametrize(
    ("join", "s", "r"),
    [
        (Add(), 1, 1),
        (Scaled(), 0.5**0.5, 0.5**0.5),
        (Scaled(s=0.5, r=0.75**0.5), 0.5, 0.866025),
        (DepthScaled(), 1, 1 / 8),
        (DepthScaled(base_blocks=4), 1, 1 / 2),
        (DepthScaled(alpha=0.5, base_blocks=2), 1, 1 / 2),
        (DepthScaled(alpha=0.0), 1, 1),
    ],
)
def test_a_join_weighs_the_stream_by_s_and_the_sublayer_by_r(join, s, r):
    size = MixerSize(width=1, length=1, causal=True, layer=3, n_layers=8)
    module = join.build(size, generator=generator_for(0, "join"))
    assert module(torch.tensor([[[100.0]]]), torch.tensor([[[1.0]]])).item() == pytest.approx(100 * s + r)


# The presets


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_keeps_the_sizes_of_its_base_and_nothing_else(name):
    small = {"n_blocks": 3, "width": 48, "channel_mixer": GatedMlp(hidden=20)}
    plain = preset(name, n_heads=6, **small)
    odd = preset(
        name,
        n_heads=6,
        norm="layer",
        order="parallel",
        join=Scaled(s=0.1),
        positions="one_hot",
        tied=True,
        embed_std=1.0,
        linear_std=0.5,
        base_width=7,
        **small | {"channel_mixer": GatedMlp(hidden=20, activation="relu", bias=False)},
    )
    other_heads = Attention(n_heads=6, n_kv_heads=2, rope=False, qk_scale=2.0, bias=False)
    assert plain == odd == architecture(name).model(ModelConfig(token_mixer=other_heads, **small))
    assert (plain.n_blocks, plain.width, plain.channel_mixer.hidden, plain.token_mixer.n_heads) == (3, 48, 20, 6)


@pytest.mark.parametrize("name", PRESETS)
def test_a_block_has_as_many_parameters_as_published(name):
    n = 64
    model = Transformer(preset(name, width=n), ADDITION, seed=0)
    fewer = 2 * (n**2 + n) if name == "mixit_published" else 0
    assert {parameters(block) for block in model.blocks} == {16 * n**2 + 15 * n - fewer}
    positions = 34 * n if name == "mixit_published" else 0
    assert parameters(model) == 2 * (16 * n**2 + 15 * n - fewer) + n + 2 * 31 * n + positions


def test_all_weights_of_a_preset_start_at_the_published_sd():
    for name in PRESETS:
        model = Transformer(preset(name, width=128), ADDITION, seed=0)
        for address, parameter in model.named_parameters():
            if parameter.ndim == 2:
                assert parameter.std().item() == pytest.approx(0.02, rel=0.05), (name, address)


def test_the_feed_forward_of_published_mixit_starts_nearly_dead():
    def branch(name, settings=()):
        model = Transformer(preset(name, settings=settings), ADDITION, seed=0)
        x_BLD = model.blocks[0].norm_2(torch.randn(2, 500, 512, generator=generator_for(0, "x")))
        with torch.no_grad():
            return model.blocks[0].channel_mixer(x_BLD).std().item()

    assert branch("mixit_published") == pytest.approx(0.004, abs=0.0005)
    assert branch("standard_published") == pytest.approx(0.097, rel=0.03)
    alive = branch("mixit_published", [("channel_mixer.base_hidden", 2048.0)])
    assert alive == pytest.approx(2048**0.5 * branch("mixit_published"), rel=1e-3)


QUIRKS = {
    "mixit_published": {
        "linear_std": None,
        "embed_std": 1.0,
        "base_width": None,
        "channel_mixer.base_hidden": None,
        "channel_mixer.c_minus": 0.0,
        "channel_mixer": "gated_mlp",
        "token_mixer.sink": False,
        "token_mixer.std": "row",
        "token_mixer.identity": False,
        "join": "add",
        "join.s": 0.5,
        "positions": "none",
    },
    "shaped_published": {
        "token_mixer.tau": "theory",
        "token_mixer.base_width": 128,
        "token_mixer.rope": False,
        "join": "depth_scaled",
    },
    "standard_published": {"linear_std": None, "join": "depth_scaled"},
}


@pytest.mark.parametrize(("name", "path"), [(name, path) for name in QUIRKS for path in QUIRKS[name]])
def test_each_quirk_can_be_turned_back_alone_and_is_felt(name, path):
    tokens = torch.randint(31, (2, 34), generator=generator_for(0, "tokens"))
    changed = preset(name, width=64, settings=[(path, QUIRKS[name][path])])
    logits, usual = (Transformer(c, ADDITION, seed=0)(tokens) for c in (changed, preset(name, width=64)))
    assert (logits - usual).abs().max() > 1e-6 * usual.abs().max()


@pytest.mark.parametrize("name", [*PRESETS, "interleaved"])
def test_a_preset_trains(name):
    config = architecture(name).model(experiment().model)
    record = run(experiment(train__steps=5, model=config))
    assert 0 <= record.value("accuracy") <= 1
    assert record.value("trainable_parameters", where="model") == record.value("total_parameters", where="model")


# Rank collapse at the start (mixit.md 4.4): the authors' code at width 512, measured there

SEEDS = range(2)
FIXED = [("channel_mixer.base_hidden", 2048.0)]
COLLAPSE = [  # preset, heads, settings, after 2 blocks, after 8, tolerance
    ("standard_published", 4, [], 0.68, 0.82, 0.03),
    ("shaped_published", 4, [], 0.028, 0.034, 0.012),
    ("mixit_published", 4, [], 0.12, 0.33, 0.05),
    ("mixit_published", 64, [], 0.020, 0.024, 0.012),
    ("mixit_published", 4, [("token_mixer.sink", False)], 0.010, 0.009, 0.012),
    ("mixit_published", 4, FIXED, 0.048, 0.047, 0.012),
]


@functools.cache
def tokens_of(seed):
    return torch.randint(31, (8, 34), generator=generator_for(seed, "tokens"))


@torch.no_grad()
def correlations(config, seed):
    """The mean correlation of two positions, as a cosine, in the stream after each block."""
    model, found = Transformer(config, ADDITION, seed=seed), []
    apart = ~torch.eye(34, dtype=torch.bool)
    x_BLD = model.embedded(tokens_of(seed), torch.arange(tokens_of(seed).shape[1]))
    for block in model.blocks:
        x_BLD = block(x_BLD, None)
        unit_BLD = nn.functional.normalize(x_BLD, dim=-1)
        found.append((unit_BLD @ unit_BLD.mT)[:, apart].mean().item())
    return found


@pytest.mark.parametrize(
    ("name", "n_heads", "settings", "after_2", "after_8", "within"),
    COLLAPSE,
    ids=["standard", "shaped", "mixit", "mixit, 64 heads", "mixit, no sink", "mixit, down fixed"],
)
def test_positions_grow_alike_with_depth_as_in_the_published_code(name, n_heads, settings, after_2, after_8, within):
    config = preset(name, n_heads, settings, n_blocks=8)
    after = [correlations(config, seed) for seed in SEEDS]
    assert statistics.fmean(one[1] for one in after) == pytest.approx(after_2, abs=within)
    assert statistics.fmean(one[7] for one in after) == pytest.approx(after_8, abs=within)


def test_shallow_and_deep_models_share_their_first_blocks_so_one_model_serves_both_depths():
    two, eight = (correlations(preset("mixit_published", n_blocks=n, width=64), 0) for n in (2, 8))
    assert two == eight[:2]
