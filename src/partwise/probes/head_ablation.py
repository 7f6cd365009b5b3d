"""What a model loses without one of its heads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    far the gain from context falls. Where the task marks what is to be read, also all heads that read it at once
    (`.retrieving`), and all others of the same blocks at once (`.beside`). With real targets the score is the squared
    error, and the row says how far it rises.

    Args:
        retrieving: |mix| from the answering position to its source, from which on a head counts as retrieving.

    Source: mixit.md 5.
    """

    retrieving: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.retrieving <= 1:
            raise ConfigError(f"retrieving is {self.retrieving}: a share above 0, at most 1, was expected.")

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        found = mixings(model, shortened(batch))
        whole = _Scores.of(model, batch)
        for mixing in found:
            for head in range(mixing.n_heads):
                yield from _fallen(model, batch, whole, [(mixing.address, head)], f"{mixing.address}.{head}", "")
        retrieving, beside = self._groups(found, shortened(batch))
        if retrieving:
            yield from _fallen(model, batch, whole, retrieving, "model", ".retrieving")
            yield Row(where="model", quantity="head_ablation.retrieving.heads", value=len(retrieving), unit="head")
        if retrieving and beside:
            yield from _fallen(model, batch, whole, beside, "model", ".beside")

    def _groups(self, found: Sequence[Mixing], batch: Batch) -> tuple[Heads, Heads]:
        """The heads that retrieve, and the others of their blocks."""
        answer, source = batch.marks.get("answer"), batch.marks.get("source")
        retrieving: list[tuple[str, int]] = []
        beside: list[tuple[str, int]] = []
        for mixing in found if answer is not None and source is not None else ():
            score_H = mixing.reading(answer, source).tolist()
            reads_H = [mixing.sees_input and value >= self.retrieving for value in score_H]
            retrieving += [(mixing.address, head) for head, reads in enumerate(reads_H) if reads]
            beside += [(mixing.address, head) for head, reads in enumerate(reads_H) if any(reads_H) and not reads]
        return retrieving, beside


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
