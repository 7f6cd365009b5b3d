"""Which part gets a clean gradient, and which one is pushed about by single examples."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from partwise.addresses import matches
from partwise.batch import Batch
from partwise.evaluation import loss_sum, predict
from partwise.probes import PROBES
from partwise.rows import Row

PARTS = {  # of the lab's models, by their addresses; the first that fits
    "query and key": ("blocks.*.token_mixer.query", "blocks.*.token_mixer.key"),
    "value and out": ("blocks.*.token_mixer",),
    "feed-forward": ("blocks.*.channel_mixer",),
    "embedding": ("embed", "positions"),
    "head": ("unembed",),
    "norms": ("**.norm_1", "**.norm_2", "final_norm"),
}
PIECE = 16  # examples whose gradients are held at once


@PROBES.register("gradient_noise")
@dataclass(frozen=True, kw_only=True)
class GradientNoise:
    """Mean and spread of the gradient of single examples, part by part, with g_i the gradient of example i:

        gradient_norm    |mean g|
        variance         tr S = (sum |g_i - mean g|^2) / (n - 1), what one example's gradient varies by
        signal_to_noise  |mean g| / sqrt(tr S); about n^-1/2 where there is no signal at all
        noise_scale      tr S / |G|^2 in examples, with |G|^2 = |mean g|^2 - tr S / n, free of bias; left out where that
                         is not above zero: then n examples do not show the direction
        half_cosine      cosine between the mean over the first half of the examples and that over the second

    The mean of all g_i is the gradient of the batch's mean loss. Parts are query and key, value and out (all else that
    mixes positions), feed-forward, embedding, head and norms; a module of one's own has its top-level children. A part
    learns or not; its gradient is there all the same. Shown are examples as training has them.

    Source: the noise scale, McCandlish, Kaplan, Amodei et al. 2018, arXiv:1812.06162, appendix A.
    """

    examples: ClassVar[str] = "train"

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        n, parts = len(batch), _parts(model)
        if n < 4:
            return
        n -= n % 2
        per_example = _gradients(model, batch.rows(0, n))
        sums = {part: _Sums() for part in parts}
        for at in range(0, n, PIECE):
            gradients = per_example(torch.arange(at, min(at + PIECE, n), device=batch.tokens_BL.device))
            for part, names in parts.items():
                sums[part].add(torch.cat([gradients[name].flatten(1) for name in names], 1), at, n)
        for part, of in sums.items():
            for quantity, value in of.numbers(n).items():
                yield Row(where=part, quantity=quantity, value=value, n=n)


@dataclass
class _Sums:
    """What is kept of the gradients of one part."""

    halves: list[Any] = field(default_factory=lambda: [0.0, 0.0])
    squares: float = 0.0

    def add(self, gradient_NP: Tensor, first: int, n: int) -> None:
        """Example `first` and those behind it, of n."""
        gradient_NP = gradient_NP.double()
        self.squares += gradient_NP.square().sum().item()
        split = min(max(0, n // 2 - first), len(gradient_NP))
        for at, part_MP in enumerate((gradient_NP[:split], gradient_NP[split:])):
            if len(part_MP):
                self.halves[at] = self.halves[at] + part_MP.sum(0)

    def numbers(self, n: int) -> dict[str, float]:
        one_P, other_P = self.halves
        mean_square = ((one_P + other_P) / n).square().sum().item()
        variance = max(0.0, (self.squares - n * mean_square) / (n - 1))
        unbiased = mean_square - variance / n
        found = {"gradient_norm": math.sqrt(mean_square), "gradient_variance": variance}
        if variance > 0:
            found["signal_to_noise"] = math.sqrt(mean_square / variance)
        if unbiased > 0:
            found["noise_scale"] = variance / unbiased
        if one_P.any() and other_P.any():
            found["half_cosine"] = torch.nn.functional.cosine_similarity(one_P, other_P, dim=0).item()
        return found


def _gradients(model: nn.Module, batch: Batch) -> Callable[[Tensor], dict[str, Tensor]]:
    """A function from the numbers of some examples to their gradients, (N, ...) by the parameter's name.

    Example i's loss is its share of the batch's mean loss, times n.
    """
    held = {name: parameter.detach() for name, parameter in model.named_parameters()}
    buffers = {name: buffer.detach() for name, buffer in model.named_buffers()}
    share = len(batch) / max(1, int(batch.scored_BL.sum()))

    def loss(weights: dict[str, Tensor], tokens_L: Tensor, targets_L: Tensor, length: Tensor | None) -> Tensor:
        lengths_B = None if length is None else length[None]
        one = Batch(tokens_BL=tokens_L[None], targets_BL=targets_L[None], lengths_B=lengths_B)
        logits = functional_call(_Predicting(model), {f"model.{k}": v for k, v in (weights | buffers).items()}, (one,))
        return share * loss_sum(logits, targets_L[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0, None if batch.lengths_B is None else 0))

    def some(index_N: Tensor) -> dict[str, Tensor]:
        few = batch.at(index_N)
        return each(held, few.tokens_BL, few.targets_BL, few.lengths_B)

    return some


class _Predicting(nn.Module):
    """Any model, as something that `functional_call` can call."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        return predict(self.model, batch)


def _parts(model: nn.Module) -> dict[str, list[str]]:
    """Names of parameters by part; of a module that has none of the lab's addresses, by its children."""
    names = [name for name, _ in model.named_parameters()]
    found: dict[str, list[str]] = {}
    for name in names:
        fits = [part for part, patterns in PARTS.items() if any(matches(p, name, below=True) for p in patterns)]
        found.setdefault(fits[0] if fits else name.split(".")[0], []).append(name)
    return found
