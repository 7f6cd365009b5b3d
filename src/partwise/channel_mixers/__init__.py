"""Mixers of channels, one file each: the same function at every position.

A config's `build(size, generator=...)` gives a module with `forward(x_BLD) -> (B, L, D)`, or None: then the block has
no such sublayer (no norm, no join).
"""

from typing import Protocol, runtime_checkable

import torch
from torch import nn

from partwise.registry import Registry
from partwise.shapes import MixerSize


@runtime_checkable
class ChannelMixer(Protocol):
    """The config of a mixer of channels: a frozen dataclass."""

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module | None: ...


CHANNEL_MIXERS = Registry("channel mixer", package=__name__)
