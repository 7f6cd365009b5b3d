"""Uniform mixing: every position receives the plain mean of those it may see. Source: ours, as a baseline."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.caches import Cache
from partwise.layers import linear, take, valid_BL
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("uniform")
@dataclass(frozen=True, kw_only=True)
class Uniform:
    """The plain mean: it moves information and chooses nothing, the floor of the catalogue.

        mix[i, j] = 1 / (number of positions that i may see),    y = out(mix v)

    Args:
        bias: whether value and out have one.
    """

    bias: bool = True

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _Uniform(self, size, generator)


class _Uniform(nn.Module):
    def __init__(self, config: Uniform, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.causal = size.causal
        self.value = linear(size.width, size.width, generator, bias=config.bias)
        self.out = linear(size.width, size.width, generator, bias=config.bias)
        self.mix = Tap()

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        seen_BLS = torch.ones(1, x_BLD.shape[1], x_BLD.shape[1], device=x_BLD.device, dtype=x_BLD.dtype)
        if self.causal:
            seen_BLS = seen_BLS.tril()
        elif lengths_B is not None:
            seen_BLS = seen_BLS * valid_BL(lengths_B, x_BLD.shape[1])[:, None]
        mix_BHLS = self.mix((seen_BLS / seen_BLS.sum(-1, keepdim=True))[:, None])
        v_BHSD = self.value(x_BLD)[:, None]
        return self.out((mix_BHLS.to(v_BHSD.dtype) @ v_BHSD)[:, 0])

    def forward_at(self, x_BLD: Tensor, read_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        """A running sum, read where it is asked for: no matrix at all."""
        v_BLD = self.value(x_BLD)
        if self.causal:
            return self.out(take(v_BLD.cumsum(1), read_BQ) / (read_BQ[..., None] + 1))
        if lengths_B is None:
            mean_B1D = v_BLD.mean(1, keepdim=True)
        else:
            mean_B1D = (v_BLD * valid_BL(lengths_B, v_BLD.shape[1])[..., None]).sum(1, keepdim=True)
            mean_B1D = mean_B1D / lengths_B[:, None, None]
        return self.out(mean_B1D.expand(-1, read_BQ.shape[1], -1))

    def forward_next(self, x_BND: Tensor, cache: Cache) -> Tensor:
        """Keeps the sum of the values, of one position's size however many there were."""
        sum_BND = cache.held.get("sum", 0) + self.value(x_BND).cumsum(1)
        cache.held["sum"] = sum_BND[:, -1:].clone()  # a view would keep all N of them
        seen_N1 = cache.seen + torch.arange(1, x_BND.shape[1] + 1, device=x_BND.device)[:, None]
        return self.out(sum_BND / seen_N1)
