"""From what a person asked for to experiments: `partwise run`, seeds, rates to choose, budgets."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from partwise import configs
from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.parts import AllBut, LearnRule, Only
from partwise.plan import costs, short_time, wall_seconds
from partwise.recipes import RECIPES, Recipe, tasks_of
from partwise.records import RunRecord
from partwise.selection import Grid
from partwise.tasks import TASKS

# Settings that make another arm; of a part's own fields (model.token_mixer.n_heads) only those of a rule do.
SWAPS = ("token_mixer", "channel_mixer", "join", "norm", "final_norm", "positions", "order")
# of a budget, best first
LADDER = (("large", 5), ("small", 5), ("quick", 5), ("quick", 3), ("quick", 1), ("tiny", 3), ("tiny", 1))


def base_for(task: str, arch: str = "standard") -> Experiment:
    """A task under an architecture, with sizes and rates that are known to work: those of the quick recipe that has it.

    Raises:
        UnknownName: no such task, no such architecture.
    """
    made, chosen = TASKS[task], architecture(arch)
    for name in RECIPES.names():
        recipe = RECIPES[name]()
        if task in tasks_of(recipe) and "quick" in recipe.scales:
            return recipe.base(task, arch)
    base = Experiment(task=made())
    return dataclasses.replace(base, model=chosen.model(base.model), learn=chosen.learn, architecture=arch)


def experiments_for(
    task: str,
    archs: Sequence[str],
    settings: Sequence[str],
    *,
    learn: Sequence[str] = (),
    freeze: Sequence[str] = (),
    seeds: Sequence[int] = (0,),
) -> list[Experiment]:
    """One experiment an architecture and seed.

    Args:
        task: its name.
        archs: architectures, or token mixers.
        settings: key=value, put in after the architecture's own parts.
        learn: addresses; only these learn.
        freeze: addresses that stay as drawn beside what the architecture freezes.
        seeds: each sets all randomness of one run.
    """
    if not archs:
        raise ConfigError("no architecture was named; `partwise list architectures` shows them.")
    made = []
    for name in archs:
        one = base_for(task, name)
        rule, label = _rule(one.learn, name, learn, freeze)
        one = dataclasses.replace(one, learn=rule, architecture=label)
        made.append(_set(one, settings))
    return [dataclasses.replace(one, seed=seed) for seed in seeds for one in made]


def _set(one: Experiment, settings: Sequence[str]) -> Experiment:
    """The experiment with key=value put in; a part or a rule that is swapped so is named in the column's head."""
    for setting in settings:
        path, value = configs.parsed(setting)
        if path in ("seed", "architecture", "matching", "selection"):
            raise ConfigError(f"--set {setting}: {path} is no setting; --seeds, --arch and --match are there for it.")
        one = configs.replaced(one, path, value)
        if path == "train.lr":
            one = dataclasses.replace(one, selection="set by hand")
        elif path.split(".")[0] in ("task", "model", "train", "learn") and one.selection != "set by hand":
            one = dataclasses.replace(one, selection="the quick recipe's, not chosen at these settings")
        slot = path.removeprefix("model.")
        if path.startswith(("learn", "model.blocks")) or slot in SWAPS:
            one = dataclasses.replace(one, architecture=f"{one.architecture}, {setting}")
    return one


def _rule(rule: LearnRule, name: str, learn: Sequence[str], freeze: Sequence[str]) -> tuple[LearnRule, str]:
    """The rule with what was asked for, and what a table calls it."""
    if learn and freeze:
        raise ConfigError("--learn says all that learns, so --freeze has nothing to add; use one of the two.")
    if learn:
        return Only(*learn), f"{name}, only {' '.join(learn)}"
    if freeze:
        if not isinstance(rule, AllBut):
            raise ConfigError(f"--freeze adds to what an architecture freezes, and {name} says only what learns.")
        return AllBut(*rule.patterns, *freeze), f"{name}, frozen {' '.join(freeze)}"
    return rule, name


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `partwise reproduce` will do: choose rates if there are grids, then run what is reported.

    Args:
        scale: of the recipe.
        experiments: those reported; where grids choose the rate, with the rate that the recipe starts from.
        grids: one an arm and size whose rate is chosen first.
        sentences: what was decided, for the reader.
    """

    scale: str
    experiments: list[Experiment]
    grids: list[Grid] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)

    def selection_runs(self) -> list[Experiment]:
        """The runs that rates are chosen by."""
        return [run for grid in self.grids for run in grid.runs()]

    def with_chosen(self, records: Sequence[RunRecord]) -> list[Experiment]:
        """What is reported, with the rates that the selection runs favour.

        Raises:
            ConfigError: no rate of some arm came through.
        """
        choices = [(grid, *grid.best(records)) for grid in self.grids]
        made = []
        for one in self.experiments:
            for grid, value, said in choices:
                if grid.decides(one):
                    one = dataclasses.replace(configs.replaced(one, grid.path, value), selection=said)
            made.append(one)
        return made


def planned(recipe: Recipe, scale: str, only: Sequence[str], seeds: Sequence[int] | None) -> Plan:
    """The recipe at a scale, with its own number of seeds or with these seeds.

    Raises:
        UnknownName: no such scale or task.
        ConfigError: a selection seed is among the reported ones.
    """
    if seeds is None:
        experiments = recipe.experiments(scale, only=only)
    else:
        once = recipe.experiments(scale, only=only, n_seeds=1)
        experiments = [dataclasses.replace(one, seed=seed) for seed in seeds for one in once]
    grids = recipe.grids(scale, only=only)
    both = {seed for grid in grids for seed in grid.seeds} & {one.seed for one in experiments}
    if both:
        raise ConfigError(f"seed {min(both)} chooses the rates, so it cannot be reported; choose other --seeds.")
    return Plan(scale=scale, experiments=experiments, grids=grids)


def within_budget(recipe: Recipe, only: Sequence[str], seconds: float, jobs: int) -> Plan:
    """The best rung of the ladder that fits, estimated on this machine.

    Raises:
        ConfigError: not even the smallest fits; the text says how long that takes.
    """
    rungs = [(scale, n_seeds) for scale, n_seeds in LADDER if scale in recipe.scales]
    if not rungs:
        raise ConfigError(f"this recipe has no scale that a budget could choose: {', '.join(recipe.scales)}.")
    for scale, n_seeds in (rungs[-1], *rungs):  # the smallest first: a budget below it is told so at once
        plan = planned(recipe, scale, only, range(n_seeds))
        needs = wall_seconds(costs([*plan.selection_runs(), *plan.experiments], seconds=0.5), jobs)
        if needs > 0.9 * seconds and (scale, n_seeds) == rungs[-1]:
            raise ConfigError(
                f"{short_time(seconds)} are not enough: the smallest comparison takes about {short_time(needs)} here, "
                "and a tenth is kept in reserve."
            )
        if needs <= 0.9 * seconds and (scale, n_seeds) != rungs[-1]:
            break
    return dataclasses.replace(plan, sentences=_told(recipe, scale, n_seeds, seconds, needs))


def _told(recipe: Recipe, scale: str, n_seeds: int, seconds: float, needs: float) -> list[str]:
    seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
    cannot = [*recipe.scales[scale].cannot_tell]
    if n_seeds < 3:
        cannot.append("how much results vary between seeds: no intervals, no verdicts")
    said = [f"{short_time(seconds)} allow scale {scale} with {seeds}: about {short_time(needs)}."]
    return said + ([f"It cannot tell {'; '.join(cannot)}."] if cannot else [])
