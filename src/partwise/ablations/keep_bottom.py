"""The other end of truncation: what the small components hold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, check_rank, composed, decomposed, rank_in_words, rank_of


@ABLATIONS.register("keep_bottom")
@dataclass(frozen=True, kw_only=True)
class KeepBottom:
    """Keep the r smallest components of each matrix. Vectors (biases, gains) stay.

    What a model learned may sit in the largest component (docs/papers: common noise in an associative memory), which
    `keep_top` keeps and this takes away.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    pattern: str = "blocks.*.channel_mixer"
    rank: int | None = None
    share: float = 0.9

    def __post_init__(self) -> None:
        check_rank(self.rank, self.share)

    @property
    def label(self) -> str:
        return f"{self.pattern} bottom {rank_in_words(self.rank, self.share)}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        u_OR, s_R, v_RI = decomposed(weight)
        s_R[: len(s_R) - rank_of(weight, rank=self.rank, share=self.share)] = 0
        return composed(u_OR, s_R, v_RI, weight)
