"""The residual connection, plain or weighted."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.errors import ConfigError
from partwise.joins import JOINS
from partwise.shapes import MixerSize


@JOINS.register("add")
@dataclass(frozen=True, kw_only=True)
class Add:
    """The residual connection of nearly every Transformer: x + y."""

    def out_width(self, width: int) -> int:
        return width

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Weighted(1.0, 1.0)


@JOINS.register("scaled")
@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A weighted residual connection: s x + r y. Source: Noci et al. 2023, arXiv:2306.17759 (there s^2 + r^2 = 1).

    Args:
        s: weight of the stream.
        r: weight of the sublayer's output.
    """

    s: float = 0.5**0.5
    r: float = 0.5**0.5

    def out_width(self, width: int) -> int:
        return width

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Weighted(self.s, self.r)


@JOINS.register("depth_scaled")
@dataclass(frozen=True, kw_only=True)
class DepthScaled:
    """A residual connection with less of each sublayer the deeper the model: x + (base_blocks / n_blocks)^alpha y.

    Source: the published code of MixiT, where depth_alpha switches it on for all its architectures, the standard one
    too, and base_blocks is 1 or 4 depending on the script (mixit.md 1.5).

    Args:
        alpha: 0 is plain addition.
        base_blocks: the depth at which a sublayer keeps its weight.
    """

    alpha: float = 1.0
    base_blocks: int = 1

    def __post_init__(self) -> None:
        if self.base_blocks < 1:
            raise ConfigError(f"base_blocks is {self.base_blocks}: at least 1 was expected.")

    def out_width(self, width: int) -> int:
        return width

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Weighted(1.0, (self.base_blocks / size.n_layers) ** self.alpha)


class _Weighted(nn.Module):
    def __init__(self, s: float, r: float):
        super().__init__()
        self.s, self.r = s, r

    def forward(self, x_BLD: Tensor, y_BLD: Tensor) -> Tensor:
        if self.s == self.r == 1.0:
            return x_BLD + y_BLD
        return self.s * x_BLD + self.r * y_BLD
