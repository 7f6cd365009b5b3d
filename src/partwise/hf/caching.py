"""What a model keeps while `generate` reads on: the lab's caches, for rows that have read unequally many tokens."""

from collections.abc import Iterator

import torch
from torch import Tensor

from partwise.caches import Cache
from partwise.decoding import empty_caches, read_on
from partwise.errors import ConfigError
from partwise.hf.masks import moved_left
from partwise.layers import take
from partwise.model import Transformer


class PartwiseCache:
    """Rows in groups that have read equally many tokens; each group has a cache a block, as any mixer's own.

    So a row is decoded as it would be alone, whatever its padding, and no mixer needs to know of padding. A group costs
    a pass of its own: prompts of n different lengths are read on in n passes a token.

        out = model(prompt, use_cache=True)
        out = model(next_tokens, cache=out.cache)

    It answers what `generate` asks a cache, and beam search reorders it.
    """

    is_compileable = False
    is_croppable = False

    def __init__(self, model: Transformer):
        self._empty = empty_caches(model)
        self._groups: list[tuple[Tensor, list[Cache]]] = []  # the rows of each, and its caches
        self._columns = 0

    @property
    def is_linear(self) -> list[bool]:
        """For each block, whether its cache does not know how much it has seen; all of ours know."""
        return [False] * len(self._empty)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Columns of the input that were read, padding included."""
        return self._columns

    def read(self, model: Transformer, tokens_BN: Tensor, used_BN: Tensor) -> Tensor:
        """Read N more columns, of which a row reads those in use; what the unembedding is given, (B, N, D). At a masked
        column stands what the one before it gives, or anything finite.

        Raises:
            ConfigError: another number of rows than before, or a row gets longer than the model can read.
        """
        if not self._groups:
            self._groups = [(torch.arange(len(tokens_BN), device=tokens_BN.device), self._empty)]
        n_rows = sum(len(rows_G) for rows_G, _ in self._groups)
        if n_rows != len(tokens_BN):
            raise ConfigError(f"{len(tokens_BN)} rows to read on, and this cache is of {n_rows}.")
        self._groups = [part for rows_G, caches in self._groups for part in _by_count(rows_G, caches, used_BN)]
        self._columns += tokens_BN.shape[1]
        weight = model.unembed.weight
        x_BND = torch.zeros(*tokens_BN.shape, weight.shape[1], dtype=weight.dtype, device=weight.device)
        for rows_G, caches in self._groups:
            if bool(used_BN[rows_G].any()):
                batch, place_GN = moved_left(tokens_BN[rows_G], used_BN[rows_G])
                x_BND[rows_G] = take(read_on(model, batch.tokens_BL, caches), place_GN).to(weight.dtype)
        return x_BND

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row i becomes what row beam_idx[i] was; a row may be named twice, or not at all."""
        groups = []
        for rows_G, caches in self._groups:
            found_NG = beam_idx[:, None] == rows_G
            rows_N = found_NG.any(-1).nonzero()[:, 0]
            if len(rows_N):
                from_N = found_NG[rows_N].to(torch.int8).argmax(-1)
                groups.append((rows_N, [cache.rows(from_N) for cache in caches]))
        self._groups = groups

    batch_select_indices = reorder_cache


def _by_count(rows_G: Tensor, caches: list[Cache], used_BN: Tensor) -> Iterator[tuple[Tensor, list[Cache]]]:
    """The group, split by how many of the new columns its rows read."""
    count_G = used_BN[rows_G].sum(-1)
    counts = count_G.unique()
    for count in counts:
        at_R = (count_G == count).nonzero()[:, 0]
        yield rows_G[at_R], caches if len(counts) == 1 else [cache.rows(at_R) for cache in caches]
