"""Which parts must learn for retrieval, for chained retrieval, for arithmetic, for brackets, and for memorization?

Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (Attention Retrieves, MLP Memorizes).
Expected: standard solves all but memorization; frozen_qk follows it; mixit and embeddings_only stay at needle's floor;
memorization falls from standard over frozen_qk to frozen_mlp. Minutes on two cores: quick 4 (needle and memorization
alone 2), small about 80, large about 150 (not measured).
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.recipes import RECIPES, Scale, chosen
from partwise.recipes.mixit_sizes import (
    AT_EDGE,
    CHOSEN,
    FEWER_SEEDS,
    GRID,
    GRID_AT,
    GRID_AT_MANY_PAIRS,
    GRID_MANY_PAIRS,
    GRID_PUBLISHED,
    GRID_SEEDS,
    MANY_PAIRS,
    ON_REQUEST,
    RATE,
    SIZES,
)
from partwise.registry import name_of
from partwise.selection import SELECTION_SEEDS, Grid
from partwise.tasks.needle import Needle

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only")


@RECIPES.register("mixit")
class Mixit:
    """Standard, Frozen-QK, Frozen-MLP, MixiT and embeddings only, on the paper's six synthetic tasks, or on text."""

    tasks: ClassVar[tuple[str, ...]] = tuple(task for task in RATE if task not in ON_REQUEST)
    on_request: ClassVar[tuple[str, ...]] = ON_REQUEST
    scales: ClassVar[dict[str, Scale]] = {
        "tiny": Scale(
            summary="a glance, a minute or two: small sizes, one seed",
            seeds=1,
            cannot_tell=(
                "needle beyond 4 pairs",
                "how much an arm can memorize: the runs are so short that bits compare speed",
            ),
        ),
        "quick": Scale(
            summary="a first answer, 4 minutes on two cores: one seed",
            seeds=1,
            cannot_tell=("needle beyond 8 pairs", "how much an arm can memorize: bits still rise at the last step"),
        ),
        "small": Scale(
            summary="an answer with intervals, 80 minutes on two cores: rates chosen on 2 seeds, 5 others reported",
            seeds=5,
        ),
        "large": Scale(summary="small, and a larger size of each task but two: 2.5 hours on two cores", seeds=5),
        "paper": Scale(summary="the published sizes and grids of rates, for GPUs: see its --dry-run first", seeds=1),
    }

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """Every arm of every task; seed by seed, so that a table fills evenly.

        Raises:
            UnknownName: no such scale or task.
        """
        (scale,) = chosen("scale", [scale], list(self.scales))
        bases = [base for task in self._chosen(only) for base in SIZES[scale][task]]
        arms = [arm(base, name, published=scale == "paper") for base in bases for name in ARMS]
        if n_seeds is not None:
            return seeded(arms, n_seeds)
        usual = self.scales[scale].seeds
        made = seeded(arms, usual)
        return [one for one in made if one.seed < min(usual, FEWER_SEEDS.get(name_of(one.task), usual))]

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """Small and large choose each arm's rate at one size a task, two for needle; paper tries the published rates at
        its own sizes, on one seed; tiny and quick take RATE."""
        made: list[Grid] = []
        for task in self._chosen(only):
            if scale in ("small", "large"):
                made += grids_of(task, SIZES[scale][task], ARMS)
            elif scale == "paper":
                bases = [arm(base, name, published=True) for base in SIZES[scale][task] for name in ARMS]
                made += [Grid(base=base, values=GRID_PUBLISHED[task], seeds=(1000,)) for base in bases]
        return made

    def _chosen(self, only: Sequence[str]) -> list[str]:
        return chosen("task", only or self.tasks, (*self.tasks, *self.on_request))

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """The task at quick's size, under an architecture."""
        return arm(SIZES["quick"][task][0], arch)


def seeded(arms: Sequence[Experiment], n_seeds: int) -> list[Experiment]:
    """The arms with seed 0, then with seed 1, and so on."""
    if n_seeds < 1:
        raise ConfigError(f"{n_seeds} seeds: at least 1 was expected.")
    return [dataclasses.replace(one, seed=seed) for seed in range(n_seeds) for one in arms]


def arm(base: Experiment, name: str, *, published: bool = False) -> Experiment:
    """The base with an architecture's parts and learn rule, and the arm's rate, or the published one that it has."""
    parts, rates = architecture(name), RATE[name_of(base.task)]
    one = dataclasses.replace(base, model=parts.model(base.model), learn=parts.learn, architecture=name)
    if published:
        return dataclasses.replace(one, selection="the published one")
    train = dataclasses.replace(base.train, lr=rates.get(name, rates["usual"]))
    return dataclasses.replace(one, train=train, selection=_how_chosen(name_of(base.task), name))


def grids_of(task: str, sizes: Sequence[Experiment], arms: Sequence[str]) -> list[Grid]:
    """A grid of rates for each arm, at one size for all sizes of the task; for needle with many pairs another."""
    many = [base for base in sizes if isinstance(base.task, Needle) and base.task.n_pairs >= MANY_PAIRS]
    usual = [base for base in sizes if base not in many]
    made = []
    for name in arms if usual else ():
        values = GRID[task].get(name, GRID[task]["usual"])
        holds_for = tuple(base.task for base in usual)
        made.append(
            Grid(
                base=arm(GRID_AT[task], name),
                values=values,
                seeds=GRID_SEEDS.get(task, SELECTION_SEEDS),
                holds_for=holds_for,
            )
        )
    for name in arms if many else ():
        holds_for = tuple(base.task for base in many)
        values = GRID_MANY_PAIRS.get(name, GRID_MANY_PAIRS["usual"])
        made.append(Grid(base=arm(GRID_AT_MANY_PAIRS, name), values=values, holds_for=holds_for))
    return made


def _how_chosen(task: str, name: str) -> str:
    """What a table says of the arm's rate."""
    if name not in ARMS:
        return "the task's usual ones, not chosen for this arm"
    return CHOSEN[task] + ("; at the edge of the grid" if name in AT_EDGE.get(task, ()) else "")
