"""Questions put to a model, one file each: a probe looks, never touches, and yields rows.

A config's `measure(model, batch)` yields `Row`s; the run fills in the step and its digest. Probes listen through taps
and read the batch's marks; none imports a task. Two things of the class may be said:

    examples = "train"      shown are examples as a step of training has them, or "clean" ones, where the task can draw
                            these (`clean`); without it, some of the test set
    at_the_end = True       it looks at the trained model alone, also where probes look on the way
"""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from torch import nn

from partwise.batch import Batch
from partwise.registry import Registry
from partwise.rows import Row


@runtime_checkable
class Probe(Protocol):
    """The config of a probe: a frozen dataclass."""

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]: ...


PROBES = Registry("probe", package=__name__)
