"""How the stream of tokens moves through depth: whether tokens become alike, and what gradient comes back."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from partwise.batch import Batch
from partwise.errors import ConfigError
from partwise.evaluation import loss_sum, mode, predict
from partwise.probes import PROBES
from partwise.rows import Row


@PROBES.register("propagation")
@dataclass(frozen=True, kw_only=True)
class Propagation:
    """Of the stream x (L tokens, width D) before the first block (`embed`) and behind each:

        correlation      mean of x_a . x_b / (|x_a| |x_b|) over pairs of different positions; 1 is rank collapse
        covariance       mean of x_a . x_b / D over these pairs
        effective_rank   exp(entropy of the eigenvalues of X X', as shares of their sum); from 1 to min(L, D)
        residual_norm    root mean square of the entries of x
        gradient_norm    of the mean loss with respect to all of x

    Over positions in use, and averaged over examples. Nothing is yielded for a module without `blocks`.

    Args:
        n_examples: of the batch, the first so many.

    Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, table 7 (covariance); Noci et al. 2022, arXiv:2206.03126
    (rank collapse and gradients); Roy & Vetterli 2007 (effective rank).
    """

    n_examples: int = 32

    def __post_init__(self) -> None:
        if self.n_examples < 1:
            raise ConfigError(f"n_examples is {self.n_examples}: at least 1 was expected.")

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not isinstance(getattr(model, "blocks", None), nn.ModuleList):
            return
        few = batch.rows(0, self.n_examples)
        with mode(model, training=False):
            streams, gradients = _streams(model, few)
        for address, x_BLD in streams.items():
            yield from _rows(address, x_BLD.detach().double(), few.used_BL)
            gradient = gradients[address]
            if gradient is not None:
                yield Row(where=address, quantity="gradient_norm", value=gradient.norm().item(), n=len(few))


def _streams(model: Any, batch: Batch) -> tuple[dict[str, Tensor], dict[str, Tensor | None]]:
    """What the first block is given and what each leaves with, and the gradients there; no parameter keeps any."""
    seen: dict[str, Tensor] = {}

    def enter(block: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        seen["embed"] = given[0].detach().requires_grad_()
        return (seen["embed"], *given[1:])

    def leave(address: str) -> Any:
        def note(block: nn.Module, given: Any, left: Tensor) -> None:
            seen[address] = left

        return note

    with ExitStack() as stack, torch.enable_grad():
        stack.callback(model.blocks[0].register_forward_pre_hook(enter).remove)
        for layer, block in enumerate(model.blocks):
            stack.callback(block.register_forward_hook(leave(f"blocks.{layer}")).remove)
        loss = loss_sum(predict(model, batch), batch.targets_BL) / max(1, int(batch.scored_BL.sum()))
        gradients = torch.autograd.grad(loss, list(seen.values()), allow_unused=True)
    return seen, dict(zip(seen, gradients, strict=True))


def _rows(address: str, x_BLD: Tensor, used_BL: Tensor) -> Iterator[Row]:
    x_BLD = x_BLD * used_BL[..., None]
    gram_BLL = x_BLD @ x_BLD.mT
    pairs_BLL = used_BL[:, :, None] & used_BL[:, None, :] & ~torch.eye(used_BL.shape[1]).bool().to(used_BL.device)
    size_BL = gram_BLL.diagonal(dim1=-2, dim2=-1).sqrt().clamp_min(1e-30)
    width, pairs = x_BLD.shape[-1], pairs_BLL.sum((-2, -1))
    energy = gram_BLL.diagonal(dim1=-2, dim2=-1).sum() / (used_BL.sum() * width)
    share_BL = torch.linalg.eigvalsh(gram_BLL).clamp_min(0)
    share_BL = share_BL / share_BL.sum(-1, keepdim=True).clamp_min(1e-30)
    rank_B = torch.special.entr(share_BL).sum(-1).exp()
    several = pairs > 0  # one token has no pair
    if several.any():
        for quantity, value_BLL in (
            ("correlation", gram_BLL / (size_BL[:, :, None] * size_BL[:, None, :])),
            ("covariance", gram_BLL / width),
        ):
            mean_B = (value_BLL * pairs_BLL).sum((-2, -1))[several] / pairs[several]
            yield Row(where=address, quantity=quantity, value=mean_B.mean().item(), n=int(several.sum()))
    yield Row(where=address, quantity="effective_rank", value=rank_B.mean().item(), n=len(rank_B))
    yield Row(where=address, quantity="residual_norm", value=energy.sqrt().item(), n=int(used_BL.sum()))
