"""One component taken out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, composed, decomposed
from partwise.errors import ConfigError


@ABLATIONS.register("remove_component")
@dataclass(frozen=True, kw_only=True)
class RemoveComponent:
    """Take one component out of each matrix: W - s_j u_j v_j'. Vectors (biases, gains) stay.

    Args:
        pattern: which weights.
        component: j, counted from 0, the largest; -1 is the smallest.
    """

    pattern: str = "blocks.*.channel_mixer"
    component: int = 0

    @property
    def label(self) -> str:
        return f"{self.pattern} without component {self.component}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        u_OR, s_R, v_RI = decomposed(weight)
        if not -len(s_R) <= self.component < len(s_R):
            raise ConfigError(f"component={self.component}: this matrix has {len(s_R)}, counted from 0.")
        s_R[self.component] = 0
        return composed(u_OR, s_R, v_RI, weight)
