"""What goes into a model: tokens, what should come out of it, and where to look."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from partwise.packing import Packing

IGNORE = -100  # a target that is not scored; torch's own cross_entropy skips it


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One draw of examples.

    Args:
        tokens_BL: int64 (B, L) token ids; for a task with real-valued inputs, float (B, L, F).
        targets_BL: int64 (B, L), the right id at each scored position and IGNORE elsewhere; for real targets, float
            (B, L) with NaN elsewhere.
        lengths_B: int64 (B,), positions in use, counted from the left; None where all rows are full.
        marks: positions that probes may ask for, each int64 (B,) or (B, N), such as {"answer": ..., "source": ...}.
        strata: what to split scores by, each int64 (B,) or (B, L), such as {"n_pairs": ...}.
        packing: where it is given, the lab's models compute the positions in use alone.
    """

    tokens_BL: Tensor
    targets_BL: Tensor
    lengths_B: Tensor | None = None
    marks: dict[str, Tensor] = field(default_factory=dict)
    strata: dict[str, Tensor] = field(default_factory=dict)
    packing: Packing | None = None

    def __len__(self) -> int:
        return self.tokens_BL.shape[0]

    @property
    def scored_BL(self) -> Tensor:
        """Where a target stands, bool (B, L)."""
        if self.targets_BL.is_floating_point():
            return ~self.targets_BL.isnan()
        return self.targets_BL != IGNORE

    @property
    def used_BL(self) -> Tensor:
        """Which positions are in use, not padding, bool (B, L)."""
        length = self.tokens_BL.shape[1]
        if self.lengths_B is None:
            return torch.ones(len(self), length, dtype=torch.bool, device=self.tokens_BL.device)
        return torch.arange(length, device=self.tokens_BL.device) < self.lengths_B[:, None]

    def read(self) -> tuple[Tensor | None, Tensor]:
        """The positions worth computing and their targets, (B, Q) each.

        Q is the most that any row scores; a row with fewer adds positions that are not scored, whose target is
        IGNORE already. The first is None, and the targets whole, where nothing would be saved.
        """
        scored_BL = self.scored_BL
        n_read = max(1, int(scored_BL.sum(-1).max()))
        if n_read == scored_BL.shape[1]:
            return None, self.targets_BL
        read_BQ = torch.argsort((~scored_BL).to(torch.int8), dim=-1, stable=True)[:, :n_read]
        return read_BQ, self.targets_BL.gather(1, read_BQ)

    def packed(self, *, n_groups: int = 1) -> "Batch":
        """The same examples in the order of their lengths, cut to the longest, with a packing; without marks and
        strata. Full rows stay as they are, and so does a batch that scores padding."""
        if self.lengths_B is None or bool((self.lengths_B == self.tokens_BL.shape[1]).all()):
            return self
        if bool((self.scored_BL & ~self.used_BL).any()):
            return self
        lengths_B, order_B = self.lengths_B.sort(stable=True)
        longest = int(lengths_B[-1])
        return Batch(
            tokens_BL=self.tokens_BL[order_B, :longest],
            targets_BL=self.targets_BL[order_B, :longest],
            lengths_B=lengths_B,
            packing=Packing(lengths_B, longest, n_groups=n_groups),
        )

    def rows(self, start: int, stop: int) -> "Batch":
        """The examples start..stop, everything else unchanged."""
        return self._each(lambda tensor: tensor[start:stop])

    def at(self, index_N: Tensor) -> "Batch":
        """The examples `index_N`, in that order."""
        return self._each(lambda tensor: tensor[index_N])

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def _each(self, change) -> "Batch":
        return replace(
            self,
            tokens_BL=change(self.tokens_BL),
            targets_BL=change(self.targets_BL),
            lengths_B=None if self.lengths_B is None else change(self.lengths_B),
            marks={name: change(mark) for name, mark in self.marks.items()},
            strata={name: change(stratum) for name, stratum in self.strata.items()},
            packing=None,  # of these rows on this device, no others
        )
