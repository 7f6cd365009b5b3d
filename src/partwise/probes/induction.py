"""Which heads go back to where the current token stood before, and read what followed."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.batch import Batch
from partwise.circuits import bare, mixings, repeated, shortened, uniform_BL, vocabulary
from partwise.evaluation import mode
from partwise.model import Transformer
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import rewrite


@PROBES.register("induction")
@dataclass(frozen=True, kw_only=True)
class Induction:
    """Induction heads, head by head: on the task's own examples, and on random tokens that repeat.

        .retrieval          |mix| from the position that answers to the one that holds the answer (marks of the task)
        .reads_key          |mix| from there to the key it belongs to: the task's own previous-token score
        .repeated           |mix| at offset 1 - S in the second copy of a block of S random tokens
        .prefix_matching    |mix| onto all tokens that followed an earlier copy of the current one, in four copies
        .copying            a head reads a token: share of the other tokens whose logit that raises less than its own

    Each is 1 for a perfect head; copying is .5 by chance. `.retrieval.uniform` and `.repeated.uniform` are the score of
    a head that reads all alike. Where the mix does not see the input, scores are constants and end in `.input_free`.
    Random tokens are ids that occur in the batch; a block's differ, if there are enough.

    Args:
        block: S of `.repeated`, or as many as fit twice.
        prefix_block: of `.prefix_matching`, or as many as fit four times.

    Source: Olsson et al. 2022, arXiv:2209.11895; mixit.md 5. Copying is a rank here, and a ratio of logits there.
    """

    block: int = 50
    prefix_block: int = 25

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        yield from _in_task(model, shortened(batch))
        yield from self._repeated(model, batch)
        yield from self._prefix_matching(model, batch)
        yield from _copying(model, batch)

    def _repeated(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        tokens_BL = repeated(model, batch, block=self.block, copies=2)
        if tokens_BL is None:
            return
        size = tokens_BL.shape[1] // 2
        found = mixings(model, bare(tokens_BL))
        for mixing in found:
            score_BHS = mixing.size_BHLS.diagonal(1 - size, dim1=-2, dim2=-1)[..., 1:]  # rows size ... 2 size - 1
            yield from mixing.rows("induction.repeated", score_BHS.mean((0, 2)), n=len(tokens_BL) * size)
        if found:
            chance = uniform_BL(model, bare(tokens_BL))[:, size:].mean().item()
            yield Row(where="model", quantity="induction.repeated.uniform", value=chance, n=size)

    def _prefix_matching(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        tokens_BL = repeated(model, batch, block=self.prefix_block, copies=4)
        if tokens_BL is None:
            return
        size = tokens_BL.shape[1] // 4
        wanted_LS = sum(_offset(4 * size, copy * size - 1) for copy in (1, 2, 3))
        wanted_LS = wanted_LS * (torch.arange(4 * size) >= size)[:, None]
        for mixing in mixings(model, bare(tokens_BL)):
            score_BHL = (mixing.size_BHLS * wanted_LS.to(mixing.size_BHLS)).sum(-1)[..., size:]
            n = score_BHL.shape[0] * score_BHL.shape[2]
            yield from mixing.rows("induction.prefix_matching", score_BHL.mean((0, 2)), n=n)


def _offset(length: int, back: int) -> Tensor:
    """1 where a source stands `back` positions before its reader, (L, S)."""
    return torch.ones(length - back).diag(-back)


def _in_task(model: nn.Module, batch: Batch) -> Iterator[Row]:
    """What the task's own marks ask for."""
    answer, source, key = (batch.marks.get(name) for name in ("answer", "source", "key"))
    found = mixings(model, batch)
    if answer is None or source is None or not found:
        return
    for mixing in found:
        yield from mixing.rows("induction.retrieval", mixing.reading(answer, source), n=answer.numel())
        if key is not None:
            yield from mixing.rows("induction.reads_key", mixing.reading(source, key), n=source.numel())
    chance = uniform_BL(model, batch).gather(1, answer.view(len(batch), -1)).mean().item()
    yield Row(where="model", quantity="induction.retrieval.uniform", value=chance, n=answer.numel())


@torch.no_grad()
def _copying(model: nn.Module, batch: Batch) -> Iterator[Row]:
    """Each head made to read one token at a time; what that does to the logits directly, past all later blocks."""
    tokens_BL = repeated(model, batch, block=25, copies=1)
    if not isinstance(model, Transformer) or model.shape.output_width != model.shape.vocabulary or tokens_BL is None:
        return
    known_V = vocabulary(batch)
    with mode(model, training=False):
        sees_input = {mixing.address: mixing.sees_input for mixing in mixings(model, bare(tokens_BL))}
        x_BLD = model.embedded(tokens_BL, torch.arange(tokens_BL.shape[1], device=tokens_BL.device))
        for layer, block in enumerate(model.blocks):
            address = f"blocks.{layer}.token_mixer.mix"
            if address in sees_input and x_BLD.shape[-1] == model.unembed.in_features:
                written_HBLD = _written(model, address, block.token_mixer, block.norm_1(x_BLD))
                # A norm's scale is positive, so the norm of what a head writes has the order of its effect on logits.
                raised_HBLV = model.unembed(model.final_norm(written_HBLD))[..., known_V]
                raised_HBLV = raised_HBLV - model.unembed(model.final_norm(torch.zeros_like(x_BLD[0, 0])))[known_V]
                own_BL = torch.searchsorted(known_V, tokens_BL)
                own_HBL1 = raised_HBLV.gather(-1, own_BL[None, ..., None].expand(len(raised_HBLV), -1, -1, -1))
                less_HBL = ((raised_HBLV < own_HBL1) + 0.5 * (raised_HBLV == own_HBL1)).sum(-1) - 0.5
                value_H = (less_HBL / max(1, len(known_V) - 1)).mean((1, 2))
                for head, value in enumerate(value_H.tolist()):
                    yield Row(where=f"{address}.{head}", quantity="induction.copying", value=value, n=own_BL.numel())
            x_BLD = block(x_BLD, None)


def _written(model: nn.Module, address: str, mixer: nn.Module, x_BLD: Tensor) -> Tensor:
    """What each head writes where it reads the position itself and nothing else, (H, B, L, D)."""
    n_heads = 0

    def only(head: int | None):
        def edit(mix_BHLS: Tensor) -> Tensor:
            nonlocal n_heads
            n_heads = mix_BHLS.shape[1]
            edited_BHLS = torch.zeros_like(mix_BHLS)
            if head is not None:
                edited_BHLS[:, head] = torch.eye(*mix_BHLS.shape[-2:], device=mix_BHLS.device, dtype=mix_BHLS.dtype)
            return edited_BHLS

        return edit

    def written(head: int | None) -> Tensor:
        with rewrite(model, address, only(head)):
            return mixer(x_BLD, None)

    nothing_BLD = written(None)
    return torch.stack([written(head) - nothing_BLD for head in range(n_heads)])
