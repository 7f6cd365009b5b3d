"""Architectures as data: what they take over from the base, and blocks that differ."""

import pytest
import torch

from partwise.architectures import Architecture, architecture
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.shaped_mlp import ShapedMlp
from partwise.configs import from_plain, to_plain
from partwise.errors import ConfigError, UnknownName
from partwise.joins.add import Scaled
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.shapes import TaskShape
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.uniform import Uniform

SHAPE = TaskShape(length=4, vocabulary=9)
BASE = ModelConfig(
    width=24, token_mixer=Attention(n_heads=6, bias=False), channel_mixer=GatedMlp(hidden=10, bias=False)
)


def made(base=BASE, **parts):
    return Architecture(summary="one of a test", parts=parts).model(base)


def mixers(config):
    return [config.block(index).token_mixer.registered_name for index in range(config.n_blocks)]


def test_a_part_given_by_name_takes_over_the_bases_settings():
    assert made(token_mixer="random_mixing").token_mixer == RandomMixing(n_heads=6, bias=False)
    assert made(channel_mixer="shaped_mlp").channel_mixer == ShapedMlp(hidden=10, bias=False)


def test_a_part_given_with_settings_takes_over_those_it_does_not_give():
    found = made(token_mixer={"name": "random_mixing", "sink": True, "bias": True}).token_mixer
    assert found == RandomMixing(n_heads=6, sink=True, bias=True)
    assert made(join={"name": "scaled", "s": 0.5}).join == Scaled(s=0.5)
    assert made(token_mixer={"name": "attention", "rope": False}).token_mixer == Attention(
        n_heads=6, bias=False, rope=False
    )


def test_a_part_given_as_a_config_is_put_in_as_it_is():
    assert made(token_mixer=RandomMixing()).token_mixer == RandomMixing()
    assert made(blocks=[BlockConfig(token_mixer=RandomMixing()), {}]).blocks == (
        BlockConfig(token_mixer=RandomMixing()),
        BlockConfig(),
    )


def test_the_parts_of_blocks_take_over_too():
    found = made(blocks=[{"token_mixer": {"name": "random_mixing", "sink": True}, "norm": "none"}, {}])
    assert found.blocks[0] == BlockConfig(token_mixer=RandomMixing(n_heads=6, sink=True, bias=False), norm="none")
    assert found.blocks[1] == BlockConfig()


def test_a_misspelt_setting_is_an_error_that_says_where():
    with pytest.raises(ConfigError, match=r"model\.token_mixer\.snk: random_mixing has no 'snk'\. Did you mean 'sink'"):
        made(token_mixer={"name": "random_mixing", "snk": True})
    with pytest.raises(ConfigError, match=r"model\.blocks\.0\.token_mixr: BlockConfig has no 'token_mixr'"):
        made(blocks=[{"token_mixr": "uniform"}])


def test_what_the_bases_blocks_set_an_architecture_does_not():
    own = ModelConfig(blocks=(BlockConfig(token_mixer=Uniform()), BlockConfig()))
    with pytest.raises(ConfigError, match="sets the token mixer, and the base model's blocks set their own"):
        architecture("mixit").model(own)
    with pytest.raises(ConfigError, match="sets the blocks, and the base model has its own"):
        architecture("interleaved").model(own)
    assert architecture("frozen_mlp").model(own) == own
    assert made(own, channel_mixer="mlp").blocks == own.blocks


# Blocks that differ


def test_interleaved_is_mixit_and_attention_by_turns_with_the_heads_of_its_base():
    found = architecture("interleaved").model(ModelConfig(width=24, n_blocks=5, token_mixer=Attention(n_heads=6)))
    assert mixers(found) == ["random_mixing", "attention", "random_mixing", "attention", "random_mixing"]
    assert {found.block(index).token_mixer.n_heads for index in range(5)} == {6}
    assert found.positions == "learned"
    assert from_plain(ModelConfig, to_plain(found)) == found


@pytest.mark.parametrize("k", range(4))
def test_attention_in_one_block_alone_is_written_as_names_with_plusses(k):
    base = ModelConfig(n_blocks=4, width=24, token_mixer=Attention(n_heads=6))
    name = "+".join("attention" if block == k else "random_mixing" for block in range(4))
    found = architecture(name).model(base)
    assert [kind == "attention" for kind in mixers(found)] == [block == k for block in range(4)]
    usual, other = (Transformer(config, SHAPE, seed=0).state_dict() for config in (base, found))
    assert all(torch.equal(usual[address], other[address]) for address in usual.keys() & other.keys())
    assert f"blocks.{k}.token_mixer.query.weight" in other


def test_a_pattern_of_names_is_repeated_and_makes_a_model_as_deep_as_itself():
    pattern = architecture("uniform+random_mixing+attention")
    assert pattern.model(ModelConfig(n_blocks=2)).n_blocks == 3
    found = pattern.model(ModelConfig(n_blocks=7))
    assert mixers(found) == ["uniform", "random_mixing", "attention"] * 2 + ["uniform"]
    assert found.positions == "none"  # an axis of its own


def test_a_misspelt_name_in_a_pattern_gets_the_nearest_mixer():
    with pytest.raises(UnknownName, match=r"no token mixer is called 'atention'\. Did you mean 'attention'"):
        architecture("uniform+atention")
    with pytest.raises(UnknownName, match=r"no architecture is called 'interleavd'\. Did you mean 'interleaved'"):
        architecture("interleavd")


def test_a_learn_rule_reaches_the_blocks_that_have_the_part():
    model = Transformer(architecture("interleaved").model(ModelConfig(n_blocks=4)), SHAPE, seed=0)
    frozen = set(dict(model.named_parameters())) - architecture("frozen_qk").learn.learning(model)
    assert {name.split(".")[1] for name in frozen} == {"1", "3"}
    assert architecture("interleaved").learn.learning(model) == set(dict(model.named_parameters()))
