"""What a token mixer keeps of the positions before, so that the next ones cost no more than themselves."""

from typing import Any

from torch import Tensor, nn

from partwise import fast


class Cache:
    """One mixer's memory while a model reads on: how many positions it has seen, and tensors that the mixer chose.

    A mixer with `forward_next(x_BND, cache) -> (B, N, D)` decides what stands in it; each tensor's first axis is B.
    Whoever calls adds N to `seen` afterwards.

    Args:
        length: the most positions that will ever be seen; memory for all of them is taken at the first.
    """

    def __init__(self, length: int):
        self.length, self.seen = length, 0
        self.held: dict[str, Tensor] = {}

    def grown(self, name: str, new: Tensor) -> Tensor:
        """Put N more positions behind those held under a name, (..., N, D); all of them, (..., seen + N, D)."""
        if name not in self.held:
            self.held[name] = new.new_empty((*new.shape[:-2], self.length, new.shape[-1]))
        end = self.seen + new.shape[-2]
        self.held[name][..., self.seen : end, :] = new
        return self.held[name][..., :end, :]

    def rows(self, index_R: Tensor) -> "Cache":
        """A cache of its own that has these rows of this one, in this order; a row may be named twice."""
        taken = Cache(self.length)
        taken.seen = self.seen
        taken.held = {name: tensor.index_select(0, index_R) for name, tensor in self.held.items()}
        return taken

    @property
    def n_bytes(self) -> int:
        """Memory that the tensors take."""
        return sum(tensor.nbytes for tensor in self.held.values())


def mixed_next(mixer: nn.Module, x_BND: Tensor, cache: Cache) -> Tensor:
    """The mixer's outputs at the next N positions, (B, N, D).

    One without `forward_next` is given its whole input again, which the cache keeps for it.
    """
    own: Any = mixer
    if fast.offers(mixer, "forward_next"):
        return own.forward_next(x_BND, cache)
    return mixer(cache.grown("input", x_BND), None)[:, cache.seen :]
