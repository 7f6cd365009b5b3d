"""What the arms of a comparison are equal in: steps (as they come), parameters, or FLOPs.

parameters   the feed-forward widens or narrows until total parameters agree with standard's within 1 %
flops        an arm trains for as many steps as standard's FLOPs pay for
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.flops import flops_per_example, spent
from partwise.parts import census

Match = Literal["steps", "parameters", "flops"]
WITHIN = 0.01


def matched(experiments: Sequence[Experiment], by: Match) -> list[Experiment]:
    """The experiments, each made equal to the standard arm of its own task and seed.

    Raises:
        ConfigError: there is no standard arm to match, or an arm cannot be matched within 1 %.
    """
    if by == "steps":
        return list(experiments)
    standards = {(one.task, one.seed): one for one in experiments if one.arm == "standard"}
    change = _with_parameters if by == "parameters" else _with_flops
    found: dict[str, Experiment] = {}
    made = []
    for one in experiments:
        standard = standards.get((one.task, one.seed))
        if standard is None:
            raise ConfigError(f"--match {by} needs the standard arm of {one.task} beside {one.arm}.")
        if one.kind not in found:
            found[one.kind] = one if one.arm == "standard" else change(one, standard)
        made.append(dataclasses.replace(found[one.kind], seed=one.seed, matching=by))
    return made


def _with_parameters(one: Experiment, standard: Experiment) -> Experiment:
    """The hidden width at which the totals agree, found by two counts, since the count is linear in it."""
    wanted = _total(standard)
    if abs(_total(one) - wanted) <= WITHIN * wanted:
        return one
    if not hasattr(one.model.channel_mixer, "hidden"):
        raise ConfigError(f"--match parameters widens the feed-forward, and {one.arm} has none to widen.")

    def hidden(width: int) -> Experiment:
        return replaced(one, "model.channel_mixer.hidden", width)

    each = _total(hidden(2)) - _total(hidden(1))
    width = round((wanted - _total(hidden(1))) / each) + 1 if each else 0
    if width < 1 or abs(_total(hidden(width)) - wanted) > WITHIN * wanted:
        raise ConfigError(
            f"{one.arm} cannot be given {wanted:,} parameters by its feed-forward (nearest hidden: {width})."
        )
    return hidden(width)


def _total(one: Experiment) -> int:
    _, model = one.build()
    return census(model, one.learn).total


def _with_flops(one: Experiment, standard: Experiment) -> Experiment:
    budget = _flops(standard, standard.train.steps)
    steps = max(1, round(one.train.steps * budget / _flops(one, one.train.steps)))
    return replaced(one, "train.steps", steps)


def _flops(one: Experiment, steps: int) -> float:
    data, model = one.build()
    return spent(flops_per_example(model, data, one.learn), steps, one.train.batch)
