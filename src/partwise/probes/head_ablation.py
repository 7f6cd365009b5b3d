"""What a model loses without one of its heads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.circuits import Mixing, in_context, knocked_out, mixings, shortened
from partwise.errors import ConfigError
from partwise.evaluation import score
from partwise.probes import PROBES
from partwise.rows import Row

Heads = Sequence[tuple[str, int]]


@PROBES.register("head_ablation")
@dataclass(frozen=True, kw_only=True)
class HeadAblation:
    """How far the score falls without a head: `.zero`, nothing stands in its place; `.mean`, what it writes on average.

        score of the whole model - score without the head        (accuracy; `.loss` is how far the loss rises, nats)

    The mean is taken over the examples, position by position. Where the task scores places enough, `.in_context` is how
    far the gain from context falls. With real targets the score is the squared error, and a row says how far it rises.

    Where the task marks what is to be read, and some heads read it, heads are also taken out by groups: all that read
    it (`.retrieving`), all others that read its key from there (`.reading_key`), all that do neither (`.rest`).

    Args:
        reads: mean |mix| onto a place, from which on a head counts as reading it.

    Source: mixit.md 5.
    """

    reads: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.reads <= 1:
            raise ConfigError(f"reads is {self.reads}: a share above 0, at most 1, was expected.")

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        found = mixings(model, shortened(batch))
        whole = _Scores.of(model, batch)
        for mixing in found:
            for head in range(mixing.n_heads):
                yield from _fallen(model, batch, whole, [(mixing.address, head)], f"{mixing.address}.{head}", "")
        groups = self._groups(found, shortened(batch))
        for name, heads in groups.items():
            yield Row(where="model", quantity=f"head_ablation.{name}.heads", value=len(heads), unit="head")
            if heads and groups["retrieving"]:
                yield from _fallen(model, batch, whole, heads, "model", f".{name}")

    def _groups(self, found: Sequence[Mixing], batch: Batch) -> dict[str, Heads]:
        """The heads that retrieve, those that read the key, and all others."""
        answer, source, key = (batch.marks.get(name) for name in ("answer", "source", "key"))
        if not found or answer is None or source is None:
            return {}
        groups: dict[str, list[tuple[str, int]]] = {"retrieving": [], "reading_key": [], "rest": []}
        for mixing in found:
            nothing_H = torch.zeros(mixing.n_heads)
            retrieves_H = mixing.reading(answer, source) if mixing.sees_input else nothing_H
            reads_key_H = nothing_H if key is None or not mixing.sees_input else mixing.reading(source, key)
            for head in range(mixing.n_heads):
                name = "reading_key" if reads_key_H[head] >= self.reads else "rest"
                name = "retrieving" if retrieves_H[head] >= self.reads else name
                groups[name].append((mixing.address, head))
        return {name: heads for name, heads in groups.items() if name != "reading_key" or key is not None}


@dataclass(frozen=True, kw_only=True)
class _Scores:
    score: float  # the share that is right, or the squared error
    loss: float
    in_context: float | None
    n: int

    @classmethod
    def of(cls, model: nn.Module, batch: Batch) -> "_Scores":
        scored, context = score(model, batch), in_context(model, batch)
        n = int(scored.scored.sum())
        value = (scored.hits.double() * scored.scored).sum().item() / max(1, n)
        return cls(score=value, loss=scored.loss, in_context=None if context is None else context.gain, n=n)


def _fallen(model: nn.Module, batch: Batch, whole: _Scores, heads: Heads, where: str, which: str) -> Iterator[Row]:
    """Both ways to take the heads out."""
    real = batch.targets_BL.is_floating_point()
    for how, mean_over in (("zero", None), ("mean", batch)):
        with knocked_out(model, heads, mean_over=mean_over):
            left = _Scores.of(model, batch)
        name = f"head_ablation.{how}{which}"
        fall = left.score - whole.score if real else whole.score - left.score
        yield Row(where=where, quantity=name, value=fall, n=whole.n)
        if not real:
            yield Row(where=where, quantity=f"{name}.loss", value=left.loss - whole.loss, unit="nat", n=whole.n)
        if whole.in_context is not None and left.in_context is not None:
            fall = whole.in_context - left.in_context
            yield Row(where=where, quantity=f"{name}.in_context", value=fall, unit="nat", n=whole.n)
