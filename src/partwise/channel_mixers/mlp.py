"""The plain two-layer feed-forward. Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.3."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.channel_mixers.gated_mlp import ACTIVATIONS, Activation, hidden_width
from partwise.layers import linear
from partwise.shapes import MixerSize


@CHANNEL_MIXERS.register("mlp")
@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Plain feed-forward: y = down(act(up(x))).

    Args:
        hidden: F; None means four times the width.
        activation: between the two maps; "identity" makes the feed-forward linear.
        bias: whether the two maps have one.
    """

    hidden: int | None = None
    activation: Activation = "gelu"
    bias: bool = True

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Mlp(self, size, generator)


class _Mlp(nn.Module):
    def __init__(self, config: Mlp, size: MixerSize, generator: torch.Generator):
        super().__init__()
        hidden = hidden_width(config.hidden, size)
        self.up = linear(size.width, hidden, generator, bias=config.bias)
        self.down = linear(hidden, size.width, generator, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x_BLD)))
