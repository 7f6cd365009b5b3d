"""Layers drawn from a generator, and the small tools that mixers share."""

import pytest
import torch

from partwise.errors import ConfigError
from partwise.layers import embedding, linear, norm, take, valid_BL
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, TaskShape


def test_linear_draws_its_weight_and_nothing_else_from_the_generator():
    generator = generator_for(0, "x")
    layer = linear(3, 2, generator)
    again = generator_for(0, "x")
    assert torch.equal(layer.weight, torch.empty(2, 3).normal_(0, 3**-0.5, generator=again))
    assert torch.equal(generator.get_state(), again.get_state())
    assert layer.bias.tolist() == [0, 0]
    assert linear(3, 2, generator, bias=False).bias is None


@pytest.mark.parametrize("std", [0.02, 0.0, 3.0])
def test_std_sets_the_spread(std):
    weight = linear(100, 200, generator_for(0, "x"), std=std).weight
    assert weight.std().item() == pytest.approx(std, rel=0.03)
    assert embedding(200, 100, generator_for(0, "x"), std=std).weight.std().item() == pytest.approx(std, rel=0.03)


def test_rms_norm_divides_by_the_root_mean_square_and_layer_norm_takes_the_mean_off():
    x_D = torch.tensor([3.0, 4.0, 0.0, 1.0], dtype=torch.float64)
    rms, layer = norm("rms", 4).double(), norm("layer", 4).double()
    torch.testing.assert_close(rms(x_D), x_D / (x_D.square().mean() + 1e-6).sqrt())
    torch.testing.assert_close(layer(x_D), (x_D - 2) / (x_D.var(correction=0) + 1e-5).sqrt())
    assert norm("none", 4)(x_D) is x_D
    assert sum(p.numel() for p in norm("rms", 4).parameters()) == 4
    assert sum(p.numel() for p in norm("layer", 4).parameters()) == 8


def test_take_reads_rows_of_each_example():
    x_BLD = torch.arange(12.0).reshape(2, 3, 2)
    assert take(x_BLD, torch.tensor([[2, 0], [1, 1]])).tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]


def test_valid_is_true_up_to_the_length():
    assert valid_BL(torch.tensor([2, 0, 3]), 3).tolist() == [[True, True, False], [False] * 3, [True] * 3]


def size(width):
    return MixerSize(width=width, length=3, causal=True, layer=0, n_layers=1)


@pytest.mark.parametrize(
    ("width", "n_heads", "message"),
    [
        (64, 5, "width 64 does not divide into 5 heads; 2 and 4 do."),
        (30, 4, "width 30 does not divide into 4 heads; 3 and 5 do."),
        (7, 4, "width 7 does not divide into 4 heads; 1 and 7 do."),
        (1, 4, "width 1 does not divide into 4 heads; 1 does."),
        (64, 0, "width 64 does not divide into 0 heads; 1 and 2 do."),
    ],
)
def test_heads_that_do_not_divide_the_width_are_refused_with_the_nearest_that_do(width, n_heads, message):
    with pytest.raises(ConfigError) as caught:
        size(width).head_width(n_heads)
    assert str(caught.value) == message


def test_head_width_is_width_over_heads():
    assert [size(30).head_width(h) for h in (1, 2, 3, 5, 30)] == [30, 15, 10, 6, 1]


def test_a_task_shape_is_either_tokens_or_numbers():
    for wrong in ({}, {"vocabulary": 3, "n_features": 2}):
        with pytest.raises(ConfigError, match="either a vocabulary"):
            TaskShape(length=3, **wrong)
    with pytest.raises(ConfigError, match="at least one position"):
        TaskShape(length=0, vocabulary=3)
    assert TaskShape(length=3, vocabulary=7).output_width == 7
    assert TaskShape(length=3, vocabulary=7, n_outputs=2).output_width == 2
    assert TaskShape(length=3, n_features=4, n_outputs=1).output_width == 1
    with pytest.raises(ConfigError, match="n_outputs"):
        _ = TaskShape(length=3, n_features=4).output_width
