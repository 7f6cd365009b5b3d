"""The control of truncation: as many components, chosen by chance."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, check_rank, composed, decomposed, rank_in_words, rank_of


@ABLATIONS.register("random_truncation")
@dataclass(frozen=True, kw_only=True)
class RandomTruncation:
    """Keep r components of each matrix, drawn at random without regard to their size. Vectors stay.

    The same rank as `keep_top` and `keep_bottom` leave: what these do beyond it is due to which components they keep.

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
        return f"{self.pattern} random {rank_in_words(self.rank, self.share)}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        u_OR, s_R, v_RI = decomposed(weight)
        gone_N = torch.randperm(len(s_R), generator=generator)[rank_of(weight, rank=self.rank, share=self.share) :]
        s_R[gone_N] = 0
        return composed(u_OR, s_R, v_RI, weight)
