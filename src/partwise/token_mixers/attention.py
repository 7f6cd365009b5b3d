"""Softmax attention: each output position chooses what it reads, by content. Source: Vaswani et al. 2017,
arXiv:1706.03762; rotary positions: Su et al. 2021, arXiv:2104.09864; grouped queries: Ainslie et al. 2023,
arXiv:2305.13245."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from partwise import fast
from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.layers import linear, mixed_values, shared_heads, take, valid_BL
from partwise.packing import Packing
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS

TINY = 4  # rows so short that the fused kernel, at a cost a row and head, is slower than the plain way
LONG = 32  # from here on the plain way is the faster one in bfloat16 on a CPU, whose fused kernel is not made for it


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
        identity_query: the query is the stream itself, q = x, and nothing to learn.
    """

    n_heads: int = 4
    n_kv_heads: int | None = None
    rope: bool = True
    rope_base: float = 10_000.0
    qk_scale: float = 1.0
    bias: bool = True
    identity_query: bool = False

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
        self.causal, self.length = size.causal, size.length
        self.rope_base = config.rope_base if config.rope else None
        kv_width, qk_std = self.n_kv_heads * self.head_width, config.qk_scale * size.width**-0.5
        self.value = linear(size.width, kv_width, generator, bias=config.bias)
        self.out = linear(size.width, size.width, generator, bias=config.bias)
        self.query: nn.Module
        if config.identity_query:
            self.query = nn.Identity()
        else:
            self.query = linear(size.width, size.width, generator, bias=config.bias, std=qk_std)
        self.key = linear(size.width, kv_width, generator, bias=config.bias, std=qk_std)
        self.scores, self.mix = Tap(), Tap()

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        self._require_room(x_BLD.shape[1])
        at_1L = self._everywhere(x_BLD)
        return self.out(self._read(*self._projected(x_BLD, at_1L), lengths_B).flatten(2))

    def forward_packed(self, x_1ND: Tensor, packing: Packing) -> Tensor:
        self._require_room(packing.length)
        return self.out(packing.through(self._read, *self._projected(x_1ND, packing.at_N[None])).flatten(2))

    def forward_at(self, x_BLD: Tensor, read_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        self._require_room(x_BLD.shape[1])
        q_BHQK = self._queries(take(x_BLD, read_BQ), read_BQ).transpose(1, 2)
        k_BHSK = self._shared(self._keys(x_BLD, self._everywhere(x_BLD)))
        y_BHQK = mixed_values(self._mix(q_BHQK, k_BHSK, read_BQ, lengths_B), x_BLD, self.value, self.n_kv_heads)
        return self.out(y_BHQK.transpose(1, 2).flatten(2))

    def forward_next(self, x_BND: Tensor, cache: Cache) -> Tensor:
        """Keeps turned keys and values, of the heads that keys and values have."""
        self._require_room(cache.seen + x_BND.shape[1])
        at_BN = cache.seen + torch.arange(x_BND.shape[1], device=x_BND.device).expand(x_BND.shape[:2])
        q_BNHK, k_BNVK, v_BNVK = self._projected(x_BND, at_BN)
        k_BHSK = self._shared(cache.grown("key", k_BNVK.transpose(1, 2)).transpose(1, 2))
        v_BHSK = self._shared(cache.grown("value", v_BNVK.transpose(1, 2)).transpose(1, 2))
        mix_BHNS = self._mix(q_BNHK.transpose(1, 2), k_BHSK, at_BN, None)
        return self.out((mix_BHNS.to(v_BHSK.dtype) @ v_BHSK).transpose(1, 2).flatten(2))

    def _require_room(self, length: int) -> None:
        """The table of angles ends where the longest input that the mixer was made for ends."""
        if self.rope_base is not None and length > self.length:
            raise ConfigError(
                f"an input of length {length}, but this attention with rope was made for {self.length} at most."
            )

    def _projected(self, x_BLD: Tensor, at_BL: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (B, L, heads, K)."""
        return self._queries(x_BLD, at_BL), self._keys(x_BLD, at_BL), self._heads(self.value(x_BLD), self.n_kv_heads)

    def _queries(self, x_BQD: Tensor, at_BQ: Tensor) -> Tensor:
        return self._turned(self._heads(self.query(x_BQD), self.n_heads), at_BQ)

    def _keys(self, x_BLD: Tensor, at_BL: Tensor) -> Tensor:
        return self._turned(self._heads(self.key(x_BLD), self.n_kv_heads), at_BL)

    def _read(self, q_BLHK: Tensor, k_BSVK: Tensor, v_BSVK: Tensor, lengths_B: Tensor | None) -> Tensor:
        """What every position reads, (B, L, H, K)."""
        q_BHLK, k_BHSK, v_BHSK = q_BLHK.transpose(1, 2), self._shared(k_BSVK), self._shared(v_BSVK)
        if self.scores.listening or self.mix.listening or self._plain_is_faster(q_BHLK) or fast.asked_plain():
            mix_BHLS = self._mix(q_BHLK, k_BHSK, self._everywhere(q_BLHK), lengths_B)
            return (mix_BHLS.to(v_BHSK.dtype) @ v_BHSK).transpose(1, 2)
        return self._fused(q_BHLK, k_BHSK, v_BHSK, lengths_B).transpose(1, 2)

    @staticmethod
    def _plain_is_faster(q_BHLK: Tensor) -> bool:
        length = q_BHLK.shape[2]
        return length <= TINY or (_slow_fused(q_BHLK) and length >= LONG)

    def _shared(self, x_BSVK: Tensor) -> Tensor:
        """Heads of key or value, (B, H, S, K), as the query heads share them."""
        return shared_heads(x_BSVK.transpose(1, 2), self.n_heads, dim=1)

    def _mix(self, q_BHQK: Tensor, k_BHSK: Tensor, at_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The plain way, on which the taps sit, (B, H, Q, S)."""
        visible = self._visible(at_BQ, k_BHSK.shape[2], lengths_B)
        scores_BHQS = self.scores(q_BHQK @ k_BHSK.mT * self.head_width**-0.5)
        return self.mix(self._mixing(scores_BHQS, visible, at_BQ))

    @staticmethod
    def _everywhere(x_BLX: Tensor) -> Tensor:
        return torch.arange(x_BLX.shape[1], device=x_BLX.device)[None]

    def _mixing(self, scores_BHQS: Tensor, visible: Tensor, at_BQ: Tensor) -> Tensor:
        """What multiplies the values of the sources, for the rows that stand at `at_BQ`."""
        return scores_BHQS.masked_fill(~visible, float("-inf")).softmax(-1)

    def _fused(self, q_BHLK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor, lengths_B: Tensor | None) -> Tensor:
        """The mixing times the values, all rows, in one kernel."""
        # Padding is on the right, so a causal model never sees it from a position in use.
        visible = None if self.causal or lengths_B is None else valid_BL(lengths_B, k_BHSK.shape[2])[:, None, None]
        if not _slow_fused(q_BHLK):
            return F.scaled_dot_product_attention(q_BHLK, k_BHSK, v_BHSK, attn_mask=visible, is_causal=self.causal)
        q_BHLK, k_BHSK, exact_BHSK = q_BHLK.float(), k_BHSK.float(), v_BHSK.float()
        with torch.autocast("cpu", enabled=False):
            y_BHLK = F.scaled_dot_product_attention(
                q_BHLK, k_BHSK, exact_BHSK, attn_mask=visible, is_causal=self.causal
            )
        return y_BHLK.to(v_BHSK.dtype)

    def _visible(self, at_BQ: Tensor, length: int, lengths_B: Tensor | None) -> Tensor:
        """Which sources a position may see, bool, to be broadcast to (B, H, Q, S)."""
        source_S = torch.arange(length, device=at_BQ.device)
        visible_BQS = (
            source_S <= at_BQ[..., None] if self.causal else torch.ones_like(at_BQ[..., None] + source_S).bool()
        )
        if not self.causal and lengths_B is not None:
            visible_BQS = visible_BQS & valid_BL(lengths_B, length)[:, None]
        return visible_BQS[:, None]

    def _turned(self, x_BLHK: Tensor, at_BL: Tensor) -> Tensor:
        """Rotary positions: channel pairs (i, i + K/2) turned by position / rope_base^(2i/K)."""
        if self.rope_base is None:
            return x_BLHK
        of = (self.length, x_BLHK.shape[2], self.head_width, self.rope_base, x_BLHK.device, x_BLHK.dtype)
        passing = torch.compiler.is_compiling() or fast.asked_plain() or is_in_torch_dispatch_mode()
        tables_LHK = angles(*of) if passing else _kept_angles(*of)  # what is kept must be a plain tensor
        cos, sin = (table.index_select(0, at_BL.flatten()).unflatten(0, at_BL.shape) for table in tables_LHK)
        return fast.rotated(x_BLHK, cos, sin)

    def _heads(self, x_BLD: Tensor, n_heads: int) -> Tensor:
        return x_BLD.unflatten(-1, (n_heads, self.head_width))


def _slow_fused(q_BHLK: Tensor) -> bool:
    return q_BHLK.device.type == "cpu" and q_BHLK.dtype == torch.bfloat16


def angles(
    length: int, n_heads: int, head_width: int, base: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and signed sine of position / base^(2i/K) for channels i and i + K/2 of each head, (L, H, K): what
    `fast.rotated` multiplies by. Computed in float64."""
    exact = torch.float32 if device.type == "mps" else torch.float64  # which mps does not have
    pair_P = torch.arange(head_width // 2, dtype=exact, device=device)
    angle_LP = torch.arange(length, dtype=exact, device=device)[:, None] * base ** (-2 * pair_P / head_width)
    tables = (angle_LP.cos(),) * 2, (-angle_LP.sin(), angle_LP.sin())
    cos_LHK, sin_LHK = (torch.cat(halves, -1)[:, None].repeat(1, n_heads, 1).to(dtype) for halves in tables)
    return cos_LHK, sin_LHK


@functools.lru_cache(maxsize=32)
@torch.inference_mode(False)
def _kept_angles(*of: Any) -> tuple[Tensor, Tensor]:
    return angles(*of)
