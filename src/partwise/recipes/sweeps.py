"""One setting varied, all else fixed: what the paper's single columns leave open. Each comes with a figure of its own.

Sizes and rates are those of the recipe mixit; where a rate could decide the outcome, it is chosen anew, setting by
setting, on a selection seed.

Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, figure 2 and table 5; questions of its reviewers (mixit.md 7).
Expected: mixit falls behind on needle as pairs are added; its token accuracy on addition rises with heads; frozen_qk
stays at needle's floor where queries and keys are drawn at a quarter of the usual scale; with rows of 16 tokens mixit
is below standard in loss, as a comment in the authors' code says (mixit.md 2.7). The others are open questions.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import ClassVar

from partwise.architectures import QK
from partwise.configs import replaced
from partwise.experiment import Experiment
from partwise.parts import AllBut, Stages
from partwise.recipes import RECIPES, Scale, chosen
from partwise.recipes.mixit import ARMS, Mixit, arm, grids_of, seeded
from partwise.recipes.mixit_sizes import GRID_AT, PLAYS, SMALL, needle
from partwise.registry import name_of
from partwise.report.lines import FLOPS, View
from partwise.report.places import Places
from partwise.selection import SELECTION_SEEDS, Grid

MLP = ("blocks.*.channel_mixer",)
NEEDLE_RATES = (3e-3, 1e-2)


class Sweep:
    """What the sweeps share: one scale, and arms that a subclass names.

    A subclass gives `tasks`, `scales` and `arms`; a `view` where its figure is drawn over a setting, and `grids` where
    rates are chosen.
    """

    tasks: ClassVar[tuple[str, ...]]
    scales: ClassVar[dict[str, Scale]]
    view: ClassVar[View | Places | None] = None

    def arms(self) -> list[Experiment]:
        """What is compared, with seed 0."""
        raise NotImplementedError

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """Every arm with every seed.

        Raises:
            UnknownName: no such scale or task.
        """
        (scale,) = chosen("scale", [scale], list(self.scales))
        tasks = chosen("task", only, self.tasks)
        arms = [one for one in self.arms() if name_of(one.task) in tasks]
        return seeded(arms, self.scales[scale].seeds if n_seeds is None else n_seeds)

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """None: rates are those of the recipe mixit."""
        return []

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """The task at quick's size, under an architecture."""
        return Mixit().base(task, arch)


def _scale(minutes: int, seeds: int) -> dict[str, Scale]:
    return {"quick": Scale(summary=f"{seeds} seeds, {minutes} minutes on two cores", seeds=seeds)}


def _rates(arms: Sequence[Experiment], values: tuple[float, ...]) -> list[Grid]:
    """A grid for each arm at its own settings, on one selection seed."""
    return [Grid(base=one, values=values, seeds=SELECTION_SEEDS[:1]) for one in arms]


@RECIPES.register("needle_by_m")
class NeedleByPairs(Sweep):
    """Needle against the number of pairs m: from where on does each arm fail? (The paper's figure 2.)"""

    tasks = ("needle",)
    scales = _scale(35, 5)
    view = View(over="task.n_pairs", label="pairs m", log=True)
    sizes: ClassVar[list[Experiment]] = [needle(2), *SMALL["needle"]]

    def arms(self) -> list[Experiment]:
        return [arm(base, name) for base in self.sizes for name in ARMS]

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """As small does: a choice at m = 8, and another at m = 16."""
        return grids_of("needle", self.sizes, ARMS)


@RECIPES.register("addition_by_heads")
class AdditionByHeads(Sweep):
    """Addition under MixiT against the number of heads, 4 to 64. (The paper's table 5.)"""

    tasks = ("addition",)
    scales = _scale(8, 3)
    view = View(over="model.token_mixer.n_heads", label="heads", log=True, metrics=("", "accuracy"))

    def arms(self) -> list[Experiment]:
        base = replaced(self.base("addition", "standard"), "train.steps", 1500)
        mixit = arm(base, "mixit")
        return [base, *(replaced(mixit, "model.token_mixer.n_heads", heads) for heads in (4, 8, 16, 32, 64))]

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """Tried for 500 steps, for each number of heads."""
        return _rates([replaced(one, "train.steps", 500) for one in self.arms()], (4e-3, 8e-3, 1.6e-2))


@RECIPES.register("qk_scale")
class QkScale(Sweep):
    """Needle against the scale of the query and key weights at the start: does Frozen-QK depend on it?"""

    tasks = ("needle",)
    scales = _scale(10, 3)
    view = View(over="model.token_mixer.qk_scale", label="scale of the query and key weights at the start", log=True)

    def arms(self) -> list[Experiment]:
        return [
            replaced(self.base("needle", name), "model.token_mixer.qk_scale", scale)
            for scale in (0.25, 1.0, 2.0, 4.0)
            for name in ("standard", "frozen_qk")
        ]

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        return _rates(self.arms(), NEEDLE_RATES)


