"""Our side: what `fit` calls at each step; everything learns."""

from collections.abc import Callable

import torch
from torch import nn

from partwise.batch import Batch
from partwise.calibration import faster, step_ms
from partwise.execution import Execution
from partwise.parts import AllBut
from partwise.train_config import TrainConfig
from partwise.updates import Precision
from partwise.updates import stepper as step_of


def fastest(model: nn.Module, batch: Batch, *, threads: int) -> Precision:
    """The precision that `--precision auto` finds to be the faster one here."""
    execution = Execution(threads=threads)
    return faster(step_ms(model, batch, learn=AllBut(), config=TrainConfig(), execution=execution))


def stepper(model: nn.Module, precision: Precision) -> Callable[[Batch], float]:
    """A function that takes one training step on a batch and gives its loss."""
    return step_of(model, learn=AllBut(), config=TrainConfig(), device=torch.device("cpu"), precision=precision)
