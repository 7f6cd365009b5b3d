"""How a sublayer's output meets the stream, one file each.

A config's `build(size, generator=...)` gives a module with `forward(x_BLD, y_BLD)`; `out_width(width)` says how wide
the stream is afterwards, so that a join may widen it.
"""

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from partwise.registry import Registry
from partwise.shapes import MixerSize


@runtime_checkable
class Join(Protocol):
    """The config of a join: a frozen dataclass."""

    def out_width(self, width: int) -> int: ...

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module: ...


JOINS = Registry("join", package=__name__)
