"""The control of any truncation: a change as large, in a direction of no meaning."""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.ablations import ABLATIONS, OfRank, decomposed


@ABLATIONS.register("same_norm_noise")
@dataclass(frozen=True, kw_only=True)
class SameNormNoise(OfRank):
    """Add Gaussian noise to each matrix, of the Frobenius norm that keeping its r largest components takes away.

        W + E,    |E|^2 = sum over i > r of s_i^2,    E's entries independent and alike

    Vectors (biases, gains) stay.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    word = "noise for"

    def edited_matrix(self, weight: Tensor, rank: int, generator: torch.Generator) -> Tensor:
        _, s_R, _ = decomposed(weight)
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        return weight + (noise * (s_R[rank:].norm() / noise.norm())).to(weight)
