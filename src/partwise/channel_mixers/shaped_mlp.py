"""The shaped feed-forward, gated as in MixiT's code or plain as in its theory. Source: Dong, Noci, Khodak, Li 2025,
arXiv:2506.01115; shaped activations: Li, Nica, Roy 2022, arXiv:2206.02768."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.channel_mixers.gated_mlp import hidden_width
from partwise.errors import ConfigError
from partwise.layers import linear
from partwise.shapes import MixerSize


@CHANNEL_MIXERS.register("shaped_mlp")
@dataclass(frozen=True, kw_only=True)
class ShapedMlp:
    """Shaped feed-forward: a leaky ReLU that comes nearer to the identity as the width grows.

        y = down(act(gate(x)) * up(x)),    act(z) = g (s+ max(z, 0) + s- min(z, 0))
        s+ = 1 + c_plus / sqrt(width),    s- = 1 + c_minus / sqrt(width),    g = sqrt(2 / (s+^2 + s-^2))

    The gain g keeps the mean square of a symmetric z. Gated, as in the published code, it is nearly a product of two
    linear maps; the theory's net has no gate (mixit.md 1.4).

    Args:
        hidden: F; None means four times the width.
        c_plus: how far the slope right of zero is from one.
        c_minus: the same left of zero; one published script meant -1 and ran with +1.
        gated: False is the theory's net, y = down(act(up(x))).
        base_hidden: down's output, bias included, is multiplied by sqrt(base_hidden / F). Published models have 1.0
            there, since the setting is never passed on: their feed-forward starts nearly dead, at 1/sqrt(4 width) of
            its size (mixit.md 1.5). None leaves the factor out.
        bias: whether the maps have one.
    """

    hidden: int | None = None
    c_plus: float = 0.0
    c_minus: float = -1.0
    gated: bool = True
    base_hidden: float | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        if self.base_hidden is not None and not 0 < self.base_hidden < float("inf"):
            raise ConfigError(f"base_hidden is {self.base_hidden}: a positive number was expected, or null.")

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _ShapedMlp(self, size, generator)


def shaped_slopes(c_plus: float, c_minus: float, width: int) -> tuple[float, float]:
    """(g s+, g s-), the slopes right and left of zero; their mean square is one.

    Raises:
        ConfigError: both slopes are zero.
    """
    plus, minus = 1 + c_plus * width**-0.5, 1 + c_minus * width**-0.5
    if plus == minus == 0:
        raise ConfigError(f"c_plus={c_plus} and c_minus={c_minus} at width {width}: both slopes are zero.")
    gain = (2 / (plus**2 + minus**2)) ** 0.5
    return gain * plus, gain * minus


class _ShapedMlp(nn.Module):
    def __init__(self, config: ShapedMlp, size: MixerSize, generator: torch.Generator):
        super().__init__()
        hidden = hidden_width(config.hidden, size)
        factor = None if config.base_hidden is None else (config.base_hidden / hidden) ** 0.5
        self.slopes = shaped_slopes(config.c_plus, config.c_minus, size.width)
        self.gated = config.gated
        if config.gated:
            self.gate = linear(size.width, hidden, generator, bias=config.bias)
        self.up = linear(size.width, hidden, generator, bias=config.bias)
        self.down = linear(hidden, size.width, generator, bias=config.bias, factor=factor)

    def forward(self, x_BLD: Tensor) -> Tensor:
        if self.gated:
            return self.down(self._activated(self.gate(x_BLD)) * self.up(x_BLD))
        return self.down(self._activated(self.up(x_BLD)))

    def _activated(self, z_BLF: Tensor) -> Tensor:
        plus, minus = self.slopes
        return torch.where(z_BLF > 0, plus * z_BLF, minus * z_BLF)
