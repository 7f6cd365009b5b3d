"""The covariance of the tokens when width and depth grow together: a stochastic differential equation.

    V = X X' / n,    dV = b(V) dt + dN(V),    t = layer / n    (networks.py has the layers; n, depth -> infinity)

Write A = I + E / sqrt(n) + E2 / n for a head's mixing matrix, E of mean zero. The law of E and the mean E2 are what a
mixer adds; what every mixer shares is the noise of its Gaussian matrices.

    b = gamma^2 (mean(E V E') + E2 V + V E2') + gamma^2 nu(rho) sqrt(V_aa V_bb)
    dN = sqrt(s dt / 2) L (G + G') L' + gamma^2 sqrt(dt / H) (E V + V E'),    V = L L',  G of independent N(0, 1)

Derived here; the published constants of random mixing were not seen. Sources as in networks.py.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from partwise.theory.networks import Net, centrings, normal, visible, within_limit


class CovarianceSde:
    """Drift and noise of one kind of network, for m tokens."""

    def __init__(self, net: Net, m: int):
        self.net, self.m = net, m
        self.seen = visible(m, causal=net.causal)
        self.centring = centrings(m, causal=net.causal)  # P_a
        self.n_seen = self.seen.sum(-1)  # n_a

    @property
    def layers(self) -> float:
        """s: a branch of k Gaussian matrices gives gamma^2 (2 - gamma^2) + (k - 1) gamma^4."""
        gamma2, out, mlp = self.net.gamma2, self.net.out, self.net.slopes is not None
        return gamma2 * (2 - gamma2) + out * gamma2**2 + mlp * 2 * gamma2

    def step(self, v: Float[Tensor, "path m m"], time: float, generator: torch.Generator) -> Float[Tensor, "path m m"]:
        """V a short time later, positive definite whatever was drawn.

            V' = B B',    B = (I + gamma^2 (sqrt(time / H) E + time E2)) L (I + kappa G) / sqrt(1 + kappa^2 m)

        with kappa^2 = s time / 2, and half of what is left of the drift before, half after.
        """
        v = v + time / 2 * self._rest(v)
        root, eye = torch.linalg.cholesky(v), torch.eye(self.m, dtype=v.dtype)
        kappa = (self.layers * time / 2) ** 0.5
        noise = self.first_order(root, generator) * (time / self.net.n_heads) ** 0.5
        b = (eye + self.net.gamma2 * (noise + time * self.second_order(v))) @ root
        b = b @ (eye + kappa * normal(*v.shape, generator=generator)) / (1 + kappa**2 * self.m) ** 0.5
        v = b @ b.mT
        return v + time / 2 * self._rest(v)

    def _rest(self, v: Tensor) -> Tensor:
        """The drift without that of B B', which is gamma^4 / H mean(E V E') and what E2 does."""
        rest = self.net.gamma2 * (1 - self.net.gamma2 / self.net.n_heads) * self.quadratic(v)
        return rest if self.net.slopes is None else rest + self.net.gamma2 * self.feed_forward(v)

    def quadratic(self, v: Tensor) -> Tensor:
        """Mean of E V E': energy of its own for each token of random mixing, tr(P_a V) / m on the diagonal."""
        if self.net.mixing == "random":
            return torch.diag_embed(torch.einsum("avk,pkv->pa", self.centring, v)) * (self.net.strength**2 / self.m)
        half = torch.einsum("avk,pku->pavu", self.centring, v)  # P_a V
        together = torch.einsum("pavu,pbuv->pab", half, half) / (self.n_seen[:, None] * self.n_seen)
        return self.net.strength**2 * v * together

    def second_order(self, v: Tensor) -> Tensor:
        """Mean E2: a softmax gains a little where scores vary more. Zero for random mixing."""
        if self.net.mixing == "random":
            return torch.zeros_like(v)
        spread = torch.einsum("avk,pku,auv->pav", self.centring, v, self.centring)  # (P_a V P_a)_vv
        excess = (spread - spread.sum(-1, keepdim=True) / self.n_seen[:, None]) * self.seen
        return self.net.strength**2 / 2 * v.diagonal(dim1=-2, dim2=-1)[..., None] * excess / self.n_seen[:, None]

    def first_order(self, root: Tensor, generator: torch.Generator) -> Tensor:
        """A draw of E, for V = root root'."""
        noise = normal(*root.shape, generator=generator)
        if self.net.mixing == "random":
            return self.net.strength * torch.einsum("pav,avk->pak", noise, self.centring) / self.m**0.5
        scores = root @ noise @ root.mT  # q k' of a large head
        return self.net.strength * torch.einsum("pav,avk->pak", scores, self.centring) / self.n_seen[:, None]

    def feed_forward(self, v: Tensor) -> Tensor:
        """nu(rho) sqrt(V_aa V_bb), nu(r) = (c+ - c-)^2 / 2 pi (sqrt(1 - r^2) - r arccos r): tokens come nearer."""
        assert self.net.slopes is not None
        size = v.diagonal(dim1=-2, dim2=-1).sqrt()
        sizes = size[..., :, None] * size[..., None, :]
        rho = (v / sizes).clamp(-1, 1)
        bend = (self.net.slopes[0] - self.net.slopes[1]) ** 2 / (2 * math.pi)
        return bend * ((1 - rho**2).sqrt() - rho * rho.arccos()) * sizes


def solve(
    sde: CovarianceSde,
    start: Float[Tensor, "m m"],
    *,
    time: float,
    n_steps: int,
    n_paths: int,
    generator: torch.Generator,
) -> Float[Tensor, "path m m"]:
    """V at `time` on so many paths from `start`; a path is stopped where a token's energy passes LIMIT."""
    v = start.expand(n_paths, *start.shape)
    for _ in range(n_steps):
        goes_on = within_limit(v)
        v = torch.where(goes_on, sde.step(torch.where(goes_on, v, start), time / n_steps, generator), v)
    return v
