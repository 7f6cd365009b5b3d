"""The control of any truncation: a change as large, in a direction of no meaning."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, check_rank, decomposed, rank_in_words, rank_of


@ABLATIONS.register("same_norm_noise")
@dataclass(frozen=True, kw_only=True)
class SameNormNoise:
    """Add Gaussian noise to each matrix, of the Frobenius norm that keeping its r largest components takes away.

        W + E,    |E|^2 = sum over i > r of s_i^2,    E's entries independent and alike

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
        return f"{self.pattern} noise for {rank_in_words(self.rank, self.share)}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        _, s_R, _ = decomposed(weight)
        taken = s_R[rank_of(weight, rank=self.rank, share=self.share) :].norm()
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        return weight + (noise * (taken / noise.norm())).to(weight)
