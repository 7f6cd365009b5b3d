"""What learns: for every architecture and every mixer, against a table written by hand."""

import pytest
import torch
from torch import nn

from partwise.architectures import architecture, architectures
from partwise.errors import ConfigError, UnknownAddress, UnknownName
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.parts import AllBut, Only, Stage, Stages, aliases, census, select
from partwise.shapes import TaskShape
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.none import NoTokenMixer
from partwise.token_mixers.uniform import Uniform

SHAPE = TaskShape(length=4, vocabulary=9)

# One row an architecture, one column a part; + learns, - stays as it was drawn. A model that lacks a part lacks its
# column; an architecture that names a part which the model lacks is an error (REFUSED).
TABLE = """
                 embed positions norm_1 query key value out norm_2 gate up down final_norm unembed
standard           +       +       +      +    +    +    +    +     +   +   +       +         +
frozen_qk          +       +       +      -    -    +    +    +     +   +   +       +         +
frozen_mlp         +       +       +      +    +    +    +    +     -   -   -       +         +
mixit              +       +       +      +    +    +    +    +     +   +   +       +         +
embeddings_only    +       +       -      -    -    -    -    -     -   -   -       -         +
norms_only         -       -       +      -    -    -    -    +     -   -   -       +         -
frozen_vo          +       +       +      +    +    -    -    +     +   +   +       +         +
interleaved        +       +       +      +    +    +    +    +     +   +   +       +         +
standard_published +       +       +      +    +    +    +    +     +   +   +       +         +
mixit_published    +       +       +      +    +    +    +    +     +   +   +       +         +
shaped_published   +       +       +      +    +    +    +    +     +   +   +       +         +
"""
REFUSED = {
    ("frozen_qk", "random_mixing"),
    ("frozen_qk", "uniform"),
    ("frozen_qk", "none"),
    ("norms_only", "none"),
    ("frozen_vo", "none"),
}
OWN = {  # architectures that bring their mixer and positions along (interleaved has those of attention, and others)
    "mixit": ("random_mixing", "learned"),
    "interleaved": ("attention", "learned"),
    "standard_published": ("attention", "none"),
    "mixit_published": ("random_mixing", "learned"),
    "shaped_published": ("shaped_attention", "none"),
}
PARTS = {
    "attention": {"norm_1", "query", "key", "value", "out"},
    "shaped_attention": {"norm_1", "query", "key", "value", "out"},
    "random_mixing": {"norm_1", "value", "out"},
    "uniform": {"norm_1", "value", "out"},
    "none": set(),
}


def truth():
    head, *rows = TABLE.strip().splitlines()
    return {row.split()[0]: dict(zip(head.split(), row.split()[1:], strict=True)) for row in rows}


def build(seed=0, **fields):
    return Transformer(ModelConfig(**{"width": 8} | fields), SHAPE, seed=seed)


def part_of(name):
    """`query` of blocks.0.token_mixer.query.weight, `embed` of embed.weight."""
    return name.split(".")[-2]


def test_the_table_has_every_architecture_and_every_mixer():
    assert truth().keys() == dict(architectures()).keys()
    assert set(TOKEN_MIXERS.names()) == PARTS.keys()


@pytest.mark.parametrize("positions", ["none", "learned"])
@pytest.mark.parametrize("mixer", PARTS)
@pytest.mark.parametrize("name", truth())
def test_what_learns_is_what_the_table_says(name, mixer, positions):
    chosen = architecture(name)
    base = ModelConfig(width=8, n_blocks=3, token_mixer=TOKEN_MIXERS[mixer](), positions=positions)
    model = Transformer(chosen.model(base), SHAPE, seed=0)
    if (name, mixer) in REFUSED:
        with pytest.raises(UnknownAddress, match="names no parameter of this model"):
            chosen.learn.learning(model)
        return
    learns, row = chosen.learn.learning(model), truth()[name]
    held = {parameter for parameter, _ in model.named_parameters()}
    own_mixer, own_positions = OWN.get(name, (mixer, positions))
    has = PARTS[own_mixer] | {"norm_2", "gate", "up", "down", "embed", "final_norm", "unembed"}
    has |= {"positions"} if own_positions == "learned" else set()
    assert {part_of(parameter) for parameter in held} == has
    assert learns == {parameter for parameter in held if row[part_of(parameter)] == "+"}


def test_grouped_attention_freezes_the_same_parts():
    model = build(token_mixer=Attention(n_kv_heads=2))
    frozen = set(aliases(model)) - architecture("frozen_qk").learn.learning(model)
    assert {part_of(name) for name in frozen} == {"query", "key"}
    assert len(frozen) == 2 * 2 * 2


