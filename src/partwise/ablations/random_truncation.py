"""The control of truncation: as many components, chosen by chance."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, OfRank, composed, decomposed


@ABLATIONS.register("random_truncation")
@dataclass(frozen=True, kw_only=True)
class RandomTruncation(OfRank):
    """Keep r components of each matrix, drawn at random without regard to their size. Vectors stay.

    The same rank as `keep_top` and `keep_bottom` leave: what these do beyond it is due to which components they keep.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    word = "random"

    def edited_matrix(self, weight: Tensor, rank: int, generator: torch.Generator) -> Tensor:
        u_OR, s_R, v_RI = decomposed(weight)
        s_R[torch.randperm(len(s_R), generator=generator)[rank:]] = 0
        return composed(u_OR, s_R, v_RI, weight)
