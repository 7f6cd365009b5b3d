"""A join that keeps everything apart: the disentangled stream. Source: Nichani, Damian, Lee 2024, arXiv:2402.14735."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.joins import JOINS
from partwise.shapes import MixerSize


@JOINS.register("concat")
@dataclass(frozen=True, kw_only=True)
class Concat:
    """The sublayer's output is put beside the stream, which doubles its width. Nothing to set."""

    def out_width(self, width: int) -> int:
        return 2 * width

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Concat()


class _Concat(nn.Module):
    def forward(self, x_BLD: Tensor, y_BLD: Tensor) -> Tensor:
        return torch.cat((x_BLD, y_BLD), dim=-1)
