"""One linear map in place of the feed-forward. Source: Chen, Bruna, Bietti 2024, arXiv:2406.03068."""

from dataclasses import dataclass

import torch
from torch import nn

from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.layers import linear
from partwise.shapes import MixerSize


@CHANNEL_MIXERS.register("linear_map")
@dataclass(frozen=True, kw_only=True)
class LinearMap:
    """Linear feed-forward: y = W x, one map from the width to itself.

    Args:
        bias: whether it has one.
    """

    bias: bool = True

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return linear(size.width, size.width, generator, bias=self.bias)
