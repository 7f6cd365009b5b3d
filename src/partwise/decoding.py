"""A model that reads on, position by position, from what it keeps of those before."""

import torch
from torch import Tensor

from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.model import Transformer

PIECE = 256  # positions a pass of a long prompt; its scores take memory by piece x prompt


class Decoder:
    """A causal model and what its mixers keep: turned keys and values of attention, values of random mixing.

        decoder = Decoder(model)
        logits_BV = decoder.read(prompt_BL)                                 # what comes after the prompt
        logits_BV = decoder.read(logits_BV.argmax(-1, keepdim=True))        # and after that

    The logits are those of the model's own forward pass on all that was read, up to rounding. All rows are of one
    length, and no gradient is kept.

    Args:
        model: a causal Transformer.
        length: the most positions that it will read; None means as many as the model can.

    Raises:
        ConfigError: the model is two-way: what comes next would change what was read.
    """

    def __init__(self, model: Transformer, length: int | None = None):
        if model.config.two_way:
            raise ConfigError("a two-way model cannot be decoded: what comes next would change what came before.")
        self.model = model
        self.length = model.shape.length if length is None else min(length, model.shape.length)
        self.caches = [Cache(self.length) for _ in model.blocks]
        self.seen = 0

    @torch.no_grad()
    def read(self, tokens_BN: Tensor) -> Tensor:
        """Read N more positions; logits (B, V) at the last of them.

        Raises:
            ConfigError: they do not fit into the length any more.
        """
        if self.seen + tokens_BN.shape[1] > self.length:
            raise ConfigError(f"{tokens_BN.shape[1]} more positions after {self.seen}: {self.length} is the most.")
        for piece_BN in tokens_BN.split(PIECE, dim=1):
            at_N = torch.arange(self.seen, self.seen + piece_BN.shape[1], device=piece_BN.device)
            x_BND = self.model.embedded(piece_BN, at_N)
            for block, cache in zip(self.model.blocks, self.caches, strict=True):
                x_BND = block(x_BND, None, cache=cache)
                cache.seen += piece_BN.shape[1]
            self.seen += piece_BN.shape[1]
        return self.model.unembed(self.model.final_norm(x_BND[:, -1]))

    def cache_bytes(self) -> int:
        """Memory that the mixers' caches take, all blocks together; 0 before the first position is read."""
        return sum(cache.n_bytes for cache in self.caches)