def test_only_one_layer_of_interleaved_mixers_can_be_frozen():
    model = build(n_blocks=4, blocks=(BlockConfig(token_mixer=Uniform()), BlockConfig()))
    frozen = set(aliases(model)) - architecture("frozen_qk").learn.learning(model)
    assert {name.split(".")[1] for name in frozen} == {"1", "3"}


@pytest.mark.parametrize(
    ("name", "trainable"), [("standard", 790_400), ("frozen_qk", 724_352), ("frozen_mlp", 394_880), ("mixit", 724_608)]
)
def test_the_published_counts_of_what_learns_at_width_128(name, trainable):
    """Vocabulary 1024, two blocks. Published MixiT has 724,736: its positions have a third row, for the answer."""
    chosen = architecture(name)
    model = Transformer(chosen.model(ModelConfig(width=128)), TaskShape(length=2, vocabulary=1024), seed=0)
    assert census(model, chosen.learn).learned == trainable


def test_mixit_differs_from_standard_in_the_mixer_and_the_positions_alone():
    base = ModelConfig(token_mixer=Attention(n_heads=2, bias=False))
    changed = architecture("mixit").model(base)
    assert changed.token_mixer == TOKEN_MIXERS["random_mixing"](n_heads=2, bias=False)
    usual, other = (Transformer(config, SHAPE, seed=0).state_dict() for config in (base, changed))
    differ = {name for name in usual.keys() | other.keys() if name not in usual or name not in other}
    assert {part_of(f"{name}.x" if "mix" in name.split(".")[-1] else name) for name in differ} == {
        "query",
        "key",
        "positions",
        "mix_HLL",
    }
    assert all(torch.equal(usual[name], other[name]) for name in usual.keys() & other.keys())


def test_a_token_mixers_name_is_an_architecture_and_an_unknown_name_gets_the_nearest():
    assert architecture("uniform").model(ModelConfig()).token_mixer == Uniform()
    with pytest.raises(UnknownName, match=r"no architecture is called 'frozen_qq'\. Did you mean 'frozen_qk'"):
        architecture("frozen_qq")


def test_a_question_mark_marks_a_part_that_may_be_missing():
    with_positions, without = build(positions="learned"), build()
    assert select(with_positions, ("positions?",)) == {"positions.weight"}
    assert select(without, ("positions?",)) == set()
    assert Only("embed", "positions?").learning(without) == {"embed.weight"}
    assert AllBut("nothing_of_the_kind?").learning(without) == set(aliases(without))


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("blocks.*.token_mixer.values", "blocks.0.token_mixer.value"),
        ("blocks.*.token_mixer.querry", "blocks.0.token_mixer.query"),
        ("blocks.1.chanel_mixer", "blocks.1.channel_mixer"),
        ("embd", "embed"),
        ("positions", "embed"),
    ],
)
def test_a_pattern_that_matches_nothing_stops_with_the_nearest_address(pattern, nearest):
    for rule in (Only("unembed", pattern), AllBut("unembed", pattern), Stages((0, AllBut()), (9, Only(pattern)))):
        with pytest.raises(UnknownAddress) as caught:
            rule.learning(build(), 9)
        expected = f"{pattern!r} names no parameter of this model."
        assert str(caught.value).startswith(expected)
        if pattern != "positions":
            assert str(caught.value) == f"{expected} Nearest: {nearest}."


def test_a_pattern_with_nothing_near_is_told_what_there_is():
    with pytest.raises(UnknownAddress, match=r"There are: blocks, embed, final_norm, unembed\.$"):
        Only("zzz").learning(build())


@pytest.mark.parametrize("rule", [Only("embed"), Only("unembed"), Only("embed", "unembed")])
def test_a_tied_tensor_learns_if_either_of_its_addresses_is_named(rule):
    model = build(tied=True)
    assert rule.learning(model) == {"embed.weight"}
    assert dict(model.named_parameters())["embed.weight"] is model.unembed.weight


@pytest.mark.parametrize("pattern", ["embed", "unembed"])
def test_a_tied_tensor_is_frozen_if_either_of_its_addresses_is_named(pattern):
    model = build(tied=True)
    learns = AllBut(pattern).learning(model)
    assert "embed.weight" not in learns
    assert "unembed.weight" not in learns
    assert len(learns) == len(list(model.parameters())) - 1


def test_the_census_counts_a_tied_tensor_once():
    tied, untied = census(build(tied=True), AllBut("unembed")), census(build(), AllBut("unembed"))
    assert tied.frozen == untied.frozen == 9 * 8
    assert untied.total - tied.total == 9 * 8
    assert aliases(build(tied=True))["unembed.weight"] == "embed.weight"


