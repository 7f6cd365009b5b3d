"""Does Frozen-QK form induction heads, when, and does taking exactly those heads out remove the ability?

Needle, and going back once in a string of random symbols (k_hop with one hop: what follows the last occurrence of the
current symbol). Probes look a dozen times while the models train, and at the end; sizes and rates are those of the
recipe mixit.

Source: a reviewer's question to Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (mixit.md 5, 7), and its figure 3.
Expected: standard and frozen_qk retrieve, with heads that read the position of the answer; mixit does not.
"""

import dataclasses
from typing import ClassVar

from partwise.configs import replaced
from partwise.experiment import Experiment
from partwise.probes.head_ablation import HeadAblation
from partwise.probes.induction import Induction
from partwise.probes.previous_token import PreviousToken
from partwise.recipes import RECIPES, Scale
from partwise.recipes.sweeps import Sweep
from partwise.report.lines import STEP, View

AT = (0, 25, 50, 75, 100, 150, 200, 250, 300, 350, 400, 500)


@RECIPES.register("induction")
class InductionHeads(Sweep):
    """Induction heads in standard, frozen_qk and mixit: whether, when, and what is left without them."""

    tasks = ("needle", "k_hop")
    scales: ClassVar[dict[str, Scale]] = {
        "quick": Scale(summary="5 seeds, 7 minutes a task on two cores", seeds=5),
    }
    view = View(
        over=STEP,
        metrics=(
            "",
            "induction.retrieval",
            "induction.repeated",
            "previous_token",
            "head_ablation.mean.retrieving",
            "head_ablation.mean.beside",
        ),
    )

    def arms(self) -> list[Experiment]:
        return [self._looked_at(task, name) for task in self.tasks for name in ("standard", "frozen_qk", "mixit")]

    def _looked_at(self, task: str, name: str) -> Experiment:
        one = self.base(task, name)
        if task == "k_hop":
            one = replaced(replaced(one, "task.min_hops", 1), "task.max_hops", 1)
        probes = (PreviousToken(), Induction(), HeadAblation())
        return dataclasses.replace(one, probes=probes, probe_at=AT)
