"""No token mixer: positions never meet."""

from dataclasses import dataclass

import torch

from partwise.shapes import MixerSize
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("none")
@dataclass(frozen=True, kw_only=True)
class NoTokenMixer:
    """No mixing of positions: the sublayer, its norm and its join are left out of the block."""

    def build(self, size: MixerSize, *, generator: torch.Generator) -> None:
        return None
