"""Should feed-forward and attention have rates of their own? A grid of ratios, on noise and recall, and on facts.

Source: the question is ours, after Chen, Bruna, Bietti 2024, arXiv:2406.03068: the feed-forward learns what is
distributional early, and attention later. Expected: not known.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from partwise.experiment import Experiment
from partwise.recipes import RECIPES, Scale
from partwise.recipes.distributional import FEED_FORWARD, Distributional
from partwise.recipes.mixit import Mixit
from partwise.recipes.sweeps import Sweep
from partwise.train_config import PartRate

RATIOS = (0.1, 0.3, 1.0, 3.0, 10.0)


@RECIPES.register("own_rates")
class OwnRates(Sweep):
    """The feed-forward's rate from a tenth to ten times attention's, on noisy_recall and memorization."""

    tasks = ("noisy_recall", "memorization")
    scales: ClassVar[dict[str, Scale]] = {
        "quick": Scale(summary="3 seeds, 20 minutes on two cores", seeds=3),
    }
    ratios: ClassVar[Sequence[float]] = RATIOS

    def arms(self) -> list[Experiment]:
        return [self._with(self.base(task), ratio) for task in self.tasks for ratio in self.ratios]

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """That of the recipe that has the task."""
        return (Distributional() if task == "noisy_recall" else Mixit()).base(task, arch)

    @staticmethod
    def _with(base: Experiment, ratio: float) -> Experiment:
        """The geometric mean of the two rates stays the base's, so that no arm is merely faster in all it learns."""
        if ratio == 1.0:
            return dataclasses.replace(base, probe_at=())
        attention, feed_forward = base.train.lr * ratio**-0.5, base.train.lr * ratio**0.5
        parts = (
            PartRate(pattern="blocks.*.token_mixer", lr=attention),
            PartRate(pattern=FEED_FORWARD, lr=feed_forward),
        )
        train = dataclasses.replace(base.train, parts=parts)
        return dataclasses.replace(base, train=train, probe_at=(), architecture=f"feed-forward x{ratio:g}")
