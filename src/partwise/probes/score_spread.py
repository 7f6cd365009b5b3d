"""How sharp a softmax starts out: the spread of the attention logits."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, record


@PROBES.register("score_spread")
@dataclass(frozen=True, kw_only=True)
class ScoreSpread:
    """Standard deviation of the attention logits over all pairs of positions; about 1 at step 0 with the lab's init.

        sd(q k' / sqrt(K)) over examples, heads, positions and sources in use

    Nothing is yielded for a mixer that has no scores (random mixing). Source: the reviewers' question on the scale of
    frozen queries and keys (mixit.md 1.3, 7).
    """

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not has_tap(model, "scores"):
            return
        with record(model, "scores") as seen, torch.no_grad():
            predict(model, batch)
        for address, scores_BHLS in seen.items():
            used_BLS = batch.used_BL[:, :, None] & batch.used_BL[:, None, :]
            scores = scores_BHLS.expand(len(batch), -1, -1, -1).permute(0, 2, 3, 1)[used_BLS].float()
            yield Row(where=address, quantity="score_spread", value=scores.std().item(), n=scores.numel())