def test_the_census_adds_up_and_counts_buffers_apart():
    model = build(token_mixer=TOKEN_MIXERS["random_mixing"](n_heads=2))
    found = census(model, Only("embed"))
    assert found.learned == 9 * 8
    assert found.total == sum(parameter.numel() for parameter in model.parameters())
    assert found.frozen == found.total - found.learned
    assert found.fixed == 2 * 2 * 4 * 4


def test_nothing_that_learns_is_an_error():
    with pytest.raises(ConfigError, match="lets nothing learn"):
        Only().learning(build())
    with pytest.raises(ConfigError, match=r"AllBut\('\*\*'\) leaves nothing to learn"):
        AllBut("**").learning(build())


@pytest.mark.parametrize("wrong", ["", "?", "??"])
def test_a_rule_is_made_of_patterns(wrong):
    for rule in (Only, AllBut):
        with pytest.raises(ConfigError, match="is made of address patterns"):
            rule("embed", wrong)


STAGES = Stages((0, Only("embed")), (5, AllBut("embed")), (9, AllBut()))


def test_stages_follow_one_another():
    model = build()
    every = set(aliases(model))
    for step, expected in ((0, {"embed.weight"}), (4, {"embed.weight"}), (5, every - {"embed.weight"}), (9, every)):
        assert STAGES.learning(model, step) == expected
    assert STAGES.learning(model, 10**6) == every
    assert STAGES.changes() == (5, 9)
    assert Only("embed").changes() == AllBut().changes() == ()


def test_the_census_of_stages_counts_what_learns_at_any_of_them_or_at_the_first():
    model, rule = build(), Stages((0, Only("embed")), (5, Only("unembed")))
    assert census(model, rule).learned == 2 * 9 * 8
    assert census(model, rule).parts == ("embed", "unembed")
    assert census(model, rule, ever=False).parts == ("embed",)


@pytest.mark.parametrize("starts", [(), (1,), (0, 0), (0, 5, 3), (-1, 4)])
def test_stages_start_at_0_and_go_forward(starts):
    with pytest.raises(ConfigError, match="the first at 0 and each later than the one before"):
        Stages(*((start, AllBut()) for start in starts))


def test_stages_are_not_nested_and_compare_by_value():
    with pytest.raises(ConfigError, match="a stage is a step and Only or AllBut"):
        Stages((0, Stages((0, AllBut()))))
    assert Stages((0, AllBut()), (5, Only("embed"))) == Stages(Stage(0, AllBut()), Stage(5, Only("embed")))
    assert hash(Only("a", "b")) == hash(Only("a", "b"))
    assert Only("a") != AllBut("a")
    assert repr(STAGES) == "Stages((0, Only('embed')), (5, AllBut('embed')), (9, AllBut()))"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AllBut(), "embed, token_mixer, norm_1, channel_mixer, norm_2, final_norm, unembed"),
        (Only("embed", "unembed"), "embed, unembed"),
        (architecture("frozen_qk").learn, "embed, value, out, norm_1, channel_mixer, norm_2, final_norm, unembed"),
        (architecture("frozen_mlp").learn, "embed, token_mixer, norm_1, norm_2, final_norm, unembed"),
        (architecture("norms_only").learn, "norm_1, norm_2, final_norm"),
        (Only("blocks.1.token_mixer.query"), "query (block 1)"),
        (Only("blocks.[02].token_mixer.key", "embed"), "embed, key (block 0, 2)"),
        (Only("blocks.*.token_mixer.query.bias"), "query.bias"),
        (Only("blocks.1.token_mixer.query.bias"), "query (in part)"),
    ],
)
def test_the_head_of_a_run_says_in_words_what_learns(rule, words):
    found = census(build(n_blocks=3), rule)
    assert ", ".join(found.parts) == words
    assert str(found).endswith(f": {words}")


def test_the_head_of_a_run_gives_both_counts():
    assert str(census(build(width=128), architecture("norms_only").learn)).startswith("learns 640 of 530,560: ")


def test_any_module_can_be_named_by_its_own_addresses():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    assert Only("1").learning(model) == {"1.weight", "1.bias"}
    assert census(model, AllBut("1.bias")).parts == ("0", "1.weight")
    assert census(model, AllBut()).parts == ("0", "1")


def test_a_model_without_a_token_mixer_refuses_a_rule_that_names_one():
    with pytest.raises(UnknownAddress):
        AllBut("blocks.*.token_mixer").learning(build(token_mixer=NoTokenMixer()))
    assert AllBut("blocks.*.token_mixer?").learning(build(token_mixer=NoTokenMixer()))
