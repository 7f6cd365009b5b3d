"""Which matrix, and which end of it, holds the noise and which the recall."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from partwise.ablations import Ablation, ablated
from partwise.ablations.keep_bottom import KeepBottom
from partwise.ablations.keep_top import KeepTop
from partwise.ablations.random_truncation import RandomTruncation
from partwise.ablations.remove_component import RemoveComponent
from partwise.ablations.same_norm_noise import SameNormNoise
from partwise.batch import Batch
from partwise.parts import select
from partwise.probes import PROBES
from partwise.probes.recall import recalled
from partwise.rows import Row


@PROBES.register("truncation")
@dataclass(frozen=True, kw_only=True)
class Truncation:
    """What is recalled with one matrix cut down, matrix by matrix: p_correct and p_noise, as in `recall`.

    Each matrix that the pattern names is replaced in turn by its largest components, by its smallest, by all but the
    largest one; and, as controls, by as many components drawn at random, and by itself with noise as large as what the
    first cut takes away. It looks at the trained model alone.

    Args:
        noise: the token that competes with the right one; None leaves p_noise out.
        pattern: of matrices.
        share: of the components that the largest, the random and the noisy cut keep; the smallest keep the rest.
    """

    examples: ClassVar[str] = "clean"
    at_the_end: ClassVar[bool] = True

    noise: int | None = None
    pattern: str = "blocks.*.channel_mixer.down?"
    share: float = 0.1

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        weights = dict(model.named_parameters())
        for name in sorted(select(model, (self.pattern,))):
            if weights[name].ndim == 2:
                for kind, edit in self._edits(name):
                    with ablated(model, edit), torch.no_grad():
                        found = recalled(model, batch, self.noise)
                    for quantity in ("p_correct", "p_noise"):
                        if quantity in found:
                            value_N = found[quantity]
                            where = f"test/truncated={name.removesuffix('.weight')}: {kind}"
                            yield Row(where=where, quantity=quantity, value=value_N.mean().item(), n=len(value_N))

    def _edits(self, name: str) -> list[tuple[str, Ablation]]:
        return [
            ("largest", KeepTop(pattern=name, share=self.share)),
            ("smallest", KeepBottom(pattern=name, share=1 - self.share)),
            ("all but one", RemoveComponent(pattern=name, component=0)),
            ("random", RandomTruncation(pattern=name, share=self.share)),
            ("noisy", SameNormNoise(pattern=name, share=self.share)),
        ]
