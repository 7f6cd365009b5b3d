"""Mixers of positions, one file each.

A config's `build(size, generator=...)` gives a module with `forward(x_BLD, lengths_B) -> (B, L, D)`, or None: then the
block has no such sublayer (no norm, no join). A module that can do less work for a few rows also has
`forward_at(x_BLD, read_BQ, lengths_B) -> (B, Q, D)`; the block falls back to gathering, so no mixer needs it.
One whose maps need not be computed on padding has `forward_packed(x_1ND, packing) -> (1, N, D)` (packing.py).
On a CPU a batch of unequal rows may be shown in groups of like length, each padded to its own longest: `lengths_B` is
that group's, what stands in padding is zero there and anything elsewhere, and what a mixer gives in padding is dropped.
And one that can go on where it stopped has `forward_next(x_BND, cache) -> (B, N, D)` (caches.py), for causal models; to
any other its whole input is given again.
Draw `value` and `out` first: then they start equal in every mixer that has them.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from partwise.registry import Registry
from partwise.shapes import MixerSize


@runtime_checkable
class TokenMixer(Protocol):
    """The config of a mixer of positions: a frozen dataclass."""

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module | None: ...


TOKEN_MIXERS = Registry("token mixer", package=__name__)
