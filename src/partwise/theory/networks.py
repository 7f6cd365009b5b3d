"""The theory's networks, of finite width and depth: random weights, no norms, nothing learns.

    Z = lambda X + gamma mixed(X),    X' = lambda Z + gamma act(Z W1) W2,    lambda^2 + gamma^2 = 1

Sources: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (random mixing); Noci et al. 2023, arXiv:2306.17759 (shaped
attention); Li, Nica, Roy 2022, arXiv:2206.02768 (shaped activations).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from partwise.channel_mixers.shaped_mlp import shaped_slopes

CHUNK = 250  # networks at once, so that they stay in the caches
LIMIT = 10.0  # of a token's energy: some paths explode in finite time, and the theorems hold up to a stopping time


@dataclass(frozen=True, kw_only=True)
class Net:
    """What a layer is made of; widths and depth are given where it is drawn.

    Args:
        mixing: "random" is MixiT's, A = I + strength (W - rowmean W) / sqrt(n m); "attention" is shaped attention,
            A = I + softmax(strength q k' / sqrt(n K)) - uniform.
        strength: sigma of random mixing, 1 / tau0 of attention.
        causal: a token reads itself and those before it, and all means run over these.
        n_heads: H, each with its own A.
        out: a matrix after the heads; several heads need it, else they would not meet.
        slopes: (c+, c-) of the shaped feed-forward, slopes 1 + c / sqrt(n); None leaves it out.
        gamma2: gamma^2, the share of a branch.
    """

    mixing: Literal["random", "attention"] = "random"
    strength: float = 2.0
    causal: bool = False
    n_heads: int = 1
    out: bool = False
    slopes: tuple[float, float] | None = None
    gamma2: float = 0.5

    def __str__(self) -> str:
        mixing = "MixiT" if self.mixing == "random" else "shaped attention"
        heads = f", {self.n_heads} heads" if self.n_heads > 1 else ""
        said = [f"{mixing}, {'causal' if self.causal else 'two-way'}{heads}", *(["output matrix"] if self.out else [])]
        return ", ".join([*said, *(["shaped MLP"] if self.slopes else [])])


def visible(m: int, *, causal: bool) -> Float[Tensor, "m m"]:
    """1 where token a (row) reads token b."""
    ones = torch.ones(m, m, dtype=torch.float64)
    return ones.tril() if causal else ones


def centrings(m: int, *, causal: bool) -> Float[Tensor, "m m m"]:
    """P_a = I - 1 1' / n_a on the n_a tokens that token a reads, zero elsewhere; one for each a."""
    seen = visible(m, causal=causal)
    mean = seen[:, :, None] * seen[:, None, :] / seen.sum(-1)[:, None, None]
    return torch.diag_embed(seen) - mean


def normal(*shape: int, generator: torch.Generator) -> Tensor:
    """Independent N(0, 1), for sums in float64; drawn in float32, which is five times faster."""
    return torch.randn(*shape, generator=generator).double()


def covariance(x: Tensor) -> Tensor:
    """V = X X' / n of tokens (..., m, n)."""
    return x @ x.mT / x.shape[-1]


def within_limit(v: Float[Tensor, "draw m m"]) -> Bool[Tensor, "draw 1 1"]:
    """Where no token's energy has passed LIMIT."""
    return (v.diagonal(dim1=-2, dim2=-1).amax(-1) < LIMIT)[:, None, None]


def mapped(x: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """X W / sqrt(n) for a fresh W of `width` columns: given X, columns are independent N(0, V), so W is never made."""
    return torch.linalg.cholesky(covariance(x)) @ normal(*x.shape[:-1], width, generator=generator)


def final_covariances(
    net: Net, start: Float[Tensor, "m m"], *, width: int, depth: int, n_draws: int, generator: torch.Generator
) -> Float[Tensor, "draw m m"]:
    """V after `depth` layers of width n, in so many networks; all begin with tokens whose V is `start`.

    A network is stopped where a token's energy passes LIMIT.
    """
    m = len(start)
    first = torch.zeros(m, width, dtype=torch.float64)
    first[:, :m] = torch.linalg.cholesky(start) * width**0.5
    found = []
    for begin in range(0, n_draws, CHUNK):
        x = first.expand(min(CHUNK, n_draws - begin), m, width)
        for _ in range(depth):
            goes_on = within_limit(covariance(x))
            x = torch.where(goes_on, _layer(net, torch.where(goes_on, x, first), generator), x)
        found.append(covariance(x))
    return torch.cat(found)


def _layer(net: Net, x: Tensor, generator: torch.Generator) -> Tensor:
    keep, branch = (1 - net.gamma2) ** 0.5, net.gamma2**0.5
    x = keep * x + branch * _mixed(net, x, generator)
    if net.slopes is None:
        return x
    hidden = mapped(x, x.shape[-1], generator)
    plus, minus = shaped_slopes(*net.slopes, x.shape[-1])
    return keep * x + branch * mapped(torch.where(hidden > 0, plus, minus) * hidden, x.shape[-1], generator)


def _mixed(net: Net, x: Tensor, generator: torch.Generator) -> Tensor:
    """Values through each head's A, side by side, and the matrix after them."""
    width, heads = x.shape[-1], net.n_heads
    values = mapped(x, width, generator).unflatten(-1, (heads, width // heads)).transpose(-3, -2)
    y = (mixing_matrices(net, x, generator) @ values).transpose(-3, -2).flatten(-2)
    return mapped(y, width, generator) if net.out else y


def mixing_matrices(net: Net, x: Tensor, generator: torch.Generator) -> Tensor:
    """A, (draw, H, m, m)."""
    n_draws, m, width = x.shape
    seen = visible(m, causal=net.causal)
    uniform = seen / seen.sum(-1, keepdim=True)
    if net.mixing == "random":
        w = normal(n_draws, net.n_heads, m, m, generator=generator) * seen
        return torch.eye(m) + net.strength * (w - (w.sum(-1, keepdim=True) * uniform)) / (width * m) ** 0.5
    heads = x[:, None].expand(-1, net.n_heads, -1, -1)
    head_width = width // net.n_heads
    q, k = mapped(heads, head_width, generator), mapped(heads, head_width, generator)
    scores = net.strength * q @ k.mT / (width * head_width) ** 0.5
    chosen = scores.masked_fill(seen == 0, -torch.inf).softmax(-1)
    return torch.eye(m) + chosen - uniform
