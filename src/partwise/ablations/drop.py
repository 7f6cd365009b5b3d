"""A part that gives nothing."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS


@ABLATIONS.register("drop")
@dataclass(frozen=True, kw_only=True)
class Drop:
    """Zero in place of every weight, biases included: a mixer that is named whole then writes nothing.

    Args:
        pattern: which weights.
    """

    pattern: str = "blocks.*.channel_mixer"

    @property
    def label(self) -> str:
        return f"without {self.pattern}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        return torch.zeros_like(weight)
