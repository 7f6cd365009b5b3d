"""Patterns name parts by components, never by pieces of text."""

import pytest

from partwise.addresses import matches
from partwise.model import ModelConfig, Transformer
from partwise.parts import select
from partwise.shapes import TaskShape
from partwise.token_mixers.uniform import Uniform


@pytest.mark.parametrize(
    ("pattern", "address", "expected"),
    [
        ("embed", "embed", True),
        ("embed", "unembed", False),
        ("blocks.1", "blocks.10", False),
        ("blocks.1*", "blocks.10", True),
        ("blocks.*.norm_1", "blocks.3.norm_1", True),
        ("blocks.*", "blocks.3.norm_1", False),
        ("*", "blocks.3", False),
        ("blocks.*.norm_?", "blocks.3.norm_2", True),
        ("**", "blocks.3.norm_1", True),
        ("**.weight", "blocks.3.norm_1.weight", True),
        ("**.weight", "weight", True),
        ("blocks.**.weight", "blocks.3.token_mixer.query.weight", True),
        ("blocks.**.weight", "embed.weight", False),
        ("blocks.[12].norm_1", "blocks.2.norm_1", True),
        ("Embed", "embed", False),
        ("", "embed", False),
        ("embed.weight.data", "embed.weight", False),
    ],
)
def test_a_pattern_is_compared_component_by_component(pattern, address, expected):
    assert matches(pattern, address) is expected


@pytest.mark.parametrize(
    ("pattern", "address", "expected"),
    [
        ("blocks.1", "blocks.1.norm_1.weight", True),
        ("blocks.1", "blocks.10.norm_1.weight", False),
        ("blocks.*.token_mixer", "blocks.3.token_mixer.query.weight", True),
        ("blocks.*.token_mixer", "blocks.3.channel_mixer.up.weight", False),
        ("embed.weight", "embed", False),
    ],
)
def test_below_a_module_means_all_that_it_holds(pattern, address, expected):
    assert matches(pattern, address, below=True) is expected


def test_block_1_is_not_block_10_in_a_model_of_twelve():
    model = Transformer(
        ModelConfig(n_blocks=12, width=4, token_mixer=Uniform()), TaskShape(length=3, vocabulary=5), seed=0
    )
    assert {name.split(".")[1] for name in select(model, ("blocks.1",))} == {"1"}
    assert {name.split(".")[1] for name in select(model, ("blocks.1?",))} == {
        "1"
    }  # the "?" says that it may be missing
    assert {name.split(".")[1] for name in select(model, ("blocks.[2-3]",))} == {"2", "3"}
    assert {name.split(".")[1] for name in select(model, ("blocks.1*",))} == {"1", "10", "11"}
    assert {name.split(".")[1] for name in select(model, ("blocks.*.norm_1",))} == {str(n) for n in range(12)}
