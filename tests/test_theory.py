"""The covariance SDEs: their formulas term by term, their networks against plain weights and the lab's own blocks, and
faults that the check must find."""

import dataclasses

import pytest
import torch
from test_messages import command  # noqa: F401  (a fixture)

from partwise.channel_mixers.shaped_mlp import ShapedMlp, shaped_slopes
from partwise.joins.add import Scaled
from partwise.model import Block, BlockConfig
from partwise.seeds import generator_for
from partwise.shapes import MixerSize
from partwise.theory import CHECKS, propagation
from partwise.theory.covariance_sde import CovarianceSde, solve
from partwise.theory.networks import LIMIT, Net, covariance, final_covariances, mapped, mixing_matrices
from partwise.theory.propagation import NETS, Propagation, summarized
from partwise.token_mixers.random_mixing import RandomMixing

V = torch.tensor([[1.0, 0.5, 0.1], [0.5, 2.0, 0.3], [0.1, 0.3, 0.7]], dtype=torch.float64)
START = torch.eye(3, dtype=torch.float64) * 0.5 + 0.5
SMALL = Propagation(widths=(16, 32), n_draws=3000, n_paths=3000, n_steps=16, precision=0.03)


def generator(name="draws"):
    return generator_for(0, name)


def test_random_mixing_adds_energy_to_each_token_and_correlates_none():
    p = torch.eye(3, dtype=torch.float64) - 1 / 3
    for causal, by_hand in (
        (False, [4 / 3 * torch.trace(p @ V)] * 3),
        (True, [0.0, 4 / 3 * (1.0 + 2.0 - 2 * 0.5) / 2, 4 / 3 * torch.trace(p @ V)]),
    ):
        found = CovarianceSde(Net(strength=2.0, causal=causal), 3).quadratic(V[None])[0]
        torch.testing.assert_close(found, torch.diag(torch.tensor(by_hand, dtype=torch.float64)))


def test_shaped_attention_has_the_published_drift():
    """Term by term, in sums over tokens, as in the source: two-way, tau0 = 1."""
    mean, whole = V.mean(1), V.mean()
    s1 = lambda a, v, b, k: V[a, b] * (V[v, k] - mean[v] - mean[k] + whole)  # noqa: E731
    s2 = lambda a, v: V[a, a] * (V[v, v] - 2 * mean[v] + 2 * whole - V.diagonal().mean())  # noqa: E731
    sde, m = CovarianceSde(Net(mixing="attention", strength=1.0), 3), range(3)
    quadratic, second = sde.quadratic(V[None])[0], sde.second_order(V[None])[0] @ V
    for a in m:
        for b in m:
            first_sum = sum(V[v, k] * s1(a, v, b, k) for v in m for k in m) / 9
            second_sum = sum(V[b, v] * s2(a, v) for v in m) / 6
            assert quadratic[a, b].item() == pytest.approx(first_sum.item())
            assert second[a, b].item() == pytest.approx(second_sum.item())


@pytest.mark.parametrize("net", [*NETS, Net(slopes=(1.0, -2.0))], ids=lambda net: str(net) + str(net.slopes or ""))
def test_the_noise_of_a_step_is_that_of_the_equation(net):
    """Cov(V' - V) / dt against S_lin and what the mixer adds, entry by entry."""
    sde, time, g2 = CovarianceSde(net, 3), 1e-5, net.gamma2
    moved = (sde.step(V.expand(100_000, 3, 3), time, generator(str(net))) - V) / time**0.5
    found = torch.cov(moved.flatten(1).T).unflatten(0, (3, 3)).unflatten(2, (3, 3))

    layers = g2 * (2 - g2) + g2**2 * net.out + 2 * g2 * (net.slopes is not None)
    linear = torch.einsum("ac,bd->abcd", V, V) + torch.einsum("ad,bc->abcd", V, V)
    first = torch.zeros(3, 3, 3, 3, dtype=torch.float64)  # Cov of (E V)_ab and (E V)_cd
    for a in range(3):
        for c in range(3):
            p, q = (torch.zeros(3, 3, dtype=torch.float64) for _ in range(2))
            for matrix, n in ((p, a + 1 if net.causal else 3), (q, c + 1 if net.causal else 3)):
                matrix[:n, :n] = torch.eye(n) - 1 / n
            if net.mixing == "random":
                between = (a == c) * p / 3
            else:
                between = V[a, c] * p @ V @ q / ((a + 1 if net.causal else 3) * (c + 1 if net.causal else 3))
            first[a, :, c, :] = net.strength**2 * V @ between @ V
    mixing = first + first.transpose(2, 3) + first.transpose(0, 1) + first.transpose(0, 1).transpose(2, 3)
    expected = layers * linear + g2**2 / net.n_heads * mixing
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


def test_a_fresh_matrix_and_its_law_given_the_tokens_are_one():
    """`mapped` never makes W; W itself gives the same mean and the same covariances of what comes out."""
    x = torch.linalg.cholesky(START) @ torch.randn(3, 8, generator=generator("x"), dtype=torch.float64)
    w = torch.randn(40_000, 8, 2, generator=generator("w"), dtype=torch.float64)
    plain, quick = x @ w / 8**0.5, mapped(x.expand(40_000, 3, 8), 2, generator())
    for one in (plain, quick):
        torch.testing.assert_close(one.mean(0), torch.zeros(3, 2, dtype=torch.float64), rtol=0, atol=0.02)
        torch.testing.assert_close(covariance(one).mean(0), covariance(x), rtol=0.03, atol=0.02)


