"""Differential attention: the difference of two softmax maps, so that what both see in common is taken off. Source: Ye
et al. 2024, arXiv:2410.05258, and its code (microsoft/unilm, Diff-Transformer)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.errors import ConfigError
from partwise.layers import linear, valid_BL
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("differential_attention")
@dataclass(frozen=True, kw_only=True)
class DifferentialAttention:
    """Differential attention: one softmax map minus lambda times another.

        mix = softmax(q1 k1' / sqrt(d)) - lambda softmax(q2 k2' / sqrt(d)),    d = width / (2 H)
        y = out((1 - lambda_0) norm(mix v)),    lambda = exp(a1 b1) - exp(a2 b2) + lambda_0

    Args:
        n_heads: H, half as many as the softmax attention to compare with; each has two maps and a value 2 d wide.
        rope_base: of the rotary positions on both pairs; None leaves them out.
        head_norm: divide each head by its root mean square, with one gain for all heads.
        lambda_init: lambda_0; None is the paper's .8 - .6 exp(-.3 layer), with layers counted from 0.
    """

    n_heads: int = 2
    rope_base: float | None = 10_000.0
    head_norm: bool = True
    lambda_init: float | None = None

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _DifferentialAttention(self, size, generator)


def paper_lambda(layer: int) -> float:
    """lambda_0 of a layer, counted from 0: .2, .3555, .4707, .5561 ... towards .8."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)


class _DifferentialAttention(nn.Module):
    def __init__(self, config: DifferentialAttention, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.n_heads, self.causal, self.rope_base = config.n_heads, size.causal, config.rope_base
        self.d = size.head_width(2 * config.n_heads)
        if config.rope_base is not None and self.d % 2:
            raise ConfigError(f"rope turns pairs of channels, and a head here has {self.d}; or set rope_base=null.")
        self.lambda_init = paper_lambda(size.layer) if config.lambda_init is None else config.lambda_init
        self.value = linear(size.width, size.width, generator, bias=False)
        self.out = linear(size.width, size.width, generator, bias=False)
        self.query = linear(size.width, size.width, generator, bias=False)
        self.key = linear(size.width, size.width, generator, bias=False)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            self.register_parameter(name, nn.Parameter(0.1 * torch.randn(self.d, generator=generator)))
        self.head_norm = nn.RMSNorm(2 * self.d, eps=1e-5) if config.head_norm else nn.Identity()
        self.scores, self.mix = Tap(), Tap()

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        length = x_BLD.shape[1]
        q_BHLK = self._turned(self.query(x_BLD).unflatten(-1, (2 * self.n_heads, self.d)).transpose(1, 2))
        k_BHSK = self._turned(self.key(x_BLD).unflatten(-1, (2 * self.n_heads, self.d)).transpose(1, 2))
        v_BHSK = self.value(x_BLD).unflatten(-1, (self.n_heads, 2 * self.d)).transpose(1, 2)
        scores_BHLS = self.scores(q_BHLK @ k_BHSK.mT * self.d**-0.5)
        maps_BHLS = scores_BHLS.masked_fill(~self._visible(length, lengths_B, x_BLD.device), -math.inf).softmax(-1)
        first_BHLS, second_BHLS = maps_BHLS.unflatten(1, (self.n_heads, 2)).unbind(2)  # heads 2i and 2i + 1 are a pair
        mix_BHLS = self.mix(first_BHLS - self.weight() * second_BHLS)
        y_BHLK = (1 - self.lambda_init) * self.head_norm(mix_BHLS.to(v_BHSK.dtype) @ v_BHSK)
        return self.out(y_BHLK.transpose(1, 2).flatten(2))

    def weight(self) -> Tensor:
        """lambda, one for all heads of the layer."""
        first = (self.lambda_q1 * self.lambda_k1).sum().exp()
        return first - (self.lambda_q2 * self.lambda_k2).sum().exp() + self.lambda_init

    def _visible(self, length: int, lengths_B: Tensor | None, device: torch.device) -> Tensor:
        visible = torch.ones(length, length, dtype=torch.bool, device=device)
        if self.causal:
            return visible.tril()
        return visible if lengths_B is None else visible & valid_BL(lengths_B, length)[:, None, None]

    def _turned(self, x_BHLK: Tensor) -> Tensor:
        if self.rope_base is None:
            return x_BHLK
        half = self.d // 2
        frequency = self.rope_base ** (-torch.arange(half, device=x_BHLK.device, dtype=torch.float64) / half)
        angle = torch.arange(x_BHLK.shape[2], device=x_BHLK.device)[:, None] * frequency
        cos, sin = angle.cos().to(x_BHLK.dtype), angle.sin().to(x_BHLK.dtype)
        first, second = x_BHLK.split(half, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
