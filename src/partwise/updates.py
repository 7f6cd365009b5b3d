"""One update of a model: gradient, clipping, and AdamW or SGD over what learns now."""

import itertools
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from partwise.batch import Batch
from partwise.evaluation import loss_of, takes_packed
from partwise.parts import LearnRule, select
from partwise.train_config import TrainConfig

Precision = Literal["float32", "bfloat16"]
LENGTH_GROUPS = 2  # in which a token mixer meets packed rows; more save little padding (docs/lab, 2026-11-30)
SMALL_GRADIENT = 2**20  # numbers


def update(
    model: nn.Module,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    *,
    config: TrainConfig,
    device: torch.device,
    precision: Precision,
) -> tuple[float, float]:
    """One step: gradient, clipping, optimizer; the mean loss and the gradient's norm. It is not taken where one of the
    two is no number."""
    loss = backward(model, batch, pieces=config.accumulate, device=device, precision=precision)
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = _clipped(gradients, config.clip)
    if math.isfinite(loss) and math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss, norm


def _clipped(gradients: list[Tensor], largest: float | None) -> float:
    """Scale the gradients so that their norm is `largest` at most, as `clip_grad_norm_` does; the norm they had."""
    if not gradients:
        return 0.0
    if sum(gradient.numel() for gradient in gradients) < SMALL_GRADIENT:  # one kernel is cheaper than one each
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    else:
        norm = nn.utils.get_total_norm(gradients)
    if largest is not None:
        torch._foreach_mul_(gradients, (largest / (norm + 1e-6)).clamp(max=1.0))
    return norm.item()


def stepper(
    model: nn.Module, *, learn: LearnRule, config: TrainConfig, device: torch.device, precision: Precision
) -> Callable[[Batch], float]:
    """A function that takes a step on a batch, as `fit` does, and gives its loss: for whoever times a step."""
    optimizer = optimizer_for(model, learn.learning(model), config)
    model.train()
    return lambda batch: update(model, batch, optimizer, config=config, device=device, precision=precision)[0]


def backward(
    model: nn.Module,
    batch: Batch,
    *,
    pieces: int,
    device: torch.device,
    precision: Precision,
    groups: int = LENGTH_GROUPS,
) -> float:
    """Gradient of the mean loss over the batch's scored positions, added up over pieces of it; the mean loss.

    Where the model computes no padding, its token mixers meet the rows in `groups` of like length.
    """
    total, count = 0.0, max(1, int(batch.scored_BL.sum()))
    bounds = [len(batch) * piece // pieces for piece in range(pieces + 1)]
    parts = [batch.rows(start, stop) for start, stop in itertools.pairwise(bounds)]
    if groups and takes_packed(model, device):
        parts = [part.packed(n_groups=groups) for part in parts]
    for part in parts:
        read_BQ, targets_BQ = part.read()
        if device.type != "cpu":
            part, targets_BQ = part.to(device), targets_BQ.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(model, part, None if read_BQ is None else read_BQ.to(device), targets_BQ) / count
        loss.backward()
        total += loss.item()
    return total


def optimizer_for(
    model: nn.Module, learning: set[str], config: TrainConfig, *, before: torch.optim.Optimizer | None = None
) -> torch.optim.Optimizer:
    """AdamW, or SGD, over what learns, and nothing else.

    What learned before keeps its moments; what begins now starts with fresh ones, its bias correction counted from
    here; what stops is dropped. `requires_grad` follows.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    settings = peaks_and_decays(model, config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learning)
        if name in learning:
            groups.setdefault(settings[name], []).append(parameter)
        else:
            parameter.grad = None
    every = [{"params": held, "lr": lr, "peak": lr, "weight_decay": decay} for (lr, decay), held in groups.items()]
    optimizer: torch.optim.Optimizer
    if config.optimizer == "sgd":
        optimizer = torch.optim.SGD(every, momentum=config.momentum)
    else:
        optimizer = torch.optim.AdamW(every, betas=config.betas, eps=config.eps, fused=True)
    if before is not None:
        for held_before, moments in before.state.items():
            if held_before.requires_grad:
                optimizer.state[held_before] = moments
    return optimizer


def peaks_and_decays(model: nn.Module, config: TrainConfig) -> dict[str, tuple[float, float]]:
    """Of each parameter, the peak of its rate and its weight decay."""
    chosen = [(part, select(model, (part.pattern,))) for part in config.parts]
    found = {}
    for name, parameter in model.named_parameters():
        lr, decay = config.lr, config.weight_decay if parameter.ndim >= 2 else 0.0
        for part, named in chosen:
            if name in named:
                lr = lr if part.lr is None else part.lr
                decay = decay if part.weight_decay is None else part.weight_decay
        found[name] = lr, decay
    return found


def still_what_is_frozen(model: nn.Module, learning: set[str]) -> None:
    """Eval mode for a module with float buffers of which no parameter learns: a frozen batch norm keeps its own."""
    for name, trains in modes_of(model, learning).items():
        model.get_submodule(name).training = trains


def modes_of(model: nn.Module, learning: set[str]) -> dict[str, bool]:
    """Whether it is in training, of each module with parameters and float buffers of its own."""
    learns = {parameter for name, parameter in model.named_parameters() if name in learning}
    modes = {}
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        has_floats = any(buffer.is_floating_point() for buffer in module.buffers(recurse=False))
        if own and has_floats:
            modes[name] = any(parameter in learns for parameter in own)
    return modes
