"""The Transformer and its slots: what fits together, what is refused, and what a swap leaves alone."""

import pytest
import torch

from partwise.batch import Batch
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.mlp import Mlp
from partwise.channel_mixers.none import NoChannelMixer
from partwise.errors import ConfigError
from partwise.joins.add import Scaled
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.shapes import TaskShape
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.none import NoTokenMixer
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.uniform import Uniform

SHAPE = TaskShape(length=6, vocabulary=7)
TOKENS = torch.tensor([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])


def build(shape=SHAPE, seed=0, **fields):
    return Transformer(ModelConfig(**{"width": 16} | fields), shape, seed=seed).double()


def n_parameters(config, shape):
    return sum(parameter.numel() for parameter in Transformer(config, shape, seed=0).parameters())


def test_the_counts_of_the_published_models_at_width_128():
    shape = TaskShape(length=2, vocabulary=1024)
    standard = n_parameters(ModelConfig(n_blocks=2, width=128), shape)
    mixit = n_parameters(ModelConfig(n_blocks=2, width=128, token_mixer=RandomMixing(), positions="learned"), shape)
    assert standard == 790_400
    assert mixit == 724_736 - 128  # published with a table of three positions; the answer is no input here


def test_a_block_of_the_published_model_has_16_squared_plus_15_widths():
    n, shape = 32, TaskShape(length=3, vocabulary=5)
    for mixer, per_block in ((Attention(), 16 * n**2 + 15 * n), (RandomMixing(), 14 * n**2 + 13 * n)):
        one, two = (n_parameters(ModelConfig(n_blocks=b, width=n, token_mixer=mixer), shape) for b in (1, 2))
        assert two - one == per_block


def test_two_way_is_refused_where_the_input_holds_its_own_answers():
    shape = TaskShape(length=6, vocabulary=7, may_look_ahead=False)
    build(shape)
    with pytest.raises(ConfigError, match="only a causal model is honest"):
        build(shape, two_way=True)


def test_two_way_sees_what_comes_after_and_causal_does_not():
    changed = TOKENS.clone()
    changed[:, -1] = 0
    for two_way in (False, True):
        model = build(two_way=two_way)
        same = torch.equal(model(TOKENS)[:, 0], model(changed)[:, 0])
        assert same is not two_way


def test_a_width_that_does_not_fit_the_heads_is_told_which_do():
    with pytest.raises(ConfigError, match=r"^width 30 does not divide into 4 heads; 3 and 5 do\.$"):
        build(width=30)


def test_an_odd_head_width_cannot_be_turned():
    with pytest.raises(ConfigError, match="rope turns pairs of channels, and a head here has 5"):
        build(width=20)
    build(width=20, token_mixer=Attention(rope=False))


def test_key_and_value_heads_must_share_evenly():
    for wrong in (3, 0, 8):
        with pytest.raises(ConfigError, match="do not share"):
            build(token_mixer=Attention(n_kv_heads=wrong))


def test_an_input_that_is_too_long_is_refused():
    with pytest.raises(ConfigError, match="an input of length 7, but this model was made for 6 at most"):
        build()(torch.zeros(1, 7, dtype=torch.int64))


@pytest.mark.parametrize("name", TOKEN_MIXERS.names())
def test_a_shorter_input_gives_the_beginning_of_a_longer_one(name):
    for positions in ("none", "learned", "one_hot"):
        model = build(token_mixer=TOKEN_MIXERS[name](), positions=positions)
        torch.testing.assert_close(model(TOKENS[:, :4]), model(TOKENS)[:, :4], rtol=0, atol=1e-9)


def test_a_bare_tensor_counts_as_full_rows():
    model = build(two_way=True)
    batch = Batch(tokens_BL=TOKENS, targets_BL=TOKENS, lengths_B=torch.tensor([6, 6]))
    torch.testing.assert_close(model(TOKENS), model(batch), rtol=0, atol=1e-12)


def test_tied_is_one_tensor():
    model = build(tied=True)
    assert model.unembed.weight is model.embed.weight
    assert model.embed.weight.std().item() == pytest.approx(1, rel=0.3)  # drawn as the embedding
    assert n_parameters(ModelConfig(width=16, tied=True), SHAPE) == n_parameters(ModelConfig(width=16), SHAPE) - 7 * 16


