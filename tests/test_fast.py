"""The fast ways against their plain twins, values and gradients."""

from dataclasses import replace

import pytest
import torch
from small import experiment
from torch.autograd import forward_ad

from partwise import fast
from partwise.architectures import architecture
from partwise.batch import IGNORE
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.evaluation import loss_of, loss_sum
from partwise.layers import linear, mixed_values, norm
from partwise.seeds import generator_for
from partwise.shapes import MixerSize
from partwise.token_mixers.attention import angles

SIZE = MixerSize(width=6, length=8, causal=True, layer=0, n_layers=1)


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
    cos, sin = angles(6, 2, 8, 100.0, torch.device("cpu"), torch.float64)
    quick, slow = both_ways(lambda x: fast.rotated(x, cos, sin), drawn(3, 6, 2, 8))
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


def test_a_rotation_keeps_every_pair_its_length_and_the_difference_of_places_decides():
    cos, sin = angles(9, 1, 4, 100.0, torch.device("cpu"), torch.float64)
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


def test_the_gated_feed_forward():
    mixer = GatedMlp(hidden=7).build(SIZE, generator=generator_for(0, "mixer")).double()
    for layer in (mixer.gate, mixer.up, mixer.down):
        torch.nn.init.normal_(layer.bias, generator=generator_for(0, "bias"))
    quick, slow = both_ways(lambda x, *parameters: mixer(x), drawn(2, 3, 6), *mixer.parameters())
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


def test_what_is_frozen_in_a_gated_feed_forward_has_no_gradient():
    mixer = GatedMlp(hidden=7).build(SIZE, generator=generator_for(0, "mixer"))
    mixer.up.requires_grad_(False)
    mixer(torch.ones(2, 3, 6)).sum().backward()
    assert mixer.up.weight.grad is None
    assert mixer.gate.weight.grad is not None


def test_a_hook_is_called_all_the_same():
    mixer, seen = GatedMlp(hidden=7).build(SIZE, generator=generator_for(0, "mixer")), []
    mixer.up.register_forward_hook(lambda module, given, made: seen.append(made.shape))
    mixer(torch.ones(2, 3, 6))
    assert seen == [(2, 3, 7)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [1, 64, 150])
def test_values_of_all_examples_mixed_by_the_same_matrices(length, causal):
    mix = drawn(3, length, length).detach()
    mix = mix.tril() if causal else mix
    quick, slow = both_ways(lambda v: fast.mixed_alike(mix, v, causal=causal), drawn(2, length, 3, 4))
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


def test_a_mixing_matrix_that_wants_a_gradient_has_one():
    mix, v = drawn(2, 5, 5), drawn(3, 5, 2, 4)
    (d_mix,) = torch.autograd.grad(fast.mixed_alike(mix, v, causal=False).sum(), mix)
    torch.testing.assert_close(d_mix, v.sum((0, 3)).T[:, None].expand(2, 5, 5))


