"""How widely each output position reads."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, record


@PROBES.register("mix_entropy")
@dataclass(frozen=True, kw_only=True)
class MixEntropy:
    """How many positions each output reads from, in bits; log2(L) at most.

        -sum_s p_s log2 p_s,    p = |mix| / sum |mix| over the sources, averaged over examples, heads, positions in use

    The absolute value makes it apply to mixers whose weights may be negative. Nothing is yielded where no mixer has a
    matrix. Source: ours.
    """

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not has_tap(model, "mix"):
            return
        with record(model, "mix") as seen, torch.no_grad():
            predict(model, batch)
        for address, mix_BHLS in seen.items():
            size_BHLS = mix_BHLS.float().abs()
            share_BHLS = size_BHLS / size_BHLS.sum(-1, keepdim=True).clamp_min(1e-12)
            bits = -(share_BHLS * share_BHLS.clamp_min(1e-12).log2()).sum(-1)
            if batch.lengths_B is not None:
                bits = bits.expand(len(batch), -1, -1).transpose(1, 2)[batch.used_BL]
            yield Row(where=address, quantity="mix_entropy", value=bits.mean().item(), unit="bit", n=bits.numel())
