"""The other end of truncation: what the small components hold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, OfRank, composed, decomposed


@ABLATIONS.register("keep_bottom")
@dataclass(frozen=True, kw_only=True)
class KeepBottom(OfRank):
    """Keep the r smallest components of each matrix. Vectors (biases, gains) stay.

    What a model learned may sit in the largest component (docs/papers: common noise in an associative memory), which
    `keep_top` keeps and this takes away.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    word = "bottom"

    share: float = 0.9

    def edited_matrix(self, weight: Tensor, rank: int, generator: torch.Generator) -> Tensor:
        u_OR, s_R, v_RI = decomposed(weight)
        s_R[: len(s_R) - rank] = 0
        return composed(u_OR, s_R, v_RI, weight)
