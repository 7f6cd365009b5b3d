"""What a model recalls where an association of the whole distribution would be as likely, whole and without parts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from partwise.ablations import ABLATIONS, Ablation, ablated
from partwise.batch import IGNORE, Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row

WHOLE = "whole"  # what a table calls the model without an edit


@PROBES.register("recall")
@dataclass(frozen=True, kw_only=True)
class Recall:
    """Probability of the right token and of the noise at scored positions, and the log-odds between the two.

        p_correct = mean p(right),    p_noise = mean p(noise),    log_odds = mean [log p(right) - log p(noise)]

    With accuracy and loss. Where the task can draw them (`clean`), it is shown examples without noise: there the right
    token is noise only where the example's own token is. Each edit is made, measured and put back; its rows stand
    under its label.

    Args:
        noise: the token that competes with the right one; None leaves its numbers out.
        edits: to measure under, one at a time.
        coin: leave the whole model's accuracy out: where noise is half of what follows, its best answer is a tie.

    Source: the metrics of Chen, Bruna, Bietti 2024, arXiv:2406.03068; the log-odds are ours.
    """

    examples: ClassVar[str] = "clean"

    noise: int | None = None
    edits: tuple[Annotated[Ablation, ABLATIONS], ...] = ()
    coin: bool = False

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        yield from self._under(model, batch, WHOLE)
        for edit in self.edits:
            with ablated(model, edit):
                found = list(self._under(model, batch, edit.label))
            yield from found  # the model is whole again, whatever the reader does now

    def _under(self, model: nn.Module, batch: Batch, label: str) -> Iterator[Row]:
        with torch.no_grad():
            found = recalled(model, batch, self.noise)
        if label == WHOLE and self.coin:
            found.pop("clean_accuracy", None)
        for quantity, value_N in found.items():
            unit = "nat" if quantity in ("clean_loss", "log_odds") else ""
            where = f"test/under={label}"
            yield Row(where=where, quantity=quantity, value=value_N.mean().item(), unit=unit, n=len(value_N))


def recalled(model: nn.Module, batch: Batch, noise: int | None) -> dict[str, Tensor]:
    """Each number at each scored position, float64 (N,); nothing where targets are real numbers. The log-odds are where
    the right token is not the noise."""
    if batch.targets_BL.is_floating_point():
        return {}
    read_BQ, targets_BQ = batch.read()
    said_BQV = predict(model, batch, read_BQ).double().log_softmax(-1)
    said_NV, right_N = said_BQV[targets_BQ != IGNORE], targets_BQ[targets_BQ != IGNORE]
    right_logp_N = said_NV.gather(1, right_N[:, None])[:, 0]
    found = {
        "p_correct": right_logp_N.exp(),
        "clean_loss": -right_logp_N,
        "clean_accuracy": (said_NV.argmax(-1) == right_N).double(),
    }
    if noise is not None:
        found["p_noise"] = said_NV[:, noise].exp()
        found["log_odds"] = (right_logp_N - said_NV[:, noise])[right_N != noise]
    return found
