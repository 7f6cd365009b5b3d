"""Does a model say noise where noise stands?"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import IGNORE, Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row


@PROBES.register("noise_confusion")
@dataclass(frozen=True, kw_only=True)
class NoiseConfusion:
    """The table of what stands at scored positions and what is said there, noise or not: four shares that sum to one.

        said.noise.is.noise, said.noise.is.other, said.other.is.noise, said.other.is.other

    Noise that hangs on nothing cannot be foreseen: then what is said does not depend on what stands there.

    Args:
        noise: the token.

    Source: the released code of Chen, Bruna, Bietti 2024, arXiv:2406.03068.
    """

    noise: int = 0

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if batch.targets_BL.is_floating_point():
            return
        read_BQ, targets_BQ = batch.read()
        scored_BQ = targets_BQ != IGNORE
        with torch.no_grad():
            said_N = predict(model, batch, read_BQ).argmax(-1)[scored_BQ] == self.noise
        is_N = targets_BQ[scored_BQ] == self.noise
        for said in (True, False):
            for stands in (True, False):
                share = ((said_N == said) & (is_N == stands)).double().mean().item()
                quantity = f"said.{_name(said)}.is.{_name(stands)}"
                yield Row(where="confusion", quantity=quantity, value=share, n=len(is_N))


def _name(noise: bool) -> str:
    return "noise" if noise else "other"
