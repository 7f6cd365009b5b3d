"""Probes put to a model while it trains and when it has trained, always on the same test examples."""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

from torch import nn

from partwise.batch import Batch
from partwise.errors import ConfigError
from partwise.evaluation import evaluation_batch, mode
from partwise.rows import Row
from partwise.seeds import generator_for

EXAMPLES = 256  # of the test set, at most


@dataclass(frozen=True, kw_only=True)
class Looking:
    """What is looked at, on what, and after which steps.

    Args:
        data: the built task.
        seed: of the data.
        test_size: examples of an endless task's test set, of which the first are shown.
        probes: what looks.
        at: numbers of updates after which they look, besides the last; 0 is the model as it was drawn.
    """

    data: Any
    seed: int
    test_size: int
    probes: tuple[Any, ...] = ()
    at: tuple[int, ...] = ()

    @functools.cached_property
    def examples(self) -> Batch:
        """The first of the test set."""
        return evaluation_batch(self.data, "test", n=self.test_size, seed=self.seed).rows(0, EXAMPLES)

    @functools.cached_property
    def training_examples(self) -> Batch:
        """As a step of training has them."""
        return self.data.sample(EXAMPLES, split="train", generator=generator_for(self.seed, "shown to probes"))

    @functools.cached_property
    def clean_examples(self) -> Batch:
        """Without what makes the task noisy, where it can draw these; else the first of the test set."""
        if not hasattr(self.data, "clean"):
            return self.examples
        return self.data.clean(EXAMPLES, generator=generator_for(self.seed, "clean set"))

    def shown_to(self, probe: Any) -> Batch:
        """What a probe asks to be shown (probes/__init__.py)."""
        kinds = {"train": "training_examples", "clean": "clean_examples"}
        return getattr(self, kinds.get(getattr(probe, "examples", "test"), "examples"))

    def rows(self, model: nn.Module, step: int, *, early: bool = False) -> list[Row]:
        """What the probes find in the model, which has done `step` updates; `early` leaves out those that look at
        trained models only."""
        device, found = next(model.parameters()).device, []
        with mode(model, training=False):
            for probe in self.probes:
                if not (early and getattr(probe, "at_the_end", False)):
                    found += probe.measure(model, self.shown_to(probe).to(device))
        return [dataclasses.replace(row, step=step) for row in found]


def check_looks(probes: tuple[Any, ...], at: tuple[int, ...], steps: int) -> None:
    """Say what is wrong with the steps at which probes are to look.

    Raises:
        ConfigError: there are steps and no probes, or one of them is not in the run.
    """
    if at and not probes:
        raise ConfigError(f"probe_at is {list(at)}, and probes is empty: name some, such as 'probes=[\"induction\"]'.")
    for step in at:
        if not 0 <= step <= steps:
            raise ConfigError(f"probe_at is {list(at)}: steps from 0 to the run's {steps} were expected.")
