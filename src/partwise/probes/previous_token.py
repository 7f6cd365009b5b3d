"""Which heads read the position before."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from partwise.batch import Batch
from partwise.circuits import mixings, shortened
from partwise.probes import PROBES
from partwise.rows import Row


@PROBES.register("previous_token")
@dataclass(frozen=True, kw_only=True)
class PreviousToken:
    """How much of each position comes from the one before, head by head; 1 for a perfect previous-token head.

        mean of |mix[i, i - 1]| over examples and positions i >= 1 in use

    The first half of an induction circuit. Where the mix does not see the input, the score is a constant and named
    `previous_token.input_free`. Source: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        batch = shortened(batch)
        used_BL = batch.used_BL[:, 1:]
        if not used_BL.any():
            return
        for mixing in mixings(model, batch):
            before_BHL = mixing.size_BHLS.diagonal(-1, dim1=-2, dim2=-1)
            before_NH = before_BHL.transpose(1, 2)[used_BL]
            yield from mixing.rows("previous_token", before_NH.mean(0), n=len(before_NH))
