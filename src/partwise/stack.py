"""Models of one shape side by side, a step for all of them at once: gradient, clipping, AdamW, each by its own rules.

Axes beside those of shapes.py: M model, N parameter by its name, P the entries of these parameters, side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.evaluation import loss_sum, mode
from partwise.parts import LearnRule, ever_learning
from partwise.train_config import TrainConfig
from partwise.updates import Precision, modes_of, peaks_and_decays, still_what_is_frozen


class Unstackable(ConfigError):
    """These models cannot take their steps together, each by itself they can."""

    def __init__(self, reason: str):
        super().__init__(f"these models cannot be trained as one: {reason}; each on its own (--stack never) they can.")


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a stack must know of one of its models. Of `config`, only the rates and the decays may be its own."""

    model: nn.Module
    learn: LearnRule
    config: TrainConfig


class Stack:
    """AdamW over models as the rows of one matrix.

        m = lerp(m, g, 1 - b1),    v = b2 v + (1 - b2) g^2,    t = steps since this parameter of this model began
        value = value (1 - rate decay) - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)

    g is the gradient of the model's own mean loss, clipped by its own norm, over what of it learns now. Where nothing
    learns, the value keeps its bits and the moments are zero.

    Args:
        trained: one for each row. The weights are copied; `hand_back` puts them into the model again.
        precision: of the arithmetic.

    Raises:
        Unstackable: a module with statistics of its own, such as a batch norm, is frozen in some and learns in others.
    """

    def __init__(self, trained: Sequence[Trained], *, precision: Precision = "float32"):
        self.trained, self.precision = list(trained), precision
        self.skeleton, self.config = trained[0].model, trained[0].config
        self.device = next(self.skeleton.parameters()).device
        named = [dict(one.model.named_parameters()) for one in trained]
        whole = [parameters | dict(one.model.named_buffers()) for parameters, one in zip(named, trained, strict=True)]
        learn = set().union(*(ever_learning(one.model, one.learn) for one in trained))
        self.shapes = {name: parameter.shape for name, parameter in named[0].items() if name in learn}
        self.sizes = [shape.numel() for shape in self.shapes.values()]
        self.sizes_N = torch.tensor(self.sizes, device=self.device)
        self.turns = {0}.union(*(one.learn.changes() for one in trained))
        self.learning: set[str] = set()
        self._check_modes()
        if any(one.config.optimizer != "adamw" for one in trained):
            raise Unstackable("their optimizer is not adamw, and the step for all of them at once is AdamW's")

        def rows(name: str) -> Tensor:
            return torch.stack([tensors[name].detach() for tensors in whole])

        self.still = {name: rows(name) for name in named[0] if name not in learn}
        self.buffers = {name: rows(name) for name in whole[0] if name not in named[0]}
        self.value_MP = torch.cat([rows(name).flatten(1) for name in self.shapes], dim=1)
        self.mean_MP, self.square_MP = torch.zeros_like(self.value_MP), torch.zeros_like(self.value_MP)
        self.learns_MP = torch.zeros_like(self.value_MP, dtype=torch.bool)
        settings = [peaks_and_decays(one.model, one.config) for one in trained]
        # Few numbers, in float64 on the CPU, as the plain loop has them.
        peaks_MN2 = torch.tensor([[own[name] for name in self.shapes] for own in settings], dtype=torch.float64)
        self.peak_MN, self.decay_MN = peaks_MN2.unbind(-1)
        self.learns_MN = torch.zeros_like(self.peak_MN, dtype=torch.bool)
        self.began_MN = torch.zeros_like(self.peak_MN, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.trained)

    def update(self, step: int, batches: Sequence[Batch]) -> tuple[list[float], list[float]]:
        """Step `step` of every model, each on its own batch; of each, the mean loss and the gradient's norm. It is not
        taken where one of the two is no number."""
        if step in self.turns:
            self._turn(step)
        loss_M, gradient_MP = self._gradient(batches)
        gradient_MP = gradient_MP.masked_fill_(~self.learns_MP, 0.0)
        norm_M = torch.linalg.vector_norm(gradient_MP, dim=1)
        if self.config.clip is not None:
            gradient_MP *= (self.config.clip / (norm_M + 1e-6)).clamp(max=1.0)[:, None]
        self._adamw(step, gradient_MP, (loss_M.isfinite() & norm_M.isfinite())[:, None] & self.learns_MP)
        losses, norms = torch.stack((loss_M, norm_M)).tolist()
        return losses, norms

    def keep(self, rows: list[int]) -> None:
        """Go on with these models alone, in this order."""
        self.trained = [self.trained[row] for row in rows]
        there = torch.tensor(rows, device=self.device)
        self.still = {name: tensor[there] for name, tensor in self.still.items()}
        self.buffers = {name: tensor[there] for name, tensor in self.buffers.items()}
        self.value_MP, self.learns_MP = self.value_MP[there], self.learns_MP[there]
        self.mean_MP, self.square_MP = self.mean_MP[there], self.square_MP[there]
        self.peak_MN, self.decay_MN = self.peak_MN[rows], self.decay_MN[rows]
        self.learns_MN, self.began_MN = self.learns_MN[rows], self.began_MN[rows]

    @torch.no_grad()
    def hand_back(self, row: int) -> None:
        """Put what the row has learned, and what became of its buffers, into its model."""
        parameters = dict(self.trained[row].model.named_parameters())
        for name, value_P in zip(self.shapes, self.value_MP[row].split(self.sizes), strict=True):
            parameters[name].copy_(value_P.view(self.shapes[name]))
        for name, buffer in self.trained[row].model.named_buffers():
            buffer.copy_(self.buffers[name][row])

    def learned(self, row: int) -> Tensor:
        """What learns now in the row's model, side by side."""
        return self.value_MP[row, self.learns_MP[row]]

    def _check_modes(self) -> None:
        for step in sorted(self.turns):
            first, *others = (modes_of(one.model, one.learn.learning(one.model, step)) for one in self.trained)
            for name in (name for modes in others for name in modes if modes[name] != first[name]):
                raise Unstackable(f"{name} has buffers and is frozen in some of them and learns in others")

    def _turn(self, step: int) -> None:
        """Begin a stage: what begins to learn has fresh moments, and what stops loses its own."""
        rules = [one.learn.learning(one.model, step) for one in self.trained]
        self.learning = rules[0]  # as the modes go, all rules are alike
        learns_MN = torch.tensor([[name in learning for name in self.shapes] for learning in rules])
        went_on_MP = self._spread(learns_MN & self.learns_MN)
        self.mean_MP.masked_fill_(~went_on_MP, 0.0)
        self.square_MP.masked_fill_(~went_on_MP, 0.0)
        self.began_MN = torch.where(learns_MN & ~self.learns_MN, step, self.began_MN)
        self.learns_MN, self.learns_MP = learns_MN, self._spread(learns_MN)

    def _gradient(self, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
        """Mean losses (M,) and their gradients (M, P), added up over the pieces of the batches."""
        whole, n_models = side_by_side(batches), len(batches)
        read_BQ, targets_BQ = whole.read()
        held = [whole.tokens_BL, whole.targets_BL, whole.lengths_B, read_BQ, targets_BQ]
        by_model = [None if tensor is None else tensor.to(self.device).unflatten(0, (n_models, -1)) for tensor in held]
        count_M = whole.scored_BL.view(n_models, -1).sum(1).clamp(min=1).to(self.device)
        in_dims: Any = (0, 0, 0, *(None if tensor is None else 0 for tensor in by_model))
        value_MP = self.value_MP.detach().requires_grad_()
        total_M = torch.zeros(n_models, device=self.device)
        n_rows, n_pieces = len(batches[0]), self.config.accumulate
        for piece in range(n_pieces):
            rows = slice(n_rows * piece // n_pieces, n_rows * (piece + 1) // n_pieces)
            part: list[Any] = [None if tensor is None else tensor[:, rows] for tensor in by_model]
            learned = {
                name: value.view(n_models, *shape)
                for (name, shape), value in zip(self.shapes.items(), value_MP.split(self.sizes, dim=1), strict=True)
            }
            # The models do not meet, so the plain gradient of the sum holds the gradient of each in its row.
            sum_M, self.buffers = self._over_models(in_dims, learned, self.still, self.buffers, *part)
            loss_M = sum_M / count_M
            loss_M.sum().backward()
            total_M += loss_M.detach()
        assert value_MP.grad is not None
        return total_M, value_MP.grad

    def _over_models(self, in_dims: Any, *given: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """`_loss` of all models.

        Raises:
            Unstackable: a model draws at random in its forward, branches on a tensor's value, or does what has no rule.
        """
        try:
            with mode(self.skeleton, training=True):
                still_what_is_frozen(self.skeleton, self.learning)
                return vmap(self._loss, in_dims=in_dims)(*given)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            said = str(error).removeprefix("vmap: ").split(". ")[0].split("\n")[0].rstrip(".")
            raise Unstackable(f"torch.func says {said!r}") from error

    def _loss(
        self,
        learned: dict[str, Tensor],
        still: dict[str, Tensor],
        buffers: dict[str, Tensor],
        tokens_BL: Tensor,
        targets_BL: Tensor,
        lengths_B: Tensor | None,
        read_BQ: Tensor | None,
        targets_BQ: Tensor,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Of one model, summed over its scored positions; and its buffers, which its forward may have changed."""
        batch = Batch(tokens_BL=tokens_BL, targets_BL=targets_BL, lengths_B=lengths_B)
        bfloat16 = torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bfloat16")
        held = learned | still | buffers
        with bfloat16:
            logits = functional_call(self.skeleton, held, (batch, read_BQ))
        return loss_sum(logits, targets_BQ), {name: held[name].detach() for name in buffers}

    @torch.no_grad()
    def _adamw(self, step: int, gradient_MP: Tensor, moves_MP: Tensor) -> None:
        beta_1, beta_2 = self.config.betas
        taken_MN = (step + 1 - self.began_MN).double()
        rate_MN = self.peak_MN * self.config.rate(step)
        factors = (1 - rate_MN * self.decay_MN, rate_MN / (1 - beta_1**taken_MN), (1 - beta_2**taken_MN).sqrt())
        shrink_MP, stride_MP, root_MP = self._spread(torch.stack(factors).to(self.value_MP.dtype))
        self.mean_MP.lerp_(gradient_MP, 1 - beta_1)
        self.square_MP.mul_(beta_2).addcmul_(gradient_MP, gradient_MP, value=1 - beta_2)
        size_MP = (self.square_MP.sqrt() / root_MP).add_(self.config.eps)
        stepped_MP = self.value_MP * shrink_MP - stride_MP * self.mean_MP / size_MP
        self.value_MP = torch.where(moves_MP, stepped_MP, self.value_MP)

    def _spread(self, given_MN: Tensor) -> Tensor:
        """(..., M, N) -> (..., M, P) on the device: each parameter's number at each of its entries."""
        return given_MN.to(self.device).repeat_interleave(self.sizes_N, dim=-1, output_size=sum(self.sizes))


def side_by_side(batches: Sequence[Batch]) -> Batch:
    """The rows of all batches as one batch, each padded to the longest; without marks and strata."""
    length = max(batch.tokens_BL.shape[1] for batch in batches)
    full = all(batch.lengths_B is None and batch.tokens_BL.shape[1] == length for batch in batches)

    def padded(tensor: Tensor, value: float = 0) -> Tensor:
        extra = length - tensor.shape[1]
        return F.pad(tensor, (0, 0) * (tensor.ndim - 2) + (0, extra), value=value) if extra else tensor

    def lengths(batch: Batch) -> Tensor:
        return batch.used_BL.sum(-1) if batch.lengths_B is None else batch.lengths_B

    unscored = float("nan") if batches[0].targets_BL.is_floating_point() else IGNORE
    return Batch(
        tokens_BL=torch.cat([padded(batch.tokens_BL) for batch in batches]),
        targets_BL=torch.cat([padded(batch.targets_BL, unscored) for batch in batches]),
        lengths_B=None if full else torch.cat([lengths(batch) for batch in batches]),
    )
