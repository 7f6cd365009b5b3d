"""What probes of circuits are made of: heads one by one, repeated random tokens, early and late loss, heads taken out.

A head's address is that of its mix tap and its number: `blocks.1.token_mixer.mix.2`.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partwise.batch import IGNORE, Batch
from partwise.evaluation import mode, predict
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.taps import has_tap, record, rewrite

INPUT_FREE = ".input_free"  # ends the quantity of a mixer that does not look at its input: its score is a constant
MOST = 2**22  # entries of a head's mix over a batch; more are not needed for a mean
SEQUENCES = 32  # of random tokens
FEWEST_PLACES = 4  # scored ones, from which on there is an early and a late loss


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """How one mixer mixes a batch: the sizes |mix|, (B, H, L, S), and whether they depend on the tokens at all."""

    address: str
    size_BHLS: Tensor
    sees_input: bool

    @property
    def n_heads(self) -> int:
        return self.size_BHLS.shape[1]

    def reading(self, reader: Tensor, source: Tensor) -> Tensor:
        """Mean |mix| from readers to sources, both marks of the batch, (B,) or (B, N); a number a head, (H,)."""
        row = torch.arange(len(reader), device=reader.device).view(-1, *[1] * (reader.ndim - 1))
        return self.size_BHLS[row, :, reader, source].flatten(0, -2).mean(0)

    def rows(self, quantity: str, value_H: Tensor, *, n: int) -> Iterator[Row]:
        """A row a head. A mixer that is input-free says so in the quantity's name: nothing was looked for there."""
        name = quantity if self.sees_input else quantity + INPUT_FREE
        for head, value in enumerate(value_H.tolist()):
            yield Row(where=f"{self.address}.{head}", quantity=name, value=value, n=n)


