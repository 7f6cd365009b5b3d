"""Mixers whose models a population may or may not train as one: with a moving mean, with dropout, with a branch."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partwise.layers import linear
from partwise.shapes import MixerSize
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("with_state")
@dataclass(frozen=True, kw_only=True)
class WithState:
    """The running mean over positions of W x, less a mean that follows the training.

    Args:
        how: `in_place` and `anew` move that mean, each in one way; `dropout` draws, and `branch` asks a tensor's value.
    """

    how: Literal["in_place", "anew", "dropout", "branch"] = "in_place"

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _WithState(self.how, size, generator)


class _WithState(nn.Module):
    def __init__(self, how: str, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.how = how
        self.weight = nn.Parameter(linear(size.width, size.width, generator, bias=False).weight.detach().clone())
        self.register_buffer("mean_D", torch.zeros(size.width))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        y_BLD = x_BLD @ self.weight.T
        if self.training:
            self._follow(y_BLD[:, 0].detach().mean(0))  # of positions that are never padding
        if self.how == "dropout":
            y_BLD = F.dropout(y_BLD, 0.5, self.training)
        if self.how == "branch" and y_BLD.sum() > 0:
            y_BLD = -y_BLD
        places_L1 = torch.arange(1, y_BLD.shape[1] + 1, device=y_BLD.device)[:, None]
        return (y_BLD - self.mean_D).cumsum(1) / places_L1

    def _follow(self, now_D: Tensor) -> None:
        self.seen += 1
        if self.how == "anew":
            self.mean_D = 0.9 * self.mean_D + 0.1 * now_D
        else:
            self.mean_D.mul_(0.9).add_(now_D, alpha=0.1)
