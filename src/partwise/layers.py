"""Layers drawn from a generator. Init law of the lab: weights N(0, 1/fan_in), biases 0, gains 1 (mixit.md 1.6)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from partwise import fast
from partwise.errors import ConfigError

NormKind = Literal["rms", "layer", "none"]


class ScaledLinear(nn.Linear):
    """y = factor (W x + b)."""

    factor: float = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * super().forward(x)


def linear(
    n_in: int,
    n_out: int,
    generator: torch.Generator,
    *,
    bias: bool = True,
    std: float | None = None,
    factor: float | None = None,
) -> nn.Linear:
    """y = W x + b with W[i, j] ~ Normal(0, std^2) and b = 0.

    Args:
        n_in: fan-in.
        n_out: fan-out.
        generator: draws W, and nothing else.
        bias: whether there is a b.
        std: None is the usual, 1 / sqrt(n_in).
        factor: what y is multiplied by, at the start and ever after; None leaves it out.
    """
    layer = skip_init(nn.Linear if factor is None else ScaledLinear, n_in, n_out, bias=bias)
    if factor is not None:
        layer.factor = factor
    with torch.no_grad():
        layer.weight.normal_(0.0, n_in**-0.5 if std is None else _std(std), generator=generator)
        if bias:
            layer.bias.zero_()
    return layer


@torch.no_grad()
def start_with_std(module: nn.Module, std: float) -> None:
    """Give the linear maps inside, as they were drawn, the sd `std` in place of the usual 1 / sqrt(n_in).

    A map that was drawn at a multiple of the usual (qk_scale) has the same multiple of `std` afterwards.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.mul_(std * layer.in_features**0.5)


def scale_outputs(module: nn.Module, factor: float) -> None:
    """Multiply the output of the linear maps inside, but of those that have a factor of their own."""
    for parent in list(module.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Linear) and not isinstance(layer, ScaledLinear):
                scaled = skip_init(ScaledLinear, layer.in_features, layer.out_features, bias=layer.bias is not None)
                scaled.weight, scaled.bias, scaled.factor = layer.weight, layer.bias, factor
                setattr(parent, name, scaled)


def embedding(n: int, width: int, generator: torch.Generator, *, std: float) -> nn.Embedding:
    """A table of n rows, each entry ~ Normal(0, std^2)."""
    table = skip_init(nn.Embedding, n, width)
    with torch.no_grad():
        table.weight.normal_(0.0, _std(std), generator=generator)
    return table


def _std(std: float) -> float:
    if not 0 <= std < float("inf"):
        raise ConfigError(f"weights cannot be drawn with sd {std}: a finite one from 0 on was expected.")
    return std


class RmsNorm(nn.RMSNorm):
    """g x / sqrt(mean x^2 + 1e-6), by the faster of its ways."""

    def __init__(self, width: int):
        super().__init__(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        eps: Any = self.eps
        return fast.rms_norm(x, self.weight, eps)


def norm(kind: NormKind, width: int) -> nn.Module:
    """`rms`: g x / sqrt(mean x^2 + 1e-6), as Llama has it. `layer`: with mean and bias. `none`: nothing."""
    if kind == "rms":
        return RmsNorm(width)
    if kind == "layer":
        return nn.LayerNorm(width)
    if kind == "none":
        return nn.Identity()
    raise ConfigError(f"norm is {kind!r}: one of rms, layer, none was expected.")


def take(x_BLD: Tensor, read_BQ: Tensor) -> Tensor:
    """The rows `read_BQ` of each example: (B, L, D) -> (B, Q, D)."""
    return x_BLD.gather(1, read_BQ[..., None].expand(-1, -1, x_BLD.shape[-1]))


def shared_heads(x: Tensor, n_heads: int, *, dim: int) -> Tensor:
    """Heads along an axis, each of them n_heads / (how many there are) times: as groups of query heads share them."""
    group = n_heads // x.shape[dim]
    return x.repeat_interleave(group, dim=dim) if group > 1 else x


def mixed_values(mix_BHQS: Tensor, x_BSD: Tensor, value: nn.Linear, n_values: int) -> Tensor:
    """mix (W x + b), head by head, as W (mix x) + (sum of mix) b, (B, H, Q, K): where few rows are read, the map is
    applied to those and not to all that they read from.

    Args:
        mix_BHQS: what multiplies the values.
        x_BSD: what the values are made from.
        value: the map; its outputs are n_values heads, each shared by H / n_values neighbours.
        n_values: see there.
    """
    (n_heads, n_read), n_sources = mix_BHQS.shape[1:3], x_BSD.shape[1]
    head_width, mix_BHQS = value.out_features // n_values, mix_BHQS.to(x_BSD.dtype)
    saves = n_heads * n_read * (n_sources + head_width) < n_sources * value.out_features
    if not saves or fast.asked_plain() or not fast.bare(value):
        v_BVSK = value(x_BSD).unflatten(-1, (n_values, head_width)).transpose(1, 2)
        v_BHSK = shared_heads(v_BVSK, n_heads, dim=1)
        return mix_BHQS.to(v_BHSK.dtype) @ v_BHSK
    weight_HKD = shared_heads(value.weight.unflatten(0, (n_values, head_width)), n_heads, dim=0)
    mixed_BHQD = (mix_BHQS.flatten(1, 2) @ x_BSD).unflatten(1, (n_heads, n_read))
    y_BHQK = torch.einsum("bhqd,hkd->bhqk", mixed_BHQD, weight_HKD)
    if value.bias is not None:
        bias_HK = shared_heads(value.bias.unflatten(0, (n_values, head_width)), n_heads, dim=0)
        y_BHQK = y_BHQK + mix_BHQS.sum(-1, keepdim=True) * bias_HK[:, None]
    return y_BHQK


def valid_BL(lengths_B: Tensor, length: int) -> Tensor:
    """True where a position is in use, bool (B, L)."""
    return torch.arange(length, device=lengths_B.device) < lengths_B[:, None]
