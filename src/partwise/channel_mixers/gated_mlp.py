"""The gated feed-forward of Llama. Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partwise import fast
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.errors import ConfigError
from partwise.layers import linear
from partwise.shapes import MixerSize

Activation = Literal["silu", "gelu", "relu", "identity"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "relu": F.relu,
    "identity": lambda x: x,
}


def hidden_width(hidden: int | None, size: MixerSize) -> int:
    """F: what was asked for, or four times the width."""
    if hidden is not None and hidden < 1:
        raise ConfigError(f"a hidden width of {hidden}: at least 1; channel_mixer=none leaves the feed-forward out.")
    return 4 * size.width if hidden is None else hidden


@CHANNEL_MIXERS.register("gated_mlp")
@dataclass(frozen=True, kw_only=True)
class GatedMlp:
    """Gated feed-forward (SwiGLU): one half of the hidden layer opens and closes the other.

        y = down(act(gate(x)) * up(x))

    Args:
        hidden: F; None means four times the width, as in the paper's models.
        activation: of the gate.
        bias: whether the three maps have one.
    """

    hidden: int | None = None
    activation: Activation = "silu"
    bias: bool = True

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _GatedMlp(self, size, generator)


class _GatedMlp(nn.Module):
    def __init__(self, config: GatedMlp, size: MixerSize, generator: torch.Generator):
        super().__init__()
        hidden = hidden_width(config.hidden, size)
        self.gate = linear(size.width, hidden, generator, bias=config.bias)
        self.up = linear(size.width, hidden, generator, bias=config.bias)
        self.down = linear(hidden, size.width, generator, bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x_BLD: Tensor) -> Tensor:
        maps = (self.gate, self.up, self.down)
        fusible = self.activation is F.silu and fast.bare(*maps) and all(layer.bias is not None for layer in maps)
        if fusible and fast.applies(x_BLD):
            return fast.gated(x_BLD, self.gate, self.up, self.down)
        return self.down(self.activation(self.gate(x_BLD)) * self.up(x_BLD))
