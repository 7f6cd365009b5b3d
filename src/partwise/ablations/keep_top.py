"""Truncation. Source: Sharma, Ash, Misra 2023, arXiv:2312.13558 (LASER). Unlike its code, whose randomized
decomposition is drawn anew each time, this one is exact."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, OfRank, composed, decomposed


@ABLATIONS.register("keep_top")
@dataclass(frozen=True, kw_only=True)
class KeepTop(OfRank):
    """Keep the r largest components of each matrix: W becomes sum over i <= r of s_i u_i v_i'.

    r = 0 is the matrix gone. Of components that are equally large, which are kept is the decomposition's choice.
    Vectors (biases, gains) stay.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    word = "top"

    def edited_matrix(self, weight: Tensor, rank: int, generator: torch.Generator) -> Tensor:
        u_OR, s_R, v_RI = decomposed(weight)
        s_R[rank:] = 0
        return composed(u_OR, s_R, v_RI, weight)
