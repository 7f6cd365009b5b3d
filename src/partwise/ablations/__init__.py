"""Edits of a trained model's weights, one file each: what does it do without them?

An ablation's `edited(weight, generator=...)` gives what stands in a weight's place; `ablated(model, ablation)` puts it
there for the time of a `with`, and puts every bit back on leaving, also after an exception. Its `pattern` names weights
as a learn rule does. A matrix is (out, in); its components are those of its exact singular value decomposition, in
float64, the largest first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from partwise.errors import ConfigError
from partwise.parts import select
from partwise.registry import Registry
from partwise.seeds import generator_for


@runtime_checkable
class Ablation(Protocol):
    """The config of an edit: a frozen dataclass."""

    @property
    def pattern(self) -> str: ...

    @property
    def label(self) -> str:
        """What a table calls the model under it."""
        ...

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor: ...


ABLATIONS = Registry("ablation", package=__name__)


@contextmanager
def ablated(model: nn.Module, *ablations: Ablation, seed: int = 0) -> Iterator[list[str]]:
    """The model under some edits, one after another; afterwards it has the bits that it had.

    Args:
        model: any.
        ablations: where two of them name one weight, the later one edits what the earlier one left.
        seed: of edits that draw; each weight has a generator of its own.

    Yields:
        The names of the weights that are edited.

    Raises:
        UnknownAddress: a pattern names no weight of this model.
    """
    named = dict(model.named_parameters())
    chosen = [(ablation, sorted(select(model, (ablation.pattern,)))) for ablation in ablations]
    before = {name: named[name].detach().clone() for _, names in chosen for name in names}
    try:
        with torch.no_grad():
            for ablation, names in chosen:
                for name in names:
                    generator = generator_for(seed, f"ablation/{name}")
                    named[name].copy_(ablation.edited(named[name].detach(), generator=generator))
        yield sorted(before)
    finally:
        with torch.no_grad():
            for name, weight in before.items():
                named[name].copy_(weight)


def decomposed(weight_OI: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """U (O, R), singular values (R,) and V (R, I) of a matrix, exact, in float64 on the CPU; R is the smaller side."""
    return torch.linalg.svd(weight_OI.detach().double().cpu(), full_matrices=False)


def composed(u_OR: Tensor, s_R: Tensor, v_RI: Tensor, like: Tensor) -> Tensor:
    """U diag(s) V, in the type and on the device of `like`."""
    return ((u_OR * s_R) @ v_RI).to(like)


def rank_of(weight_OI: Tensor, *, rank: int | None, share: float) -> int:
    """How many components are meant: `rank`, at most all, or int(share * all)."""
    largest = min(weight_OI.shape)
    return min(rank, largest) if rank is not None else int(share * largest)


@dataclass(frozen=True, kw_only=True)
class OfRank:
    """What the edits share that are told a number of components: `edited_matrix` is their own. Vectors stay.

    Args:
        pattern: which weights.
        rank: r; None takes the share.
        share: r = int(share * the smaller side of the matrix).
    """

    word: ClassVar[str]  # in a table

    pattern: str = "blocks.*.channel_mixer"
    rank: int | None = None
    share: float = 0.1

    def __post_init__(self) -> None:
        if self.rank is not None and self.rank < 0:
            raise ConfigError(
                f"rank={self.rank}: a number of components from 0 on was expected, or null for the share."
            )
        if not 0 <= self.share <= 1:
            raise ConfigError(f"share={self.share}: a share of the components, from 0 to 1, was expected.")

    @property
    def label(self) -> str:
        how_many = f"rank {self.rank}" if self.rank is not None else f"share {self.share:g}"
        return f"{self.pattern} {self.word} {how_many}"

    def edited(self, weight: Tensor, *, generator: torch.Generator) -> Tensor:
        if weight.ndim < 2:
            return weight
        return self.edited_matrix(weight, rank_of(weight, rank=self.rank, share=self.share), generator)

    def edited_matrix(self, weight: Tensor, rank: int, generator: torch.Generator) -> Tensor:
        raise NotImplementedError
