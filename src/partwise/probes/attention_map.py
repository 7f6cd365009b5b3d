"""What one example looks like to every head."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import mode, predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, record


@PROBES.register("attention_map")
@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The mix of every head on one example, sign and all: a row an entry, at `blocks.0.token_mixer.mix.1[4, 3]`.

    Position 4 reads position 3. For figures (`partwise probe RUN --probe attention_map`); a record would grow by
    thousands of rows.

    Args:
        length: positions at most. The example is the first that has that many, or else the longest.

    Source: figure 3 of Dong, Noci, Khodak, Li 2025, arXiv:2506.01115.
    """

    length: int = 32

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not has_tap(model, "mix"):
            return
        used_B = batch.used_BL.sum(-1).clamp_max(self.length)
        chosen = int(used_B.argmax())
        n = int(used_B[chosen])
        one = dataclasses.replace(batch.rows(chosen, chosen + 1), lengths_B=used_B.new_tensor([n]))
        with record(model, "mix") as seen, torch.no_grad(), mode(model, training=False):
            predict(model, one)
        for address, mix_BHLS in seen.items():
            for head, mix_LS in enumerate(mix_BHLS[0, :, :n, :n].float().tolist()):
                for i, mix_S in enumerate(mix_LS):
                    for j, value in enumerate(mix_S):
                        yield Row(where=f"{address}.{head}[{i}, {j}]", quantity="attention_map", value=value)
