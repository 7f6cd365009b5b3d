"""A model that reads on, position by position, from what it keeps of those before."""

import torch
from torch import Tensor

from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.evaluation import mode
from partwise.model import Transformer

PIECE = 256  # positions a pass of a long prompt; its scores take memory by piece x prompt


def empty_caches(model: Transformer, length: int | None = None) -> list[Cache]:
    """What the mixers keep before anything is read, a cache a block.

    Args:
        model: a causal Transformer.
        length: the most positions that it will read; None means as many as the model can.

    Raises:
        ConfigError: the model is two-way: what comes next would change what was read.
    """
    if model.config.two_way:
        raise ConfigError("a two-way model cannot be decoded: what comes next would change what came before.")
    length = model.shape.length if length is None else min(length, model.shape.length)
    return [Cache(length) for _ in model.blocks]


@torch.no_grad()
def read_on(model: Transformer, tokens_BN: Tensor, caches: list[Cache]) -> Tensor:
    """Read N more positions into the caches; what the unembedding is given at each, (B, N, D). No gradient is kept.

    Raises:
        ConfigError: there is nothing to read, or it does not fit into the length any more.
    """
    n, seen, length = tokens_BN.shape[1], caches[0].seen, caches[0].length
    if n < 1:
        raise ConfigError(f"tokens of shape {tuple(tokens_BN.shape)}: at least one position to read was expected.")
    if seen + n > length:
        raise ConfigError(f"{n} more positions after {seen}: {length} is the most.")
    pieces = []
    for piece_BN in tokens_BN.split(PIECE, dim=1):
        at_N = torch.arange(caches[0].seen, caches[0].seen + piece_BN.shape[1], device=piece_BN.device)
        x_BND = model.embedded(piece_BN, at_N)
        for block, cache in zip(model.blocks, caches, strict=True):
            x_BND = block(x_BND, None, cache=cache)
            cache.seen += piece_BN.shape[1]
        pieces.append(x_BND)
    return model.final_norm(torch.cat(pieces, dim=1))


class Decoder:
    """A causal model and what its mixers keep: turned keys and values of attention, values of random mixing.

        decoder = Decoder(model)
        logits_BV = decoder.read(prompt_BL)                                 # what comes after the prompt
        logits_BV = decoder.read(logits_BV.argmax(-1, keepdim=True))        # and after that

    The logits are those of the model's own forward pass on all that was read, up to rounding. The model is in eval mode
    while it reads, and in its own again afterwards. All rows are of one length, and no gradient is kept.

    Args:
        model: a causal Transformer.
        length: the most positions that it will read; None means as many as the model can.

    Raises:
        ConfigError: the model is two-way: what comes next would change what was read.
    """

    def __init__(self, model: Transformer, length: int | None = None):
        self.model = model
        self.caches = empty_caches(model, length)
        self.n_rows: int | None = None

    @property
    def seen(self) -> int:
        """How many positions it has read."""
        return self.caches[0].seen

    @torch.no_grad()
    def read(self, tokens_BN: Tensor) -> Tensor:
        """Read N more positions; logits (B, V) at the last of them.

        Raises:
            ConfigError: they are none, of another number of rows than before, or do not fit into the length any more.
        """
        if self.n_rows not in (None, len(tokens_BN)):
            raise ConfigError(f"{len(tokens_BN)} rows to read on, and this decoder has read {self.n_rows} so far.")
        with mode(self.model, training=False):
            x_BND = read_on(self.model, tokens_BN, self.caches)
            self.n_rows = len(tokens_BN)
            return self.model.unembed(x_BND[:, -1])

    def cache_bytes(self) -> int:
        """Memory that the mixers' caches take, all blocks together; 0 before the first position is read."""
        return sum(cache.n_bytes for cache in self.caches)