def test_tied_is_refused_where_shapes_differ():
    for shape, fields in (
        (SHAPE, {"positions": "one_hot"}),
        (TaskShape(length=6, vocabulary=7, n_outputs=3), {}),
        (TaskShape(length=6, n_features=7, n_outputs=7), {}),
    ):
        with pytest.raises(ConfigError, match="tied=true, but embedding and unembedding differ in shape"):
            build(shape, tied=True, **fields)


def embedded(model):
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(TOKENS)
    return seen[0]


def test_learned_positions_are_added_to_the_embedding():
    model = build(positions="learned")
    expected = model.embed.weight[TOKENS] + model.positions.weight[:6]
    assert torch.equal(embedded(model), expected)


def test_one_hot_positions_take_the_last_channels_and_do_not_learn():
    model = build(positions="one_hot")
    x_BLD = embedded(model)
    assert torch.equal(x_BLD[..., -6:], torch.eye(6, dtype=torch.float64).expand(2, 6, 6))
    assert torch.equal(x_BLD[..., :10], model.embed.weight[TOKENS])
    assert model.embed.weight.shape == (7, 10)
    with pytest.raises(ConfigError, match="one_hot positions take 6 of 6 channels: none is left"):
        build(width=6, positions="one_hot", token_mixer=Uniform())


def test_without_positions_and_rope_a_two_way_model_does_not_know_the_order():
    order = torch.tensor([3, 1, 0, 5, 2, 4])
    for rope in (False, True):
        model = build(two_way=True, token_mixer=Attention(rope=rope))
        same = torch.allclose(model(TOKENS[:, order]), model(TOKENS)[:, order])
        assert same is not rope


def test_parallel_reads_the_same_stream_twice_and_sequential_what_the_first_wrote():
    for order in ("sequential", "parallel"):
        model = build(n_blocks=1, order=order, norm="layer")
        block, x_BLD = model.blocks[0], torch.randn(2, 6, 16, dtype=torch.float64)
        mixed = block.token_mixer(block.norm_1(x_BLD), None)
        source = x_BLD if order == "parallel" else x_BLD + mixed
        expected = x_BLD + mixed + block.channel_mixer(block.norm_2(source))
        torch.testing.assert_close(block(x_BLD, None), expected, rtol=0, atol=1e-12)
        read_BQ = torch.tensor([[5, 0], [2, 2]])
        few = torch.stack([expected[row, at] for row, at in enumerate(read_BQ)])
        torch.testing.assert_close(block(x_BLD, None, read_BQ), few, rtol=0, atol=1e-12)


def test_a_scaled_join_weighs_stream_and_sublayer():
    model = build(n_blocks=1, join=Scaled(s=0.5, r=2.0), channel_mixer=NoChannelMixer())
    block, x_BLD = model.blocks[0], torch.randn(2, 6, 16, dtype=torch.float64)
    expected = 0.5 * x_BLD + 2 * block.token_mixer(block.norm_1(x_BLD), None)
    torch.testing.assert_close(block(x_BLD, None), expected, rtol=0, atol=1e-12)


def test_a_mixer_that_is_none_leaves_its_norm_and_join_out():
    model = build(token_mixer=NoTokenMixer(), channel_mixer=NoChannelMixer())
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"embed", "final_norm", "unembed"}
    model = build(token_mixer=NoTokenMixer())
    assert {name.split(".")[2] for name, _ in model.blocks.named_parameters(prefix="blocks")} == {
        "norm_2",
        "channel_mixer",
    }


def test_blocks_are_a_pattern_that_repeats():
    model = build(
        n_blocks=5,
        blocks=(BlockConfig(token_mixer=Uniform()), BlockConfig(norm="layer", channel_mixer=Mlp(hidden=3))),
    )
    assert [type(block.token_mixer).__name__ for block in model.blocks] == [
        "_Uniform",
        "SelfAttention",
        "_Uniform",
        "SelfAttention",
        "_Uniform",
    ]
    assert [type(block.norm_1).__name__ for block in model.blocks] == [
        "RmsNorm",
        "LayerNorm",
        "RmsNorm",
        "LayerNorm",
        "RmsNorm",
    ]
    assert [block.channel_mixer.up.out_features for block in model.blocks] == [64, 3, 64, 3, 64]
    assert model(TOKENS).shape == (2, 6, 7)


