"""The frozen random mixing matrix: what it is, where it is kept, and what becomes of it for shorter inputs."""

import pytest
import torch

from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.shapes import MixerSize
from partwise.taps import record
from partwise.token_mixers.random_mixing import RandomMixing, sample_mixing_matrix


def matrix(n_heads=4, length=9, std=(0.1, 0.3), causal=True, seed=0):
    return sample_mixing_matrix(n_heads, length, std=std, causal=causal, generator=generator_for(seed, "mix"))


def mixer(length=9, causal=True, **fields):
    size = MixerSize(width=16, length=length, causal=causal, layer=0, n_layers=1)
    return RandomMixing(**fields).build(size, generator=generator_for(0, "mixer")).double()


def mix_of(module, length, lengths=None):
    x_BLD = torch.zeros(1 if lengths is None else len(lengths), length, 16, dtype=torch.float64)
    with record(module, "mix") as seen:
        module(x_BLD, None if lengths is None else torch.tensor(lengths))
    return seen["mix"]


@pytest.mark.parametrize("causal", [True, False])
def test_each_row_sums_to_one(causal):
    torch.testing.assert_close(matrix(causal=causal).sum(-1), torch.ones(4, 9), rtol=0, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_without_spread_it_is_the_identity(causal):
    assert torch.equal(matrix(std=(0.0, 0.0), causal=causal), torch.eye(9).expand(4, 9, 9))


def test_causal_is_zero_right_of_the_diagonal_and_one_in_its_first_entry():
    mix_HLL = matrix()
    assert not mix_HLL.triu(1).any()
    assert (mix_HLL[:, 0, 0] == 1).all()
    assert (mix_HLL[:, 3, :3] != 0).all()


def test_two_way_is_centred_over_all_positions_and_not_over_the_prefix():
    mix_HLL = matrix(causal=False)
    assert (mix_HLL.triu(1)[:, 0, 1:] != 0).all()
    w_HLL = mix_HLL - torch.eye(9)
    torch.testing.assert_close(w_HLL.mean(-1), torch.zeros(4, 9), rtol=0, atol=1e-6)
    published = 1 + w_HLL.sum(-1) - w_HLL.tril().sum(-1)  # dividing by i + 1 would leave rows far from one
    assert (published[:, :-1] - 1).abs().max() > 0.1


def test_each_head_draws_its_own_spread_between_the_two_ends():
    n_heads, length = 200, 60
    mix_HLL = matrix(n_heads=n_heads, length=length, std=(0.05, 0.25), causal=False)
    off = ~torch.eye(length, dtype=torch.bool)
    std_H = mix_HLL[:, off].std(-1) / (1 - 1 / length) ** 0.5  # centring takes 1 / L of the variance
    slack = 4 / (2 * length**2) ** 0.5
    assert std_H.min() > 0.05 * (1 - slack)
    assert std_H.max() < 0.25 * (1 + slack)
    assert std_H.mean().item() == pytest.approx(0.15, abs=4 * (0.2 / 12**0.5) / n_heads**0.5)
    assert std_H.std().item() == pytest.approx(0.2 / 12**0.5, rel=0.2)
    assert std_H.min() < 0.06
    assert std_H.max() > 0.24


def test_the_usual_spread_runs_from_that_of_a_head_to_that_of_a_row():
    module = mixer(length=64, n_heads=2, causal=False)
    lone = module.mix_HLL - torch.eye(64)
    low, high = (64 * 8) ** -0.5, 64**-0.5
    for head in range(2):
        assert 0.95 * low < lone[head].std().item() < 1.05 * high


def test_heads_and_seeds_differ():
    mix_HLL = matrix()
    assert not torch.allclose(mix_HLL[0], mix_HLL[1])
    assert not torch.allclose(mix_HLL, matrix(seed=1))
    assert torch.equal(mix_HLL, matrix())


@pytest.mark.parametrize("std", [(-0.1, 0.1), (0.2, 0.1), (0.0, float("inf")), (0.0, float("nan"))])
def test_an_impossible_spread_is_refused(std):
    with pytest.raises(ConfigError, match="0 <= low <= high"):
        matrix(std=std)


def test_no_head_and_no_length_are_refused():
    for wrong in ({"n_heads": 0}, {"length": 0}):
        with pytest.raises(ConfigError, match="at least 1"):
            matrix(**wrong)
    with pytest.raises(ConfigError, match="needs two heads"):
        mixer(n_heads=1, sink=True)


def test_the_sink_replaces_head_0_by_half_itself_and_half_the_first_position():
    plain, sink = mixer().mix_HLL, mixer(sink=True).mix_HLL
    assert torch.equal(plain[1:], sink[1:])
    assert sink[0, 0].tolist() == [0.5] + [0.0] * 8  # as published: row 0 sums to one half
    assert sink[0, 4].tolist() == [0.5, 0, 0, 0, 0.5, 0, 0, 0, 0]


def test_the_sink_is_left_alone_when_a_two_way_input_is_shorter_or_padded():
    module = mixer(causal=False, sink=True)
    torch.testing.assert_close(mix_of(module, 5)[0, 0], module.mix_HLL[0, :5, :5])
    torch.testing.assert_close(mix_of(module, 9, [9, 4])[0, 0], module.mix_HLL[0])
    torch.testing.assert_close(mix_of(module, 9, [9, 4])[1, 0, :4, :4], module.mix_HLL[0, :4, :4])


def test_the_matrix_is_a_persistent_buffer_and_no_parameter():
    module = mixer()
    assert "mix_HLL" in module.state_dict()
    assert "mix_HLL" in dict(module.named_buffers())
    assert {name.split(".")[0] for name, _ in module.named_parameters()} == {"value", "out"}


def test_a_shorter_causal_input_uses_the_corner():
    module = mixer()
    assert torch.equal(mix_of(module, 5)[0], module.mix_HLL[:, :5, :5])
    assert torch.equal(mix_of(module, 5, [3])[0], module.mix_HLL[:, :5, :5])


def test_a_shorter_two_way_input_is_centred_anew_over_what_is_in_use():
    module = mixer(causal=False)
    mix_HLS = mix_of(module, 6)[0]
    torch.testing.assert_close(mix_HLS.sum(-1), torch.ones(4, 6, dtype=torch.float64))
    w_HLL = module.mix_HLL[:, :6, :6] - torch.eye(6)
    torch.testing.assert_close(mix_HLS, torch.eye(6) + w_HLL - w_HLL.mean(-1, keepdim=True))
    padded_BHLS = mix_of(module, 9, [9, 6])
    torch.testing.assert_close(padded_BHLS[1, :, :6, :6], mix_HLS)
    assert not padded_BHLS[1, :, :6, 6:].any()


def test_equal_values_pass_unchanged():
    module = mixer(n_heads=2)
    torch.testing.assert_close(
        mix_of(module, 9)[0] @ torch.ones(9, 3, dtype=torch.float64),
        torch.ones(2, 9, 3, dtype=torch.float64),
        rtol=0,
        atol=1e-6,
    )


def test_the_output_is_the_values_mixed_head_by_head():
    module = mixer(n_heads=2)
    x_BLD = torch.randn(3, 7, 16, generator=generator_for(0, "x"), dtype=torch.float64)
    value_BLD = module.value(x_BLD)
    mixed = [module.mix_HLL[h, :7, :7] @ value_BLD[..., 8 * h : 8 * h + 8] for h in range(2)]
    torch.testing.assert_close(module(x_BLD, None), module.out(torch.cat(mixed, dim=-1)))