@pytest.mark.parametrize("n_rows", [1, 300, 600])
def test_cross_entropy_piece_by_piece(n_rows):
    targets = torch.randint(9, (n_rows,), generator=generator_for(0, "targets"))
    x, weight = drawn(n_rows, 6), drawn(9, 6)
    value = fast.cross_entropy_sum(x, weight, targets)
    expected = torch.nn.functional.cross_entropy(x @ weight.T, targets, reduction="sum")
    torch.testing.assert_close(value, expected)
    for ours, theirs in zip(*(torch.autograd.grad(3 * y, (x, weight)) for y in (value, expected)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_loss_of_a_large_vocabulary_is_that_of_its_logits(monkeypatch):
    data, model = experiment(task__n_pairs=4).build()
    batch = data.sample(32, split="train", generator=generator_for(0, "batch"))
    everywhere = replace(batch, targets_BL=torch.where(batch.used_BL, batch.tokens_BL, IGNORE))
    for given in (batch, batch.packed(n_groups=2), everywhere, everywhere.packed()):
        read_BQ, targets_BQ = given.read()
        monkeypatch.setattr(fast, "LOGITS", 10**9)
        plain = loss_of(model, given, read_BQ, targets_BQ)
        monkeypatch.setattr(fast, "LOGITS", 1)
        torch.testing.assert_close(loss_of(model, given, read_BQ, targets_BQ), plain)
        monkeypatch.setattr(fast, "cross_entropy_sum", lambda *_: pytest.fail("it was not asked for"))
        monkeypatch.setattr(fast, "LOGITS", 10**9)
        loss_of(model, given, read_BQ, targets_BQ)
        monkeypatch.undo()


@pytest.mark.parametrize("factor", [None, 0.5])
@pytest.mark.parametrize("n_values", [4, 2])
@pytest.mark.parametrize("n_read", [1, 9])
def test_values_mixed_before_or_after_their_map_are_the_same(n_read, n_values, factor):
    value = linear(8, 2 * n_values, generator_for(0, "value"), factor=factor).double()
    torch.nn.init.normal_(value.bias, generator=generator_for(0, "bias"))
    mix, x = drawn(3, 4, n_read, 9), drawn(3, 9, 8)
    v = value(x).unflatten(-1, (n_values, 2)).transpose(1, 2).repeat_interleave(4 // n_values, dim=1)
    torch.testing.assert_close(mixed_values(mix, x, value, n_values), mix @ v, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_values", [4, 2])
def test_values_mixed_before_their_map_have_its_gradients(n_values, bias):
    value = linear(8, 2 * n_values, generator_for(0, "value"), bias=bias).double()
    if bias:
        torch.nn.init.normal_(value.bias, generator=generator_for(0, "bias"))
    mixed = lambda mix, x, *parameters: mixed_values(mix, x, value, n_values)  # noqa: E731
    quick, slow = both_ways(mixed, drawn(3, 4, 1, 9), drawn(3, 9, 8), *value.parameters())
    assert len(quick) == (5 if bias else 4)
    torch.testing.assert_close(quick, slow, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("arm", ["standard", "mixit"])
def test_a_model_is_a_function_that_torch_func_transforms(arm):
    data, model = experiment(model=architecture(arm).model(experiment().model)).build()
    batch = data.sample(4, split="train", generator=generator_for(0, "batch"))
    read_BQ, targets_BQ = batch.read()

    def loss(parameters):
        return loss_sum(torch.func.functional_call(model, parameters, (batch, read_BQ)), targets_BQ)

    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    transformed = torch.func.grad(loss)(parameters)
    loss_of(model, batch, read_BQ, targets_BQ).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(transformed[name], parameter.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own use of it
@pytest.mark.parametrize("arm", ["standard", "mixit"])
def test_forward_differentiation_gives_the_derivative_along_a_direction(arm, monkeypatch):
    monkeypatch.setattr(fast, "LOGITS", 1)
    data, model = experiment(model=architecture(arm).model(experiment(task__n_pairs=5).model)).build()
    model.double()
    batch = data.sample(8, split="train", generator=generator_for(0, "batch")).packed(n_groups=2)
    read_BQ, targets_BQ = batch.read()
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    along = {name: drawn(*parameter.shape).detach() for name, parameter in parameters.items()}

    def loss(held):
        return loss_sum(torch.func.functional_call(model, held, (batch, read_BQ)), targets_BQ)

    _, by_func = torch.func.jvp(loss, (parameters,), (along,))
    with forward_ad.dual_level():
        dual = loss({name: forward_ad.make_dual(parameters[name], along[name]) for name in parameters})
        by_duals = forward_ad.unpack_dual(dual).tangent
    loss_of(model, batch, read_BQ, targets_BQ).backward()
    expected = sum((parameter.grad * along[name]).sum() for name, parameter in model.named_parameters())
    for found in (by_func, by_duals):
        assert found.item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_hook_on_the_model_or_a_bias_of_the_unembedding_is_not_passed_by(monkeypatch):
    monkeypatch.setattr(fast, "LOGITS", 1)
    monkeypatch.setattr(fast, "cross_entropy_sum", lambda *_: pytest.fail("the model was not called"))
    data, model = experiment().build()
    batch, seen = data.sample(4, split="train", generator=generator_for(0, "batch")), []
    hook = model.register_forward_hook(lambda *_: seen.append(1))
    loss_of(model, batch, *batch.read())
    hook.remove()
    model.unembed.bias = torch.nn.Parameter(torch.ones(model.unembed.out_features))
    loss_of(model, batch, *batch.read()).backward()
    assert seen == [1]
    assert model.unembed.bias.grad is not None


def test_a_mixer_that_is_hooked_or_has_another_forward_is_called():
    data, model = experiment(task__n_pairs=5).build()
    packed, seen = data.sample(16, split="train", generator=generator_for(0, "batch")).packed(), []
    mixer = model.blocks[0].token_mixer
    assert fast.offers(mixer, "forward_packed")
    handle = mixer.register_forward_hook(lambda *_: seen.append(1))
    assert not fast.offers(mixer, "forward_packed")
    model(packed, packed.read()[0])
    assert seen
    handle.remove()

    class Other(type(mixer)):
        def forward(self, x_BLD, lengths_B):
            return super().forward(x_BLD, lengths_B)

    mixer.__class__ = Other
    assert not fast.offers(mixer, "forward_packed")
    assert not fast.offers(mixer, "forward_at")


def test_a_batch_that_scores_padding_is_not_packed():
    batch = experiment().build()[0].sample(16, split="train", generator=generator_for(0, "batch"))
    everywhere = replace(batch, targets_BL=torch.zeros_like(batch.targets_BL))
    assert batch.packed().packing is not None
    assert everywhere.packed() is everywhere


def test_the_eps_of_a_norm_is_its_own():
    layer = norm("rms", 4)
    layer.eps = 10.0
    torch.testing.assert_close(layer(torch.ones(1, 4)), torch.full((1, 4), 11**-0.5))
