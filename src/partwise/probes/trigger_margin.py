"""Which feed-forward answers a trigger with noise, whatever the context."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from partwise.batch import Batch
from partwise.model import Transformer
from partwise.probes import PROBES
from partwise.rows import Row


@PROBES.register("trigger_margin")
@dataclass(frozen=True, kw_only=True)
class TriggerMargin:
    """How far each feed-forward alone prefers the noise behind a trigger: no attention, no position.

        margin = l[noise] - max over k != noise of l[k],    l = unembed(FF(embed(trigger)))

    One row a feed-forward, and one for each pair of neighbours, one behind the other. Where a model has norms, FF
    stands behind its own and the unembedding behind the last one. Above zero, the association is learned.

    Args:
        noise: the token.
        triggers: the mean over these.

    Source: the released code of Chen, Bruna, Bietti 2024, arXiv:2406.03068.
    """

    noise: int = 0
    triggers: tuple[int, ...] = (1,)

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not isinstance(model, Transformer) or not isinstance(model.embed, nn.Embedding):
            return
        if max(self.noise, *self.triggers) >= min(model.embed.num_embeddings, model.unembed.out_features):
            return
        stack = [(f"blocks.{at}.channel_mixer", block) for at, block in enumerate(model.blocks)]
        stack = [(name, block) for name, block in stack if block.channel_mixer is not None]
        with torch.no_grad():
            at_T = torch.tensor(self.triggers, device=model.embed.weight.device)
            x_1TD = model.embedded(at_T[None], torch.zeros_like(at_T)) - _position(model)
            found = [self._row(model, name, _fed(block, x_1TD)) for name, block in stack]
            for (first, one), (second, other) in itertools.pairwise(stack):
                found.append(self._row(model, f"{second} of {first}", _fed(other, _fed(one, x_1TD))))
        yield from found

    def _row(self, model: Transformer, where: str, y_1TD: Tensor) -> Row:
        logits_TV = model.unembed(model.final_norm(y_1TD))[0].double()
        others_TV = logits_TV.clone()
        others_TV[:, self.noise] = float("-inf")
        margin_T = logits_TV[:, self.noise] - others_TV.max(-1).values
        return Row(where=where, quantity="noise_margin", value=margin_T.mean().item(), unit="nat", n=len(margin_T))


def _fed(block: Any, x_1TD: Tensor) -> Tensor:
    return block.channel_mixer(block.norm_2(x_1TD))


def _position(model: Transformer) -> Tensor | float:
    """What the position 0 adds to an embedding, to be taken away again."""
    return model.positions.weight[0] if model.config.positions == "learned" else 0.0
