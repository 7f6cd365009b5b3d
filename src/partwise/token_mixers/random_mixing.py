"""Random fixed mixing, MixiT's: every position reads through a matrix that was drawn once and does not look at the
input. Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from partwise import fast
from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.layers import linear, mixed_values, valid_BL
from partwise.packing import Packing
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("random_mixing")
@dataclass(frozen=True, kw_only=True)
class RandomMixing:
    """Random fixed mixing (MixiT): value and out learn, the mixing matrix is a saved random draw.

        mix = I + W - rowmean(W),    y = out(mix v)

    Args:
        n_heads: H; each head has its own matrix.
        std: (low, high), the range that each head draws the sd of its W from; None is the paper's code's,
            ((length * head_width) ** -0.5, length ** -0.5). Or one sd for all heads: "row", length ** -0.5, as the code
            has it with depth_alpha; "head", (length * head_width) ** -0.5, as in its GPT-2 model; "width",
            (length * width) ** -0.5, the theory's (mixit.md 1.2).
        identity: False leaves the I out, so that rows sum to zero: the published code's second regime, depth_alpha.
        sink: overwrite head 0 by half the identity plus half of the first position, as the published code does and
            no summary says (mixit.md 1.2); it needs two heads. Its row 0 sums to one half, as published.
        bias: whether value and out have one.
    """

    n_heads: int = 4
    std: tuple[float, float] | Literal["row", "head", "width"] | None = None
    identity: bool = True
    sink: bool = False
    bias: bool = True

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _RandomMixing(self, size, generator)

    def spread(self, size: MixerSize) -> tuple[float, float]:
        """(low, high) of the sd of W, here."""
        row, head = size.length**-0.5, (size.length * size.head_width(self.n_heads)) ** -0.5
        if self.std is None:
            return head, row
        if isinstance(self.std, tuple):
            return self.std
        return ({"row": row, "head": head, "width": (size.length * size.width) ** -0.5}[self.std],) * 2


def sample_mixing_matrix(
    n_heads: int,
    length: int,
    *,
    std: tuple[float, float],
    causal: bool,
    generator: torch.Generator,
    identity: bool = True,
) -> Float[Tensor, "head length length"]:
    """Draw one fixed, input-independent mixing matrix per head.

        mix = I + W - rowmean(W),    W[h, i, j] ~ Normal(0, std_h^2) where i may see j

    Row i says how output position i is put together from the source positions. Each row sums to one, so equal tokens
    pass unchanged; `std=(0, 0)` gives the identity.

    Args:
        n_heads: H; heads draw independently.
        length: L, the longest sequence. If causal, a shorter one uses the top-left corner.
        std: of one entry, a (low, high) pair: each head draws its own, uniformly; usually
            `((length * head_width) ** -0.5, length ** -0.5)`.
        causal: zero right of the diagonal, and the row mean runs over the rest.
        generator: the same state gives the same matrix on the same device.
        identity: False leaves the I out; rows then sum to zero.

    Returns:
        (H, L, L), float32. Keep it as a persistent buffer, so that a checkpoint holds it.

    Raises:
        ConfigError: std is negative, not finite or not (low, high); n_heads or length is below 1.

    Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, definition of MixiT. Unlike the published code
    (princeton-pli/MixiT 22ce029): it is saved with the model; the two-way row mean runs over all L (there it divides
    by i + 1), and a shorter two-way input is centred anew over the positions in use.
    """
    low, high = std
    if not 0 <= low <= high < float("inf"):
        raise ConfigError(f"std {std} of a mixing matrix: two finite numbers, 0 <= low <= high, were expected.")
    if n_heads < 1 or length < 1:
        raise ConfigError(f"a mixing matrix of {n_heads} heads and length {length}: both must be at least 1.")
    std_H = low + (high - low) * torch.rand(n_heads, generator=generator)
    w_HLL = torch.randn(n_heads, length, length, generator=generator) * std_H[:, None, None]
    may_see_LL = torch.ones(length, length)
    may_see_LL = may_see_LL.tril() if causal else may_see_LL
    w_HLL = w_HLL * may_see_LL
    centre_HL1 = w_HLL.sum(-1, keepdim=True) / may_see_LL.sum(-1, keepdim=True)
    centred_HLL = (w_HLL - centre_HL1) * may_see_LL
    return torch.eye(length) + centred_HLL if identity else centred_HLL


class _RandomMixing(nn.Module):
    def __init__(self, config: RandomMixing, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.n_heads, self.head_width = config.n_heads, size.head_width(config.n_heads)
        if self.n_heads < 2 and config.sink:
            raise ConfigError("random mixing with a sink needs two heads: the sink takes the only one.")
        self.causal, self.identity, self.sink = size.causal, config.identity, config.sink
        self.value = linear(size.width, size.width, generator, bias=config.bias)
        self.out = linear(size.width, size.width, generator, bias=config.bias)
        self.mix = Tap()
        mix_HLL = sample_mixing_matrix(
            config.n_heads,
            size.length,
            std=config.spread(size),
            causal=size.causal,
            generator=generator,
            identity=config.identity,
        )
        if config.sink:
            mix_HLL[0] = 0.5 * torch.eye(size.length)
            mix_HLL[0, 1:, 0] += 0.5
        self.mix_HLL: Tensor
        self.register_buffer("mix_HLL", mix_HLL)

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        return self.out(self._read(self.value(x_BLD), lengths_B))

    def forward_packed(self, x_1ND: Tensor, packing: Packing) -> Tensor:
        return self.out(packing.through(self._read, self.value(x_1ND)))

    def forward_at(self, x_BLD: Tensor, read_BQ: Tensor, lengths_B: Tensor | None) -> Tensor:
        mix_BHLS = self._matrix(x_BLD.shape[1], lengths_B)
        if mix_BHLS.shape[0] == 1:
            mix_BHQS = mix_BHLS[0, :, read_BQ].transpose(0, 1)
        else:
            index = read_BQ[:, None, :, None].expand(-1, self.n_heads, -1, mix_BHLS.shape[-1])
            mix_BHQS = mix_BHLS.gather(2, index)
        y_BHQK = mixed_values(mix_BHQS, x_BLD, self.value, self.n_heads)
        return self.out(y_BHQK.transpose(1, 2).flatten(2))

    def _read(self, v_BSD: Tensor, lengths_B: Tensor | None) -> Tensor:
        v_BHSK = self._heads(v_BSD)
        mix_BHLS = self.mix(self._matrix(v_BSD.shape[1], lengths_B)).to(v_BHSK.dtype)
        if len(mix_BHLS) == 1 and not self.mix.listening:
            return fast.mixed_alike(mix_BHLS[0], v_BHSK.transpose(1, 2), causal=self.causal).flatten(2)
        return (mix_BHLS @ v_BHSK).transpose(1, 2).flatten(2)

    def forward_next(self, x_BND: Tensor, cache: Cache) -> Tensor:
        """Keeps values and no keys: the next rows of the matrix were drawn long ago."""
        v_BHSK, start = cache.grown("value", self._heads(self.value(x_BND))), cache.seen
        mix_BHNS = self.mix(self.mix_HLL[None, :, start : v_BHSK.shape[2], : v_BHSK.shape[2]])
        return self.out((mix_BHNS.to(v_BHSK.dtype) @ v_BHSK).transpose(1, 2).flatten(2))

    def _heads(self, v_BSD: Tensor) -> Tensor:
        return v_BSD.unflatten(-1, (self.n_heads, self.head_width)).transpose(1, 2)

    def _matrix(self, length: int, lengths_B: Tensor | None) -> Tensor:
        """The matrix for this input, (B or 1, H, L, S): the corner, centred anew where that is needed."""
        mix_HLS = self.mix_HLL[:, :length, :length]
        whole = length == self.mix_HLL.shape[1] and lengths_B is None
        if self.causal or whole:  # a causal row does not depend on what comes later
            return mix_HLS[None]
        # Two-way: subtracting a constant of the row from W leaves W - rowmean(W) the same, so the corner can be
        # centred over the positions in use without keeping W itself.
        eye_LS = self.identity * torch.eye(length, device=mix_HLS.device, dtype=mix_HLS.dtype)
        if lengths_B is None:
            used_BS = torch.ones(1, length, device=mix_HLS.device, dtype=mix_HLS.dtype)
        else:
            used_BS = valid_BL(lengths_B, length).to(mix_HLS.dtype)
        used = used_BS[:, None, None]
        w_BHLS = (mix_HLS - eye_LS)[None] * used
        centre_BHL1 = w_BHLS.sum(-1, keepdim=True) / used.sum(-1, keepdim=True)
        if self.sink:  # head 0 is no random draw and has no mean to take off
            centre_BHL1 = torch.cat((torch.zeros_like(centre_BHL1[:, :1]), centre_BHL1[:, 1:]), dim=1)
        return eye_LS + (w_BHLS - centre_BHL1) * used
