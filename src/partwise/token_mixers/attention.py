"""Softmax attention: each output position chooses what it reads, by content. Source: Vaswani et al. 2017,
arXiv:1706.03762; rotary positions: Su et al. 2021, arXiv:2104.09864; grouped queries: Ainslie et al. 2023,
arXiv:2305.13245."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.layers import linear, take, valid_BL
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS

TINY = 4  # rows so short that the fused kernel, at a cost a row and head, is slower than the plain way


@TOKEN_MIXERS.register("attention")
@dataclass(frozen=True, kw_only=True)
class Attention:
    """Softmax attention: every position reads from those whose keys fit its query.

        mix = softmax(q k' / sqrt(K) over the positions it may see),    y = out(mix v)

    Args:
        n_heads: H, heads of the query; K = width / H.
        n_kv_heads: heads of key and value, shared by groups of query heads; None means H.
        rope: turn query and key by their position (the position code of Llama).
        rope_base: wavelengths run from 2 pi to 2 pi * rope_base.
        qk_scale: the query and key weights start at this times the usual sd, 1/sqrt(width). At width 64 the sd .02 of
            published code is .16, and frozen queries and keys then stay at the floor (mixit.md 1.1).
        bias: whether the four maps have one.
    """

    n_heads: int = 4
    n_kv_heads: int | None = None
    rope: bool = True
    rope_base: float = 10_000.0
    qk_scale: float = 1.0
    bias: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.qk_scale < float("inf"):
            raise ConfigError(f"qk_scale={self.qk_scale}: a finite number from 0 on was expected.")

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return SelfAttention(self, size, generator)


class SelfAttention(nn.Module):
    """Queries, keys and values in heads; what becomes of the scores is said twice, by `_mixing` and by `_fused`."""

    def __init__(self, config: Attention, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.n_heads, self.head_width = config.n_heads, size.head_width(config.n_heads)
        self.n_kv_heads = config.n_heads if config.n_kv_heads is None else config.n_kv_heads
        if self.n_kv_heads < 1 or self.n_heads % self.n_kv_heads:
            raise ConfigError(f"{self.n_heads} query heads do not share {self.n_kv_heads} key and value heads evenly.")
        if config.rope and self.head_width % 2:
            raise ConfigError(
                f"rope turns pairs of channels, and a head here has {self.head_width}; or set rope=false."
            )
        self.causal, self.rope_base = size.causal, config.rope_base if config.rope else None
        kv_width, qk_std = self.n_kv_heads * self.head_width, config.qk_scale * size.width**-0.5
        self.value = linear(size.width, kv_width, generator, bias=config.bias)
        self.out = linear(size.width, size.width, generator, bias=config.bias)
        self.query = linear(size.width, size.width, generator, bias=config.bias, std=qk_std)
        self.key = linear(size.width, kv_width, generator, bias=config.bias, std=qk_std)
        self.scores, self.mix = Tap(), Tap()

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        length = x_BLD.shape[1]
        q_BHLK, (k_BHSK, v_BHSK) = self._queries(x_BLD, None), self._keys_and_values(x_BLD)
        if length <= TINY or self.scores.listening or self.mix.listening:
            everywhere_1L = torch.arange(length, device=x_BLD.device)[None]
            return self._read(q_BHLK, k_BHSK, v_BHSK, everywhere_1L, lengths_B)
        return self._joined(self._fused(q_BHLK, k_BHSK, v_BHSK, lengths_B))

    def forward_at(self, x_BLD: Tensor, read_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        q_BHQK = self._queries(take(x_BLD, read_BQ), read_BQ)
        return self._read(q_BHQK, *self._keys_and_values(x_BLD), read_BQ, lengths_B)

    def forward_next(self, x_BND: Tensor, cache: Cache) -> Tensor:
        """Keeps turned keys and values, of the heads that keys and values have."""
        at_BN = cache.seen + torch.arange(x_BND.shape[1], device=x_BND.device).expand(x_BND.shape[:2])
        k_BNHK = self._turned(self._heads(self.key(x_BND), self.n_kv_heads), at_BN)
        k_BHSK = cache.grown("key", k_BNHK.transpose(1, 2))
        v_BHSK = cache.grown("value", self._heads(self.value(x_BND), self.n_kv_heads).transpose(1, 2))
        group = self.n_heads // self.n_kv_heads
        if group > 1:
            k_BHSK, v_BHSK = k_BHSK.repeat_interleave(group, dim=1), v_BHSK.repeat_interleave(group, dim=1)
        return self._read(self._queries(x_BND, at_BN), k_BHSK, v_BHSK, at_BN, None)

    def _queries(self, x_BQD: Tensor, at_BQ: Tensor | None) -> Tensor:
        return self._turned(self._heads(self.query(x_BQD), self.n_heads), at_BQ).transpose(1, 2)

    def _keys_and_values(self, x_BLD: Tensor) -> tuple[Tensor, Tensor]:
        k_BHSK = self._turned(self._heads(self.key(x_BLD), self.n_kv_heads), None).transpose(1, 2)
        v_BHSK = self._heads(self.value(x_BLD), self.n_kv_heads).transpose(1, 2)
        group = self.n_heads // self.n_kv_heads
        if group > 1:
            return k_BHSK.repeat_interleave(group, dim=1), v_BHSK.repeat_interleave(group, dim=1)
        return k_BHSK, v_BHSK

    def _read(self, q_BHQK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, at_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The plain way, on which the taps sit."""
        visible = self._visible(at_BQ, k_BHSK.shape[2], lengths_B)
        scores_BHQS = self.scores(q_BHQK @ k_BHSK.mT * self.head_width**-0.5)
        mix_BHQS = self.mix(self._mixing(scores_BHQS, visible, at_BQ))
        return self._joined(mix_BHQS.to(v_BHSK.dtype) @ v_BHSK)

    def _mixing(self, scores_BHQS: Tensor, visible: Tensor, at_BQ: Tensor) -> Tensor:
        """What multiplies the values of the sources, for the rows that stand at `at_BQ`."""
        return scores_BHQS.masked_fill(~visible, float("-inf")).softmax(-1)

    def _fused(self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The mixing times the values, all rows, in one kernel."""
        # Padding is on the right, so a causal model never sees it from a position in use.
        visible = None if self.causal or lengths_B is None else valid_BL(lengths_B, k_BHSK.shape[2])[:, None, None]
        return F.scaled_dot_product_attention(q_BHLK, k_BHSK, v_BHSK, attn_mask=visible, is_causal=self.causal)

    def _visible(self, at_BQ: Tensor, length: int, lengths_B: Tensor | None) -> Tensor:
        """Which sources a position may see, bool, to be broadcast to (B, H, Q, S)."""
        source_S = torch.arange(length, device=at_BQ.device)
        visible_BQS = (
            source_S <= at_BQ[..., None] if self.causal else torch.ones_like(at_BQ[..., None] + source_S).bool()
        )
        if not self.causal and lengths_B is not None:
            visible_BQS = visible_BQS & valid_BL(lengths_B, length)[:, None]
        return visible_BQS[:, None]

    def _turned(self, x_BLHK: Tensor, at_BL: Tensor | None) -> Tensor:
        """Rotary positions: channel pairs (i, i + K/2) turned by position / rope_base^(2i/K)."""
        if self.rope_base is None:
            return x_BLHK
        length, width = x_BLHK.shape[1], x_BLHK.shape[3]
        at = torch.arange(length, device=x_BLHK.device) if at_BL is None else at_BL
        exact = torch.float32 if x_BLHK.device.type == "mps" else torch.float64  # which mps does not have
        pair_K = torch.arange(width, device=x_BLHK.device, dtype=exact) % (width // 2)
        angle = at[..., None, None] * self.rope_base ** (-2 * pair_K / width)
        cos, sin = angle.cos(), angle.sin()
        sin[..., : width // 2].neg_()
        return x_BLHK * cos.to(x_BLHK.dtype) + x_BLHK.roll(width // 2, dims=-1) * sin.to(x_BLHK.dtype)

    def _heads(self, x_BLD: Tensor, n_heads: int) -> Tensor:
        return x_BLD.unflatten(-1, (n_heads, self.head_width))

    def _joined(self, y_BHLK: Tensor) -> Tensor:
        return self.out(y_BHLK.transpose(1, 2).flatten(2))
