"""Truncation. Source: Sharma, Ash, Misra 2023, arXiv:2312.13558 (LASER). Unlike its code, whose randomized
decomposition is drawn anew each time, this one is exact."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, check_rank, composed, decomposed, rank_in_words, rank_of


@ABLATIONS.register("keep_top")
@dataclass(frozen=True, kw_only=True)
class KeepTop:
    """Keep the r largest components of each matrix: W becomes sum over i <= r of s_i u_i v_i'.

    r = 0 is the matrix gone. Of components that are equally large, which are kept is the decomposition's choice.
    Vectors (biases, gains) stay.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    pattern: str = "blocks.*.channel_mixer"
    rank: int | None = None
    share: float = 0.1

    def __post_init__(self) -> None:
        check_rank(self.rank, self.share)

    @property
    def label(self) -> str:
        return f"{self.pattern} top {rank_in_words(self.rank, self.share)}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        u_OR, s_R, v_RI = decomposed(weight)
        s_R[rank_of(weight, rank=self.rank, share=self.share) :] = 0
        return composed(u_OR, s_R, v_RI, weight)
