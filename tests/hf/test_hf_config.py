import pytest

pytest.importorskip("transformers")

from hf_small import config
from transformers import AutoConfig

from partwise import PartwiseConfig
from partwise.architectures import architecture
from partwise.configs import to_plain
from partwise.errors import ConfigError, UnknownName
from partwise.model import ModelConfig
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing


def test_an_architecture_at_the_usual_sizes_is_the_labs_own():
    made = PartwiseConfig(architecture="mixit", hidden_size=32, num_hidden_layers=3, num_attention_heads=8)
    base = ModelConfig(width=32, n_blocks=3, token_mixer=Attention(n_heads=8))
    assert made.model == architecture("mixit").model(base)
    assert made.model.token_mixer == RandomMixing(n_heads=8)
    assert (made.hidden_size, made.num_hidden_layers, made.num_attention_heads) == (32, 3, 8)
    assert made.learn_rule == architecture("mixit").learn


def test_parts_fill_in_the_usual_names_and_their_own_defaults():
    made = PartwiseConfig(parts={"width": 48, "token_mixer": {"name": "attention", "n_heads": 6}, "tied": True})
    assert (made.hidden_size, made.num_hidden_layers, made.num_attention_heads) == (48, 2, 6)
    assert made.tie_word_embeddings is True
    assert made.parts == to_plain(ModelConfig(width=48, token_mixer=Attention(n_heads=6), tied=True))


def test_the_default_is_the_standard_model():
    assert PartwiseConfig().model == ModelConfig()


def test_a_mixer_without_heads_leaves_their_number_as_it_was_given():
    assert config("uniform").num_attention_heads == 2
    assert PartwiseConfig(architecture="uniform").num_attention_heads is None


def test_mixers_that_differ_in_heads_have_no_common_number():
    blocks = [{"token_mixer": {"name": "attention", "n_heads": heads}} for heads in (2, 4)]
    assert PartwiseConfig(parts={"blocks": blocks}).num_attention_heads is None
    with pytest.raises(ConfigError, match="num_attention_heads is 4, but the parts say None"):
        PartwiseConfig(parts={"blocks": blocks}, num_attention_heads=4)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("hidden_size", 32, 16),
        ("num_hidden_layers", 5, 2),
        ("num_attention_heads", 4, 2),
        ("tie_word_embeddings", True, False),
    ],
)
def test_a_usual_name_that_contradicts_the_parts_is_refused(name, value, said):
    parts = config().parts
    with pytest.raises(ConfigError, match=f"{name} is {value!r}, but the parts say {said!r}"):
        PartwiseConfig(parts=parts, **{name: value})
    made = config()
    setattr(made, name, value)  # as `from_pretrained(..., hidden_size=32)` does
    with pytest.raises(ConfigError, match=f"{name} is {value!r}, but the parts say {said!r}"):
        _ = made.model


def test_a_misspelt_name_gets_the_near_one():
    with pytest.raises(ConfigError, match=r"PartwiseConfig has no 'hiden_size'\. Did you mean 'hidden_size'\?"):
        PartwiseConfig(hiden_size=32)
    with pytest.raises(UnknownName, match=r"no architecture is called 'mixt'\. Did you mean 'mixit'"):
        PartwiseConfig(architecture="mixt")
    with pytest.raises(ConfigError, match=r"parts\.widht: ModelConfig has no 'widht'. Did you mean 'width'"):
        PartwiseConfig(parts={"widht": 32})
    with pytest.raises(UnknownName, match="no learn rule is called 'onli'"):
        PartwiseConfig(learn={"name": "onli", "patterns": ["embed"]})


@pytest.mark.parametrize("name", ["mixit", "interleaved", "frozen_qk", "shaped_published", "none"])
def test_it_comes_back_from_its_file(name, tmp_path):
    made = config(name, num_labels=3, pad_token_id=0, eos_token_id=[1, 2], seed=7)
    made.save_pretrained(tmp_path)
    for back in (PartwiseConfig.from_pretrained(tmp_path), AutoConfig.from_pretrained(tmp_path)):
        assert isinstance(back, PartwiseConfig)
        assert back.model == made.model and back.learn_rule == made.learn_rule
        assert (back.num_labels, back.pad_token_id, back.eos_token_id, back.seed) == (3, 0, [1, 2], 7)
        assert back.architecture == name
        assert back.to_diff_dict() == made.to_diff_dict() | {"transformers_version": back.transformers_version}
