"""Which part gets a clean gradient early? Signal to noise of each, from the first step on, on three tasks.

Source: the question is ours, after Chen, Bruna, Bietti 2024, arXiv:2406.03068. Expected: not known; a part that has no
signal stands at n^-1/2, which is .06 with the 256 examples shown.
"""

import dataclasses
from typing import ClassVar

from partwise.experiment import Experiment
from partwise.probes.gradient_noise import GradientNoise
from partwise.recipes import RECIPES, Scale
from partwise.recipes.distributional import Distributional
from partwise.recipes.mixit import Mixit
from partwise.recipes.sweeps import Sweep
from partwise.report.lines import View
from partwise.report.places import Panel, Places

AT = (0, 1, 2, 5, 10, 20, 50, 100, 200)


@RECIPES.register("clean_gradients")
class CleanGradients(Sweep):
    """Signal to noise of the gradient, part by part, over the first 300 steps of needle, memorization, noisy_recall."""

    tasks = ("needle", "memorization", "noisy_recall")
    scales: ClassVar[dict[str, Scale]] = {"quick": Scale(summary="3 seeds, 6 minutes on two cores", seeds=3)}
    view: ClassVar[View | Places | None] = Places(
        panels=(
            Panel(title="signal to noise of one example", quantity="signal_to_noise", log=True),
            Panel(title="cosine of two half-batches", quantity="half_cosine", share=False),
            Panel(title="noise scale, examples", quantity="noise_scale", log=True),
        )
    )

    def arms(self) -> list[Experiment]:
        return [self._short(name) for name in self.tasks]

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """That of the recipe that has the task."""
        return (Distributional() if task == "noisy_recall" else Mixit()).base(task, arch)

    def _short(self, task: str) -> Experiment:
        one = self.base(task)
        train = dataclasses.replace(one.train, steps=300)
        return dataclasses.replace(one, train=train, probes=(GradientNoise(),), probe_at=AT, test_size=256)
