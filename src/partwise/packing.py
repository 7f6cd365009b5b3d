"""Rows of unequal length without their padding: what works position by position computes the positions in use alone."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.fast import rows_into, rows_of


@dataclass(frozen=True)
class _Group:
    """Neighbouring rows, which a token mixer meets as one padded batch of their own."""

    lengths_B: Tensor
    length: int  # of the longest
    packed: slice  # of the positions in use
    at_M: Tensor  # where these stand in the flattened (B, length)

    def apart(self, x_1NX: Tensor) -> Tensor:
        """(B, length, ...), padding zero."""
        whole = rows_into(x_1NX[0, self.packed], self.at_M, len(self.lengths_B) * self.length)
        return whole.unflatten(0, (len(self.lengths_B), self.length))


class Packing:
    """The positions in use of padded rows, (B, L, ...), side by side, (1, N, ...) with N = sum of the lengths.

    Args:
        lengths_B: positions in use, from the left; rows of like length should be neighbours.
        length: L.
        n_groups: a token mixer needs rows, and meets them in so many groups, each cut to its longest.
    """

    def __init__(self, lengths_B: Tensor, length: int, *, n_groups: int = 1):
        self.lengths_B, self.length = lengths_B, length
        used_BL = torch.arange(length, device=lengths_B.device) < lengths_B[:, None]
        row_N, self.at_N = used_BL.nonzero(as_tuple=True)  # which row a position is of, and where it stands in it
        self.flat_N = row_N * length + self.at_N
        self.first_B = lengths_B.cumsum(0) - lengths_B
        bounds = [len(lengths_B) * group // n_groups for group in range(n_groups + 1)]
        self._groups = [self._group(row_N, *pair) for pair in itertools.pairwise(bounds) if pair[0] < pair[1]]

    def _group(self, row_N: Tensor, first: int, end: int) -> _Group:
        lengths_B = self.lengths_B[first:end]
        start, longest = int(self.first_B[first]), int(lengths_B.max())
        packed = slice(start, start + int(lengths_B.sum()))
        at_M = (row_N[packed] - first) * longest + self.at_N[packed]
        return _Group(lengths_B, longest, packed, at_M)

    def pack(self, x_BLX: Tensor) -> Tensor:
        """(B, L, ...) -> (1, N, ...)."""
        return rows_of(x_BLX.flatten(0, 1), self.flat_N)[None]

    def unpack(self, x_1NX: Tensor) -> Tensor:
        """(1, N, ...) -> (B, L, ...), padding zero."""
        rows = len(self.lengths_B)
        return rows_into(x_1NX[0], self.flat_N, rows * self.length).unflatten(0, (rows, self.length))

    def take(self, x_1ND: Tensor, read_BQ: Tensor) -> Tensor:
        """The positions `read_BQ` of each row, (B, Q, D); one that is padding gives the row's last in use."""
        at_BQ = self.first_B[:, None] + torch.minimum(read_BQ, self.lengths_B[:, None] - 1)
        return x_1ND[0][at_BQ]

    def through(self, mix: Callable[..., Tensor], *packed_1NX: Tensor) -> Tensor:
        """`mix(*padded, lengths_B)`, group by group; each of its arguments and what it gives are (B, L, ...)."""
        mixed = []
        for group in self._groups:
            y_BLX = mix(*(group.apart(x_1NX) for x_1NX in packed_1NX), group.lengths_B)
            mixed.append(rows_of(y_BLX.flatten(0, 1), group.at_M))
        return torch.cat(mixed)[None]
