"""Our side: what `fit` calls at each step, with the precision that `--precision auto` would choose."""

from collections.abc import Callable

import torch
from torch import nn

from partwise.batch import Batch
from partwise.execution import faster_precision
from partwise.parts import AllBut
from partwise.training import Precision, TrainConfig, optimizer_for, update


def fastest(model: nn.Module, *, threads: int) -> Precision:
    """The precision that is faster for this model on this machine."""
    return faster_precision("cpu", threads, width=max(max(parameter.shape) for parameter in model.parameters()))


def stepper(model: nn.Module, precision: Precision) -> Callable[[Batch], float]:
    """A function that takes one training step on a batch and gives its loss; everything learns."""
    config, device = TrainConfig(), torch.device("cpu")
    optimizer = optimizer_for(model, AllBut().learning(model), config)
    model.train()

    def step(batch: Batch) -> float:
        loss, _ = update(model, batch, optimizer, config=config, device=device, precision=precision)
        return loss

    return step
