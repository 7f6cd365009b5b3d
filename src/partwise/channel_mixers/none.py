"""No channel mixer: an attention-only block."""

from dataclasses import dataclass

import torch

from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.shapes import MixerSize


@CHANNEL_MIXERS.register("none")
@dataclass(frozen=True, kw_only=True)
class NoChannelMixer:
    """No feed-forward: the sublayer, its norm and its join are left out of the block."""

    def build(self, size: MixerSize, *, generator: torch.Generator) -> None:
        return None
