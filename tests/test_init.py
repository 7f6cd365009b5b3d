"""The law by which every parameter starts, read off after the whole model is built (no late pass may overwrite it)."""

import math

import pytest
import torch
from torch import nn

from partwise.batch import Batch
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.model import ModelConfig, Transformer
from partwise.probes.score_spread import ScoreSpread
from partwise.seeds import generator_for
from partwise.shapes import TaskShape
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing

SHAPE = TaskShape(length=32, vocabulary=50)
TOKEN_CONFIGS = {name: TOKEN_MIXERS[name]() for name in TOKEN_MIXERS.names()} | {
    "grouped": Attention(n_kv_heads=2),
    "one head": Attention(n_heads=1, bias=False),
}


def expected_std(model: nn.Module, name: str, parameter: nn.Parameter) -> float:
    """N(0, 1 / fan_in) for maps; embeddings and the unembedding say their own."""
    own = {"embed.weight": model.config.embed_std, "positions.weight": model.config.embed_std, "unembed.weight": 0.02}
    return own.get(name, parameter.shape[-1] ** -0.5)


def assert_law(model: nn.Module) -> None:
    seen = 0
    for name, parameter in model.named_parameters():
        kind = type(model.get_submodule(name.rpartition(".")[0]))
        if issubclass(kind, nn.RMSNorm | nn.LayerNorm):
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            std, n = expected_std(model, name, parameter), parameter.numel()
            assert abs(parameter.mean().item()) < 5 * std / math.sqrt(n), name
            assert abs(parameter.std().item() - std) < 5 * std / math.sqrt(2 * n), name
            seen += 1
    assert seen >= 2


@pytest.mark.parametrize("config", TOKEN_CONFIGS.values(), ids=TOKEN_CONFIGS.keys())
def test_with_every_token_mixer_each_parameter_starts_by_the_law(config):
    assert_law(Transformer(ModelConfig(width=128, token_mixer=config, positions="learned"), SHAPE, seed=0))


@pytest.mark.parametrize("name", CHANNEL_MIXERS.names())
def test_with_every_channel_mixer_each_parameter_starts_by_the_law(name):
    assert_law(Transformer(ModelConfig(width=128, channel_mixer=CHANNEL_MIXERS[name](), norm="layer"), SHAPE, seed=0))


def test_the_embedding_has_the_spread_that_the_recipe_asks_for():
    assert_law(Transformer(ModelConfig(width=128, embed_std=0.02, positions="learned"), SHAPE, seed=0))
    model = Transformer(ModelConfig(width=128, unembed_std=0.5), SHAPE, seed=0)
    assert model.unembed.weight.std().item() == pytest.approx(0.5, rel=0.05)


def test_the_law_is_not_met_by_a_model_with_one_weight_rescaled():
    model = Transformer(ModelConfig(width=128), SHAPE, seed=0)
    with torch.no_grad():
        model.blocks[1].token_mixer.key.weight.mul_(1.2)
    with pytest.raises(AssertionError, match=r"blocks\.1\.token_mixer\.key\.weight"):
        assert_law(model)


def spread(config: Attention, width: int = 128) -> list[float]:
    model = Transformer(ModelConfig(width=width, token_mixer=config), SHAPE, seed=0)
    tokens_BL = torch.randint(50, (16, 32), generator=generator_for(0, "tokens"))
    rows = ScoreSpread().measure(model, Batch(tokens_BL=tokens_BL, targets_BL=tokens_BL))
    return [row.value for row in rows]


@pytest.mark.parametrize("config", [Attention(), Attention(rope=False, n_heads=8), Attention(n_kv_heads=2)])
def test_attention_logits_start_with_a_spread_of_about_one(config):
    for value in spread(config):
        assert value == pytest.approx(1, abs=0.12)


def test_qk_scale_scales_the_logits_by_its_square():
    for usual, half in zip(spread(Attention()), spread(Attention(qk_scale=0.5)), strict=True):
        assert half == pytest.approx(usual / 4, rel=0.02)


def test_qk_scale_leaves_value_and_out_as_they_were():
    usual, twice = (
        Transformer(ModelConfig(token_mixer=Attention(qk_scale=scale)), SHAPE, seed=0).state_dict() for scale in (1, 2)
    )
    for name, tensor in usual.items():
        factor = 2 if "query.weight" in name or "key.weight" in name else 1
        assert torch.equal(twice[name], factor * tensor), name


def test_the_published_spread_is_far_below_the_clean_one_at_width_64():
    published = spread(Attention(qk_scale=0.02 * math.sqrt(64)), width=64)
    assert max(published) < 0.05  # mixit.md 1.1: frozen logits of sd about .03, a softmax that stays uniform


def test_a_frozen_mixing_matrix_is_drawn_after_value_and_out():
    with_mix = Transformer(ModelConfig(token_mixer=RandomMixing()), SHAPE, seed=0).blocks[0].token_mixer
    plain = Transformer(ModelConfig(token_mixer=Attention()), SHAPE, seed=0).blocks[0].token_mixer
    assert torch.equal(with_mix.value.weight, plain.value.weight)
    assert torch.equal(with_mix.out.weight, plain.out.weight)
