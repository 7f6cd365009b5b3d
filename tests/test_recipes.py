"""Every recipe as plain data, pinned; digests, pinned; costs, sane."""

import dataclasses

import pytest
from pinned import pinned
from small import experiment

from partwise import configs
from partwise.compose import base_for, experiments_for
from partwise.experiment import Experiment
from partwise.plan import costs, short_time, wall_seconds
from partwise.recipes import RECIPES
from partwise.tasks import TASKS

CASES = [(name, scale) for name in RECIPES.names() for scale in RECIPES[name].scales]


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_a_recipe_is_the_pinned_data(name, scale):
    made = RECIPES[name]().experiments(scale, n_seeds=1)
    found = [configs.to_plain(one, without_defaults=True) | {"architecture": one.architecture} for one in made]
    assert found == pinned(f"golden/{name}-{scale}.json", found)


@pytest.mark.parametrize(("name", "scale"), CASES)
def test_a_recipe_reads_back_from_its_plain_data_and_is_possible(name, scale):
    for one in RECIPES[name]().experiments(scale, n_seeds=1):
        assert configs.from_plain(Experiment, configs.to_plain(one)) == one
        assert one.check().total > 0


@pytest.mark.parametrize("name", RECIPES.names())
def test_seeds_are_those_asked_for_and_arms_share_data_and_steps(name):
    recipe = RECIPES[name]()
    made = recipe.experiments("quick", n_seeds=3)
    assert sorted({one.seed for one in made}) == [0, 1, 2]
    for task in recipe.tasks:
        arms = [one for one in made if one.task.registered_name == task]
        assert len({(one.task, one.train.steps, one.train.batch) for one in arms}) == 1


def test_twenty_digests_do_not_move():
    made = [one for name in RECIPES.names() for one in RECIPES[name]().experiments("quick", n_seeds=2)][:20]
    found = {f"{one.task.registered_name} {one.architecture} {one.seed}": one.digest for one in made}
    assert len(found) == 20
    assert found == pinned("golden/digests.json", found)


def test_a_task_without_a_recipe_starts_from_the_defaults():
    for name in TASKS.names():
        assert base_for(name).task.registered_name == name


def test_run_starts_each_architecture_from_the_recipes_own_rates():
    recipe = {one.architecture: one for one in RECIPES["mixit"]().experiments("quick", only=["needle"])}
    for one in experiments_for("needle", list(recipe), []):
        assert dataclasses.replace(one, selection="") == dataclasses.replace(recipe[one.architecture], selection="")


def test_costs_count_what_a_run_then_does(tmp_path):
    from partwise.experiment import run

    one = experiment()
    (cost,) = costs([one], seconds=0.05)
    record = run(one)
    assert cost.flops == pytest.approx(record.value("flops", where="train"), rel=1e-9)
    assert cost.tokens >= record.value("tokens", where="train")
    assert cost.census.learned == record.value("trainable_parameters", where="model")
    assert cost.seconds > 0


def test_runs_share_the_lanes():
    found = costs([experiment(seed=seed) for seed in range(4)], seconds=0.05)
    one, two = wall_seconds(found, 1), wall_seconds(found, 2)
    assert one - two == pytest.approx(2 * found[0].seconds)


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.2, "4 s"), (89, "89 s"), (91, "1.5 min"), (7200, "2.0 h"), (2e5, "2.3 d")]
)
def test_times_are_said_as_a_person_would(seconds, said):
    assert short_time(seconds) == said
