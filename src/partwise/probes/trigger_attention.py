"""What attention reads from a trigger: the token that followed it before, or the noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, record


@PROBES.register("trigger_attention")
@dataclass(frozen=True, kw_only=True)
class TriggerAttention:
    """Share of |mix|, from scored positions, that lies behind earlier places of the same token: on noise, on all else.

        on_noise + on_own <= 1,    each the mean over examples, heads and scored positions

    `if_even` is what a mixer that reads all positions so far alike would give. Shown noisy examples: without noise in
    the context there is none to read.

    Args:
        noise: the token.

    Source: Chen, Bruna, Bietti 2024, arXiv:2406.03068.
    """

    noise: int = 0

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not has_tap(model, "mix") or batch.tokens_BL.is_floating_point():
            return
        tokens_BL = batch.tokens_BL
        asks_BL = batch.scored_BL
        before_BL = torch.cat((torch.full_like(tokens_BL[:, :1], -1), tokens_BL[:, :-1]), dim=1)
        length = tokens_BL.shape[1]
        seen_LS = torch.ones(length, length, dtype=torch.bool, device=tokens_BL.device).tril()
        same_BLS = asks_BL[..., None] & (tokens_BL[..., None] == before_BL[:, None]) & seen_LS
        is_noise_B1S = (tokens_BL == self.noise)[:, None]
        with record(model, "mix") as seen, torch.no_grad():
            predict(model, batch)
        for address, mix_BHLS in seen.items():
            size_BHLS = mix_BHLS.float().abs().expand(len(batch), -1, -1, -1)
            share_BLS = (size_BHLS / size_BHLS.sum(-1, keepdim=True).clamp_min(1e-12)).mean(1)
            even_BLS = (seen_LS / seen_LS.sum(-1, keepdim=True)).expand_as(share_BLS)
            for name, here_BLS in (("on_noise", same_BLS & is_noise_B1S), ("on_own", same_BLS & ~is_noise_B1S)):
                for suffix, of_BLS in (("", share_BLS), (".if_even", even_BLS)):
                    value_N = (of_BLS * here_BLS).sum(-1)[asks_BL]
                    quantity = f"trigger_attention.{name}{suffix}"
                    yield Row(where=address, quantity=quantity, value=value_N.mean().item(), n=len(value_N))
