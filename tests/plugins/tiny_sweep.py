"""A sweep of one's own: needle against depth, with a rate chosen at each depth."""

from typing import ClassVar

from small import experiment

from partwise.recipes import RECIPES, Scale
from partwise.recipes.sweeps import Sweep
from partwise.report import View
from partwise.selection import Grid


@RECIPES.register("tiny_sweep")
class TinySweep(Sweep):
    """Needle with two pairs against depth."""

    tasks = ("needle",)
    scales: ClassVar = {"quick": Scale(summary="a second", seeds=2)}
    view = View(over="model.n_blocks", label="blocks")

    def arms(self):
        return [experiment(architecture="standard", model__n_blocks=n, train__steps=10) for n in (1, 2)]

    def grids(self, scale, *, only=()):
        return [Grid(base=one, values=(1e-3, 3e-3), seeds=(1000,)) for one in self.arms()]