def test_more_block_configs_than_blocks_are_refused():
    with pytest.raises(ConfigError, match="3 block configs for n_blocks=2"):
        ModelConfig(blocks=(BlockConfig(),) * 3)
    for wrong in ({"n_blocks": 0}, {"width": 0}):
        with pytest.raises(ConfigError, match="at least 1 was expected"):
            ModelConfig(**wrong)


@pytest.mark.parametrize("name", [name for name in TOKEN_MIXERS.names() if name != "none"])
def test_value_and_out_start_equal_in_every_mixer_at_one_seed(name):
    usual, other = build(), build(token_mixer=TOKEN_MIXERS[name]())
    for block in (0, 1):
        for part in ("value", "out"):
            address = f"blocks.{block}.token_mixer.{part}"
            assert torch.equal(other.get_submodule(address).weight, usual.get_submodule(address).weight), address


def test_two_blocks_and_two_seeds_start_unequal():
    model, other = build(), build(seed=1)
    for address in ("blocks.0.token_mixer.value", "embed", "unembed", "blocks.1.channel_mixer.gate"):
        assert not torch.equal(model.get_submodule(address).weight, other.get_submodule(address).weight)
    assert not torch.equal(model.blocks[0].token_mixer.value.weight, model.blocks[1].token_mixer.value.weight)


def test_a_deeper_model_starts_with_the_same_first_blocks():
    shallow, deep = build(n_blocks=2).state_dict(), build(n_blocks=12).state_dict()
    assert all(torch.equal(deep[name], tensor) for name, tensor in shallow.items())


def test_learned_positions_leave_every_other_part_as_it_was():
    usual, other = build().state_dict(), build(positions="learned").state_dict()
    assert set(other) - set(usual) == {"positions.weight"}
    assert all(torch.equal(other[name], tensor) for name, tensor in usual.items())


def test_real_valued_inputs_are_mapped_into_the_stream():
    model = build(TaskShape(length=6, n_features=3, n_outputs=1, real_targets=True), positions="learned")
    x_BLF = torch.randn(2, 6, 3, dtype=torch.float64)
    assert model(x_BLF).shape == (2, 6, 1)
    assert model.embed.weight.shape == (16, 3)


def test_a_hidden_width_below_one_is_refused():
    for mixer in (Mlp(hidden=0), GatedMlp(hidden=0)):
        with pytest.raises(ConfigError, match="a hidden width of 0"):
            build(channel_mixer=mixer)


@pytest.mark.parametrize("lengths", [None, [6, 2, 3]])
@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("name", ["attention", "shaped_attention"])
def test_rows_of_any_length_are_mixed_alike_by_the_plain_way_and_by_the_fused_kernel(
    name, two_way, lengths, monkeypatch
):
    model = build(n_blocks=1, width=8, token_mixer=TOKEN_MIXERS[name](n_heads=4, n_kv_heads=2), two_way=two_way)
    mixer, x_BLD = model.blocks[0].token_mixer, torch.randn(3, 6, 8, dtype=torch.float64)
    lengths_B = None if lengths is None else torch.tensor(lengths)
    found = []
    for tiny in (0, 99):
        monkeypatch.setattr("partwise.token_mixers.attention.TINY", tiny)
        y_BLD = mixer(x_BLD, lengths_B)
        found.append([y_LD[:n] for y_LD, n in zip(y_BLD, lengths or [6, 6, 6], strict=True)])
    torch.testing.assert_close(*found)


def test_rope_makes_scores_depend_on_the_distance_alone():
    model = build(n_blocks=1, width=8, token_mixer=Attention(n_heads=1, bias=False), two_way=True)
    mixer, at_1L = model.blocks[0].token_mixer, torch.arange(6)[None]
    with torch.no_grad():
        q_BHLK = mixer._turned(torch.ones(1, 6, 1, 8, dtype=torch.float64), at_1L).transpose(1, 2)
        k_BHLK = mixer._turned(torch.full((1, 6, 1, 8), 2.0, dtype=torch.float64), at_1L).transpose(1, 2)
    scores_LS = (q_BHLK @ k_BHLK.mT)[0, 0]
    for distance in range(-4, 5):
        diagonal = scores_LS.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores_LS[0, 0] > scores_LS[0, 1]
    read_BQ = torch.tensor([[4, 1]])
    turned = mixer._turned(torch.ones(1, 2, 1, 8, dtype=torch.float64), read_BQ)
    torch.testing.assert_close(turned[0, :, 0], q_BHLK[0, 0, [4, 1]])