@RECIPES.register("frozen_draw")
class FrozenDraw(Sweep):
    """Five frozen draws crossed with three seeds of all else: how much of the variance is the draw's?"""

    tasks = ("needle", "modular_addition", "memorization")
    scales = _scale(7, 3)
    view = View(over="frozen_seed", label="frozen draw", by="seed")
    draws: ClassVar[range] = range(100, 105)

    def arms(self) -> list[Experiment]:
        arms = [
            self.base("needle", "frozen_qk"),
            self.base("modular_addition", "mixit"),
            *(arm(GRID_AT["memorization"], name) for name in ("frozen_qk", "mixit")),
        ]
        return [dataclasses.replace(one, frozen_seed=draw) for one in arms for draw in self.draws]


@RECIPES.register("unfreezing")
class Unfreezing(Sweep):
    """Frozen until 0 to 100 % of training: queries and keys on needle, the feed-forward on memorization.

    Drawn against FLOPs. All at the rate of the standard arm, so that nothing but the freezing differs.
    """

    tasks = ("needle", "memorization")
    scales = _scale(5, 3)
    shares: ClassVar[tuple[int, ...]] = (10, 25, 50)
    view = View(
        over=FLOPS,
        label="FLOPs of training\n(left: frozen throughout, right: learns from the start)",
        lines={
            part: (frozen, *(f"{part} from {share} %" for share in (50, 25, 10)), "standard")
            for part, frozen in (("queries and keys", "frozen_qk"), ("feed-forward", "frozen_mlp"))
        },
    )

    def arms(self) -> list[Experiment]:
        return [
            *self._stages(self.base("needle"), "queries and keys", "frozen_qk", QK),
            *self._stages(arm(GRID_AT["memorization"], "standard"), "feed-forward", "frozen_mlp", MLP),
        ]

    def _stages(self, standard: Experiment, part: str, frozen: str, patterns: tuple[str, ...]) -> list[Experiment]:
        """Standard, the part that joins at each share of the steps, and the part frozen throughout."""
        made = [standard]
        for share in self.shares:
            learn = Stages((0, AllBut(*patterns)), (standard.train.steps * share // 100, AllBut()))
            made.append(dataclasses.replace(standard, learn=learn, architecture=f"{part} from {share} %"))
        return [*made, dataclasses.replace(standard, learn=AllBut(*patterns), architecture=frozen)]


@RECIPES.register("interleaved")
class Interleaved(Sweep):
    """Needle with three blocks, each of attention or of random fixed mixing: which blocks need attention?

    All with learned positions. An arm is called after its blocks, such as att+mix+att; `standard` has attention in all
    and `mixit` in none.
    """

    tasks = ("needle",)
    scales = _scale(5, 3)
    short: ClassVar[dict[str, str]] = {"attention": "att", "random_mixing": "mix"}
    names: ClassVar[dict[str, str]] = {"att+att+att": "standard", "mix+mix+mix": "mixit"}

    def arms(self) -> list[Experiment]:
        base = replaced(replaced(self.base("needle"), "model.positions", "learned"), "model.n_blocks", 3)
        made = []
        for pattern in itertools.product(self.short, repeat=3):
            name = "+".join(self.short[mixer] for mixer in pattern)
            one = arm(base, self.names.get(name, "+".join(pattern)))
            made.append(dataclasses.replace(one, architecture=self.names.get(name, name)))
        # One rate for all: with two blocks, standard solves needle at it, and mixit does its best.
        return [dataclasses.replace(replaced(one, "train.lr", 3e-3), selection="fixed in advance") for one in made]


@RECIPES.register("text_length")
class TextLength(Sweep):
    """Language modelling against the length of a row, standard and MixiT: does mixing win where rows are short?

    As many tokens a step and as many steps at each length, so every run sees the same amount of text.
    """

    tasks = ("language_model",)
    scales = _scale(45, 2)
    view = View(over="task.length", label="tokens of a row", log=True)
    lengths: ClassVar[tuple[int, ...]] = (16, 64, 256)

    def arms(self) -> list[Experiment]:
        (small,) = SMALL["language_model"]
        tokens = small.train.batch * PLAYS["length"]
        made = []
        for length in self.lengths:
            base = replaced(replaced(small, "task.length", length), "train.batch", tokens // length)
            base = replaced(base, "train.steps", small.train.steps // 2)
            made += [arm(base, name) for name in ("standard", "mixit")]
        return made

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """Tried for an eighth of small's steps, at each length."""
        steps = SMALL["language_model"][0].train.steps // 8
        return _rates([replaced(one, "train.steps", steps) for one in self.arms()], (1.5e-3, 3e-3, 6e-3))