@pytest.mark.parametrize("net", NETS, ids=str)
def test_rows_of_a_mixing_matrix_sum_to_one_and_do_not_look_ahead(net):
    x = torch.randn(5, 3, 16, generator=generator(), dtype=torch.float64)
    mix = mixing_matrices(net, x, generator())
    torch.testing.assert_close(mix.sum(-1), torch.ones(5, net.n_heads, 3, dtype=torch.float64))
    assert bool((mix.triu(1) == 0).all()) is net.causal


def test_the_labs_own_blocks_are_the_theorys_layers():
    """Random mixing, the shaped feed-forward without gate and the weighted join, no norms: the same law."""
    width, depth, n_seeds = 8, 3, 200
    net = Net(n_heads=4, out=True, slopes=(0.0, -1.0), causal=True)
    config = BlockConfig(
        token_mixer=RandomMixing(n_heads=4, std=(2.0 / (width * 3) ** 0.5,) * 2, bias=False),
        channel_mixer=ShapedMlp(hidden=width, gated=False, bias=False),
        norm="none",
        join=Scaled(s=0.5**0.5, r=0.5**0.5),
        order="sequential",
    )
    x_1LD = torch.zeros(1, 3, width)
    x_1LD[0, :, :3] = torch.linalg.cholesky(START) * width**0.5
    ends = []
    with torch.no_grad():
        for seed in range(n_seeds):
            y_1LD = x_1LD
            for layer in range(depth):
                size = MixerSize(width=width, length=3, causal=True, layer=layer, n_layers=depth)
                y_1LD = Block(config, size, seed=seed)(y_1LD, None)
            ends.append(covariance(y_1LD[0].double()))
    ours = summarized(torch.stack(ends))
    theirs = summarized(
        final_covariances(net, START, width=width, depth=depth, n_draws=8000, generator=generator("blocks"))
    )
    for quantity, one in ours.items():
        other = theirs[quantity]
        assert abs(one.value - other.value) < 3.5 * (one.error**2 + other.error**2) ** 0.5, quantity
    assert shaped_slopes(0.0, -1.0, width)[0] > 1 > shaped_slopes(0.0, -1.0, width)[1]


def failing(net, law):
    return [line.what for line in SMALL.lines(SMALL.compare(net, law)) if not line.holds]


class HalfTheDrift(CovarianceSde):
    """Of `quadratic` a step adds 1 - gamma^2 / H by itself, the rest comes with its noise: half of the whole goes."""

    def quadratic(self, v):
        return super().quadratic(v) * (1 - 0.5 / (1 - self.net.gamma2 / self.net.n_heads))


class CentredOverAll(CovarianceSde):
    """Causal, and yet each row is centred as if it read all tokens."""

    def __init__(self, net, m):
        super().__init__(net, m)
        self.centring = CovarianceSde(dataclasses.replace(net, causal=False), m).centring


class NoNoiseOfMixing(CovarianceSde):
    def first_order(self, root, generator):
        return torch.zeros_like(root)


def test_the_equations_hold_and_planted_faults_do_not():
    causal = Net(causal=True, strength=3.0)
    assert failing(causal, CovarianceSde) == []
    assert "log energy of the last token" in failing(causal, HalfTheDrift)
    assert "log energy of the first token" in failing(causal, CentredOverAll)
    assert "its standard deviation" in failing(dataclasses.replace(causal, gamma2=0.75), NoNoiseOfMixing)


def test_a_fault_ends_the_command_with_exit_code_one(command, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(propagation, "NETS", (Net(causal=True, strength=3.0),))
    monkeypatch.setitem(CHECKS._classes, "propagation", type("Small", (), {"__new__": lambda cls: SMALL}))
    code, out, error = command("check theory --only propagation --out right")
    assert code == 0, out + error
    assert {path.name for path in (tmp_path / "right").iterdir()} == {
        "propagation.md",
        "propagation.json",
        "propagation_width.png",
        "propagation_histogram.png",
    }
    monkeypatch.setattr(propagation, "CovarianceSde", HalfTheDrift)
    code, out, _ = command("check theory --only propagation --out wrong")
    assert code == 1
    assert "FAILS" in out


def test_paths_that_explode_are_stopped():
    net = Net(mixing="attention", strength=6.0)
    v = solve(CovarianceSde(net, 3), V, time=0.5, n_steps=50, n_paths=500, generator=generator())
    energy = v.diagonal(dim1=-2, dim2=-1).amax(-1)
    assert v.isfinite().all()
    assert (energy > LIMIT).any() and (energy < LIMIT).any()


def test_the_limit_of_infinite_width_is_fitted_exactly_where_there_is_no_noise():
    estimate = propagation.Estimate
    found = propagation.Comparison(
        Net(), {}, {n: {"a": estimate(0.3 + 2 / n, error)} for n, error in ((16, 0.1), (32, 0.2), (64, 0.1))}, {}
    )
    limit, slope = found.limit("a")
    assert (limit.value, slope) == (pytest.approx(0.3), pytest.approx(2.0))
