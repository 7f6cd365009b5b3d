"""The fast ways against their plain twins, values and gradients."""

import pytest
import torch

from partwise import fast
from partwise.layers import linear, mixed_values
from partwise.seeds import generator_for
from partwise.token_mixers.attention import angles


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=generator_for(0, f"{shape}"), dtype=dtype).requires_grad_()


def both_ways(compute, *inputs):
    """Value and gradients, the fast way and the plain one."""
    found = []
    for way in (torch.enable_grad, fast.plain):
        with way():
            y = compute(*inputs)
            upstream = torch.randn(y.shape, generator=generator_for(1, "upstream"), dtype=torch.float64).to(y.dtype)
            found.append([y, *torch.autograd.grad(y, inputs, upstream)])
    return found


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5), (1, 7, 16), (0, 4)])
def test_rms_norm(shape):
    quick, slow = both_ways(lambda x, gain: fast.rms_norm(x, gain, 1e-6), drawn(*shape), drawn(shape[-1]))
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


def test_rms_norm_of_zeros_is_zero_and_so_sound_a_gradient():
    x = torch.zeros(2, 4, requires_grad=True)
    y = fast.rms_norm(x, torch.ones(4), 1e-6)
    (d_x,) = torch.autograd.grad(y.sum(), x)
    assert y.eq(0).all()
    assert d_x.isfinite().all()


def test_rms_norm_rounds_once_where_the_arithmetic_is_bfloat16():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert fast.rms_norm(drawn(3, 8, dtype=torch.float32), torch.ones(8), 1e-6).dtype == torch.bfloat16


def test_rotation():
    cos, sin = (table[:, None] for table in angles(6, 4, 100.0, torch.device("cpu"), torch.float64))
    quick, slow = both_ways(lambda x: fast.rotated(x, cos, sin), drawn(3, 6, 2, 8))
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


def test_a_rotation_keeps_every_pair_its_length_and_the_difference_of_places_decides():
    cos, sin = (table[:, None] for table in angles(9, 2, 100.0, torch.device("cpu"), torch.float64))
    turned = fast.rotated(drawn(4)[None, None, None].expand(1, 9, 1, 4), cos, sin)[0, :, 0]
    torch.testing.assert_close(turned.norm(dim=-1), turned[0].norm().expand(9), rtol=1e-6, atol=1e-6)
    dots = turned @ turned.T
    torch.testing.assert_close(dots[0, 3], dots[5, 8], rtol=1e-6, atol=1e-6)


def test_rows_and_their_places():
    at = torch.tensor([4, 0, 3])
    quick, slow = both_ways(lambda x: fast.rows_of(x, at), drawn(5, 2))
    torch.testing.assert_close(quick, slow)
    quick, slow = both_ways(lambda x: fast.rows_into(x, at, 5), drawn(3, 2))
    torch.testing.assert_close(quick, slow)
    assert quick[0][1].eq(0).all()


def test_plain_is_put_back_after_an_exception():
    x = torch.zeros(1)
    with pytest.raises(ZeroDivisionError), fast.plain():
        _ = 1 // int(fast.applies(x))
    assert fast.applies(x)


@pytest.mark.parametrize("factor", [None, 0.5])
@pytest.mark.parametrize("n_values", [4, 2])
@pytest.mark.parametrize("n_read", [1, 9])
def test_values_mixed_before_or_after_their_map_are_the_same(n_read, n_values, factor):
    value = linear(8, 2 * n_values, generator_for(0, "value"), factor=factor).double()
    torch.nn.init.normal_(value.bias, generator=generator_for(0, "bias"))
    mix, x = drawn(3, 4, n_read, 9), drawn(3, 9, 8)
    v = value(x).unflatten(-1, (n_values, 2)).transpose(1, 2).repeat_interleave(4 // n_values, dim=1)
    torch.testing.assert_close(mixed_values(mix, x, value, n_values), mix @ v, rtol=1e-10, atol=1e-10)
