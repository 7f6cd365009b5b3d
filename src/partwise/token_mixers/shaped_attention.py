"""Shaped attention: the identity plus how far softmax attention is from plain averaging. Source: Noci et al. 2023,
arXiv:2306.17759; as compared with MixiT in Dong, Noci, Khodak, Li 2025, arXiv:2506.01115."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from partwise.errors import ConfigError
from partwise.layers import valid_BL
from partwise.shapes import MixerSize
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention, SelfAttention


@TOKEN_MIXERS.register("shaped_attention")
@dataclass(frozen=True, kw_only=True)
class ShapedAttention(Attention):
    """Shaped attention: every position keeps itself and adds what its choice differs from the plain mean.

        mix = I + softmax(q k' / tau) - mean    over the positions it may see,    y = out(mix v)

    Each row sums to one, and with scores of zero the mix is the identity.

    Args:
        tau0: multiplies the temperature tau.
        tau: "published", as coded: tau0 sqrt(K) width / base_width, so that scores of one token pair shrink as
            1 / width; or "theory": tau0 sqrt(width K), so that they shrink as 1 / sqrt(width) (mixit.md 1.4).
        base_width: the width at which the published tau is that of softmax attention; the theory has none.
        n_heads, n_kv_heads, rope, rope_base, qk_scale, bias, identity_query: as in attention; the published model has
            rope.
    """

    tau0: float = 1.0
    tau: Literal["published", "theory"] = "published"
    base_width: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.tau0 < float("inf") or self.base_width < 1:
            raise ConfigError(f"tau0={self.tau0} and base_width={self.base_width}: both must be positive and finite.")

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _ShapedAttention(self, size, generator)


class _ShapedAttention(SelfAttention):
    def __init__(self, config: ShapedAttention, size: MixerSize, generator: torch.Generator):
        super().__init__(config, size, generator)
        relative = size.width / config.base_width if config.tau == "published" else size.width**0.5
        self.sharpness = 1 / (config.tau0 * relative)  # sqrt(K) / tau

    def _queries(self, x_BQD: Tensor, at_BQ: Tensor) -> Tensor:
        return self.sharpness * super()._queries(x_BQD, at_BQ)

    def _mixing(self, scores_BHQS: Tensor, visible: Tensor, at_BQ: Tensor) -> Tensor:
        chosen_BHQS = super()._mixing(scores_BHQS, visible, at_BQ)
        itself_BQS = at_BQ[..., None] == torch.arange(scores_BHQS.shape[-1], device=at_BQ.device)
        mean = visible.to(chosen_BHQS.dtype) / visible.sum(-1, keepdim=True)
        return itself_BQS[:, None] + (chosen_BHQS - mean)

    def _fused(self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, lengths_B: Tensor | None) -> Tensor:
        chosen_BHLK = super()._fused(q_BHLK, k_BHSK, v_BHSK, lengths_B)
        return v_BHSK + (chosen_BHLK - self._mean(v_BHSK, lengths_B))

    def _mean(self, v_BHSK: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The plain mean of the values that each position may see, (B, H, L or 1, K)."""
        length = v_BHSK.shape[2]
        if self.causal:
            return v_BHSK.cumsum(2) / torch.arange(1, length + 1, device=v_BHSK.device)[:, None]
        if lengths_B is None:
            return v_BHSK.mean(2, keepdim=True)
        used_BLS = valid_BL(lengths_B, length)[:, None, :, None]
        return (v_BHSK * used_BLS).sum(2, keepdim=True) / lengths_B[:, None, None, None]
