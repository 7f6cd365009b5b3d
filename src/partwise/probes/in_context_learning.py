"""What more context is worth."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from partwise.batch import Batch
from partwise.circuits import InContext, in_context, in_context_repeated
from partwise.probes import PROBES
from partwise.rows import Row


@PROBES.register("in_context_learning")
@dataclass(frozen=True, kw_only=True)
class InContextLearning:
    """How much lower the loss is late in a context than early; above 0 where a model learns in context, nats.

        loss on the second tenth of an example's scored places - loss on the last tenth

    Over the examples that have the most scored places. Nothing is yielded for a task that scores fewer than four places
    of an example, or real numbers. A model that names the next token is also shown random tokens twice:
    `.repeated` is the loss on the first copy minus that on the second.

    Args:
        block: random tokens that are repeated, or as many as fit.

    Source: Olsson et al. 2022, arXiv:2209.11895, who take the 50th and the 500th of 512 tokens, with the other sign.
    """

    block: int = 50

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        yield from _rows("in_context_learning", in_context(model, batch))
        yield from _rows("in_context_learning.repeated", in_context_repeated(model, batch, block=self.block))


def _rows(quantity: str, found: InContext | None) -> Iterator[Row]:
    if found is not None:
        yield Row(where="model", quantity=quantity, value=found.gain, unit="nat", n=found.n)
        yield Row(where="model", quantity=f"{quantity}.early", value=found.early, unit="nat", n=found.n)
        yield Row(where="model", quantity=f"{quantity}.late", value=found.late, unit="nat", n=found.n)
