"""Gradient noise: known answers on linear regression, and the gradient of the batch itself."""

import pytest
import torch
from small import experiment
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import loss_of
from partwise.probes.gradient_noise import GradientNoise, _parts
from partwise.seeds import generator_for
from partwise.tasks.k_hop import KHop
from partwise.token_mixers import TOKEN_MIXERS


class Line(nn.Module):
    """y = w x, read from real-valued inputs."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x_BLF):
        return (x_BLF @ self.weight)[..., None]


def regression(n, width, noise, *, seed=0):
    """x ~ N(0, 1), y = x_0 + noise: at w = 0 the gradient of (wx - y)^2 is -2 x y."""
    generator = generator_for(seed, "regression")
    x_BLF = torch.randn(n, 1, width, generator=generator)
    y_BL = x_BLF[..., 0] + noise * torch.randn(n, 1, generator=generator)
    return Batch(tokens_BL=x_BLF, targets_BL=y_BL)


def measured(model, batch):
    return {(row.where, row.quantity): row.value for row in GradientNoise().measure(model, batch)}


@pytest.mark.parametrize("noise", [0.0, 1.0, 3.0])
def test_linear_regression_has_the_noise_that_mathematics_says(noise):
    """Mean -2 e_0, so |G|^2 = 4; tr S = 4 E|x|^2 y^2 - 4 = 4 (3 + (d - 1) + d s^2) - 4 with s the noise."""
    n, width = 40_000, 3
    found = measured(Line(width), regression(n, width, noise))
    variance = 4 * (width + 2 + width * noise**2) - 4
    assert found["weight", "gradient_norm"] == pytest.approx(2, rel=0.05)
    assert found["weight", "gradient_variance"] == pytest.approx(variance, rel=0.05)
    assert found["weight", "noise_scale"] == pytest.approx(variance / 4, rel=0.1)
    assert found["weight", "signal_to_noise"] == pytest.approx(2 / variance**0.5, rel=0.05)
    assert found["weight", "half_cosine"] == pytest.approx(1, abs=0.02)


def test_numbers_are_those_of_gradients_taken_one_by_one():
    data, model = experiment().build()
    batch = data.sample(20, split="train", generator=generator_for(0, "one by one"))
    rows = []
    for at in range(20):
        model.zero_grad()
        one = batch.rows(at, at + 1)
        loss_of(model, one, *one.read()).backward()
        rows.append({name: p.grad.clone().double() for name, p in model.named_parameters()})
    found = measured(model, batch)
    for part, names in _parts(model).items():
        each = torch.stack([torch.cat([row[name].flatten() for name in names]) for row in rows])
        assert found[part, "gradient_norm"] == pytest.approx(each.mean(0).norm().item(), rel=1e-4)
        assert found[part, "gradient_variance"] == pytest.approx(each.var(0).sum().item(), rel=1e-4)
        cosine = torch.nn.functional.cosine_similarity(each[:10].mean(0), each[10:].mean(0), dim=0).item()
        assert found[part, "half_cosine"] == pytest.approx(cosine, abs=1e-4)


def test_the_mean_is_the_gradient_of_the_batch_where_examples_score_many_positions():
    data = KHop(length=12, max_hops=2).build(seed=0)
    from partwise.model import ModelConfig, Transformer

    model = Transformer(ModelConfig(width=16), data.shape, seed=0)
    batch = data.sample(32, split="train", generator=generator_for(0, "many"))
    (loss_of(model, batch, *batch.read()) / batch.scored_BL.sum()).backward()
    found = measured(model, batch)
    for part, names in _parts(model).items():
        named = dict(model.named_parameters())
        whole = torch.cat([named[name].grad.flatten() for name in names]).norm().item()
        assert found[part, "gradient_norm"] == pytest.approx(whole, rel=1e-3), part


@pytest.mark.parametrize("mixer", TOKEN_MIXERS.names())
def test_every_architecture_has_its_parts(mixer):
    data, model = experiment(model__token_mixer=mixer).build()
    batch = data.sample(8, split="train", generator=generator_for(0, "parts"))
    parts = {where for where, _ in measured(model, batch)}
    assert {"embedding", "feed-forward", "head", "norms"} <= parts
    assert ("query and key" in parts) == any("query" in name for name, _ in model.named_parameters())


def test_opposite_halves_have_a_cosine_of_minus_one():
    x_BLF = torch.ones(8, 1, 1)
    y_BL = torch.tensor([1.0] * 4 + [-1.0] * 4)[:, None]
    found = measured(Line(1), Batch(tokens_BL=x_BLF, targets_BL=y_BL))
    assert found["weight", "half_cosine"] == pytest.approx(-1)
    assert ("weight", "noise_scale") not in found
