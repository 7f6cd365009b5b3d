"""From what a person asked for to experiments: `partwise run`, seeds, budgets."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise import configs
from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.parts import AllBut, LearnRule, Only
from partwise.plan import costs, short_time, wall_seconds
from partwise.recipes import RECIPES, Recipe
from partwise.tasks import TASKS


def base_for(task: str) -> Experiment:
    """A task with sizes and rates that are known to work: those of the quick recipe that has it, else the defaults.

    Raises:
        UnknownName: no such task.
    """
    made = TASKS[task]
    for name in RECIPES.names():
        recipe = RECIPES[name]()
        if task in recipe.tasks and "quick" in recipe.scales:
            return recipe.base(task)
    return Experiment(task=made())


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
    base = base_for(task)
    made = []
    for name in archs:
        chosen = architecture(name)
        rule, label = _rule(chosen.learn, name, learn, freeze)
        one = dataclasses.replace(base, model=chosen.model(base.model), learn=rule, architecture=label)
        for setting in settings:
            one = configs.replaced(one, *configs.parsed(setting))
        made.append(one)
    return [dataclasses.replace(one, seed=seed) for seed in seeds for one in made]


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


def with_seeds(recipe: Recipe, scale: str, only: Sequence[str], seeds: Sequence[int] | None) -> list[Experiment]:
    """The recipe's experiments, with its own number of seeds or with these seeds."""
    if seeds is None:
        return recipe.experiments(scale, only=only)
    once = recipe.experiments(scale, only=only, n_seeds=1)
    return [dataclasses.replace(one, seed=seed) for seed in seeds for one in once]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What fits a budget, and what it leaves open."""

    experiments: list[Experiment]
    scale: str
    sentences: list[str]


LADDER = (("small", 5), ("quick", 5), ("quick", 3), ("quick", 1), ("tiny", 3), ("tiny", 1))  # best first


def within_budget(recipe: Any, only: Sequence[str], seconds: float, jobs: int) -> Fitted:
    """The best rung of the ladder that fits, estimated on this machine.

    Raises:
        ConfigError: not even the smallest fits; the text says how long that takes.
    """
    for scale, n_seeds in LADDER:
        experiments = recipe.experiments(scale, only=only, n_seeds=n_seeds)
        needs = wall_seconds(costs(experiments, seconds=0.5), jobs)
        if needs <= 0.9 * seconds:
            seeds = "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
            said = [f"{short_time(seconds)} allow scale {scale} with {seeds}: about {short_time(needs)}."]
            cannot = [*recipe.scales[scale].cannot_tell]
            if n_seeds < 3:
                cannot.append("how much results vary between seeds: no intervals, no verdicts")
            if cannot:
                said.append(f"It cannot tell {'; '.join(cannot)}.")
            return Fitted(experiments=experiments, scale=scale, sentences=said)
    raise ConfigError(
        f"{short_time(seconds)} are not enough: the smallest comparison takes about {short_time(needs)} here."
    )