def shortened(batch: Batch) -> Batch:
    """As many examples as a mean over pairs of positions needs."""
    return batch.rows(0, max(8, MOST // batch.tokens_BL.shape[1] ** 2))


@torch.no_grad()
def mixings(model: nn.Module, batch: Batch) -> list[Mixing]:
    """Every mixer's, in the order of the blocks; none for a model without mix taps.

    A mixer is input-free if it has no scores, and mixes other tokens in the same places bit for bit alike. (Attention
    may learn to go by position alone; that is something it found.)
    """
    if not has_tap(model, "mix"):
        return []
    other = dataclasses.replace(batch, tokens_BL=torch.zeros_like(batch.tokens_BL))
    with mode(model, training=False):
        with record(model, "mix") as seen:
            predict(model, batch)
        with record(model, "mix") as seen_other:
            predict(model, other)
    return [
        Mixing(
            address=address,
            size_BHLS=mix_BHLS.float().abs().expand(len(batch), -1, -1, -1),
            sees_input=has_tap(_mixer(model, address), "scores") or not torch.equal(mix_BHLS, seen_other[address]),
        )
        for address, mix_BHLS in seen.items()
    ]


def bare(tokens_BL: Tensor) -> Batch:
    """Tokens that nothing is asked of."""
    return Batch(tokens_BL=tokens_BL, targets_BL=torch.full_like(tokens_BL, IGNORE))


def vocabulary(batch: Batch) -> Tensor:
    """The ids that occur in the batch, without padding; random tokens are drawn from these, which a model has met."""
    return batch.tokens_BL[batch.used_BL].unique()


def repeated(model: nn.Module, batch: Batch, *, block: int, copies: int) -> Tensor | None:
    """Random tokens, the same block several times over, int64 (SEQUENCES, copies * S).

    S is `block`, or as many as fit the model; the tokens of a block differ where the batch has that many. None where
    two do not fit, or inputs are no ids.
    """
    if batch.tokens_BL.is_floating_point():
        return None
    shape = getattr(model, "shape", None)
    known_V = vocabulary(batch).cpu()
    size = min(block, (batch.tokens_BL.shape[1] if shape is None else shape.length) // copies)
    if size < 2:
        return None
    generator = generator_for(0, f"repeated/{size}/{copies}")
    if len(known_V) >= size:
        which_BS = torch.rand(SEQUENCES, len(known_V), generator=generator).argsort(-1)[:, :size]
    else:
        which_BS = torch.randint(len(known_V), (SEQUENCES, size), generator=generator)
    return known_V[which_BS].repeat(1, copies).to(batch.tokens_BL.device)


def uniform_BL(model: nn.Module, batch: Batch) -> Tensor:
    """What each position gives a source if it reads all that it may see alike, (B, L)."""
    length = batch.tokens_BL.shape[1]
    if not getattr(getattr(model, "config", None), "two_way", False):
        return (1 / torch.arange(1, length + 1, device=batch.tokens_BL.device)).expand(len(batch), -1)
    return (1 / batch.used_BL.sum(-1, keepdim=True)).expand(-1, length)


@dataclass(frozen=True, kw_only=True)
class InContext:
    """Mean loss on early and on late places of a context, nats, over n of each."""

    early: float
    late: float
    n: int

    @property
    def gain(self) -> float:
        """What more context is worth; above 0 where the model learns in context."""
        return self.early - self.late


def in_context(model: nn.Module, batch: Batch) -> InContext | None:
    """Loss on the second tenth of the scored places against that on the last tenth, over examples that have the most.

    None where targets are real numbers, or an example has fewer than FEWEST_PLACES scored places.
    """
    if batch.targets_BL.is_floating_point():
        return None
    scored_BL = batch.scored_BL
    count_B = scored_BL.sum(-1)
    most = int(count_B.max())
    if most < FEWEST_PLACES:
        return None
    loss_BL = losses(model, batch)
    loss_NP = loss_BL[count_B == most][scored_BL[count_B == most]].view(-1, most)
    start = most // 10
    early_N, late_N = loss_NP[:, start : start + max(1, most // 10)], loss_NP[:, -max(1, most // 10) :]
    return InContext(early=early_N.mean().item(), late=late_N.mean().item(), n=early_N.numel())


def in_context_repeated(model: nn.Module, batch: Batch, *, block: int) -> InContext | None:
    """Loss on a random block and on its second copy, for a model that names the next token; None for any other."""
    next_BL = batch.tokens_BL[:, 1:]
    scored_BL = batch.scored_BL[:, :-1]
    if batch.targets_BL.is_floating_point() or not torch.equal(batch.targets_BL[:, :-1][scored_BL], next_BL[scored_BL]):
        return None
    tokens_BL = repeated(model, batch, block=block, copies=2)
    if tokens_BL is None or not scored_BL.any():
        return None
    targets_BL = torch.cat((tokens_BL[:, 1:], torch.full_like(tokens_BL[:, :1], IGNORE)), dim=1)
    loss_BL, size = losses(model, Batch(tokens_BL=tokens_BL, targets_BL=targets_BL)), tokens_BL.shape[1] // 2
    first, second = loss_BL[:, : size - 1], loss_BL[:, size:-1]
    return InContext(early=first.mean().item(), late=second.mean().item(), n=first.numel())


@torch.no_grad()
def losses(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy at each position, (B, L), nats; 0 where nothing is scored."""
    with mode(model, training=False):
        logits_BLV = predict(model, batch)
    return F.cross_entropy(logits_BLV.float().mT, batch.targets_BL, ignore_index=IGNORE, reduction="none")


@contextmanager
def knocked_out(
    model: nn.Module, heads: Sequence[tuple[str, int]], *, mean_over: Batch | None = None
) -> Iterator[None]:
    """The model without some heads, as long as the context lasts.

    Args:
        heads: (address of a mix tap, number of the head).
        mean_over: None puts zero in place of what a head writes. Else its mean over these examples stands there,
            position by position: a constant, which tells no example from another.
    """
    edits: dict[str, list[int]] = {}
    for address, head in heads:
        edits.setdefault(address, []).append(head)
    means = {} if mean_over is None else {at: _mean_written(model, mean_over, at, own) for at, own in edits.items()}
    with ExitStack() as stack:
        for address, own in edits.items():
            stack.enter_context(rewrite(model, address, _without(own)))
        for address, mean_LD in means.items():
            stack.callback(_mixer(model, address).register_forward_hook(_adds(mean_LD)).remove)
        yield


def _without(heads: Sequence[int]) -> Any:
    def edit(mix_BHLS: Tensor) -> Tensor:
        kept_H = torch.ones(mix_BHLS.shape[1], dtype=mix_BHLS.dtype, device=mix_BHLS.device)
        kept_H[list(heads)] = 0
        return mix_BHLS * kept_H[:, None, None]

    return edit


def _adds(mean_LD: Tensor) -> Any:
    return lambda mixer, inputs, output_BLD: output_BLD + mean_LD[: output_BLD.shape[1]]


def _mixer(model: nn.Module, address: str) -> nn.Module:
    return model.get_submodule(address.rpartition(".")[0])


@torch.no_grad()
def _mean_written(model: nn.Module, batch: Batch, address: str, heads: Sequence[int]) -> Tensor:
    """What the heads write, the mean over examples in use, (L, D): how the mixer's output differs without them."""
    outputs: list[Tensor] = []
    hook = _mixer(model, address).register_forward_hook(lambda mixer, inputs, output: outputs.append(output))
    try:
        with mode(model, training=False):
            with rewrite(model, address, lambda mix_BHLS: mix_BHLS):  # a listener, so that both go the plain way
                predict(model, batch)
            with rewrite(model, address, _without(heads)):
                predict(model, batch)
    finally:
        hook.remove()
    used_BL1 = batch.used_BL[..., None]
    return ((outputs[0] - outputs[1]) * used_BL1).sum(0) / used_BL1.sum(0).clamp_min(1)
