"""Every recipe as plain data, pinned; digests, pinned; costs, sane."""

import dataclasses

import pytest
from pinned import pinned
from small import experiment

from partwise import configs
from partwise.compose import base_for, experiments_for, planned, within_budget
from partwise.display import places
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.parts import AllBut, Census, Stages
from partwise.plan import Cost, costs, short_time, wall_seconds
from partwise.recipes import RECIPES
from partwise.records import RunRecord
from partwise.registry import name_of
from partwise.report import View
from partwise.report.settings import flatten
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


def trained(recipe):
    """Quick, or small where quick only looks at models as they are drawn."""
    return "small" if "quick" in getattr(recipe, "as_drawn", ()) else "quick"


@pytest.mark.parametrize("name", RECIPES.names())
def test_seeds_are_those_asked_for_and_arms_share_data_and_steps(name):
    recipe = RECIPES[name]()
    made = recipe.experiments(trained(recipe), n_seeds=3)
    assert sorted({one.seed for one in made}) == [0, 1, 2]
    assert {one.task.registered_name for one in made} == set(recipe.tasks)
    for task in {one.task for one in made}:
        arms = [one for one in made if one.task == task]
        assert len({(one.train.steps, one.train.batch) for one in arms}) == 1


@pytest.mark.parametrize("name", [name for name in RECIPES.names() if name != "mixit"])
def test_a_sweep_says_what_it_is_drawn_over_and_its_grids_decide_each_arm_once(name):
    recipe = RECIPES[name]()
    scale = trained(recipe)
    made, grids = recipe.experiments(scale, n_seeds=1), recipe.grids(scale)
    assert len({one.digest for one in made}) == len(made)
    if isinstance(recipe.view, View) and recipe.view.over not in ("flops", "step"):
        flats = [flatten(configs.to_plain(one)) for one in made]
        values = {flat.get(recipe.view.over) for flat in flats}
        assert len(values) >= 3
    assert all(sum(grid.decides(one) for grid in grids) <= 1 for one in made)
    assert all(any(grid.decides(one) for one in made) for grid in grids)


def test_unfreezing_starts_each_part_when_it_says():
    made = {one.architecture: one for one in RECIPES["unfreezing"]().experiments("quick", n_seeds=1)}
    late = made["queries and keys from 25 %"]
    _, model = late.build()
    assert late.learn.changes() == (late.train.steps // 4,)
    query = "blocks.0.token_mixer.query.weight"
    assert query not in late.learn.learning(model, 0)
    assert query in late.learn.learning(model, late.train.steps // 4)
    lines = RECIPES["unfreezing"].view.lines
    assert {name for line in lines.values() for name in line} == set(made)


def test_interleaved_has_every_pattern_of_three_blocks_once():
    made = RECIPES["interleaved"]().experiments("quick", n_seeds=1)
    patterns = {tuple(name_of(one.model.block(i).token_mixer) for i in range(3)) for one in made}
    assert len(made) == len(patterns) == 8
    by_name = {one.architecture: one for one in made}
    assert {name_of(by_name["mixit"].model.block(i).token_mixer) for i in range(3)} == {"random_mixing"}
    assert {name_of(by_name["standard"].model.block(i).token_mixer) for i in range(3)} == {"attention"}


def test_large_holds_small():
    small, large = (RECIPES["mixit"]().experiments(scale, n_seeds=1) for scale in ("small", "large"))
    assert {one.digest for one in small} < {one.digest for one in large}


def test_paper_tries_the_published_rates():
    grids = RECIPES["mixit"]().grids("paper", only=["addition", "needle"])
    values = {(grid.base.task.registered_name, grid.values) for grid in grids}
    assert values == {("needle", (5e-4, 8e-4, 1e-3)), ("addition", (5e-4, 8e-4, 1e-3, 1e-2))}


def test_twenty_digests_do_not_move():
    made = RECIPES["mixit"]().experiments("quick", n_seeds=2)[:20]
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


def test_a_staged_run_costs_what_its_stages_do():
    def flops(**learn):
        return costs([experiment(**learn)], seconds=0.05)[0].flops

    frozen, whole = AllBut("blocks.*.channel_mixer"), AllBut()
    late = flops(learn=Stages((0, frozen), (15, whole)))
    assert late == pytest.approx((flops(learn=frozen) + flops(learn=whole)) / 2)


def test_a_place_names_what_varies():
    runs = [experiment(model__token_mixer__qk_scale=scale, train__lr=lr) for scale in (1.0, 2.0) for lr in (1e-3, 3e-3)]
    assert places(runs)[0] == "needle m=2 token_mixer.qk_scale=1, lr=0.001"
    assert places(runs, with_rate=False)[-1] == "needle m=2 token_mixer.qk_scale=2"
    assert places(runs[:1]) == ["needle m=2"]


def test_runs_share_the_lanes():
    found = costs([experiment(seed=seed) for seed in range(4)], seconds=0.05)
    one, two = wall_seconds(found, 1), wall_seconds(found, 2)
    assert one - two == pytest.approx(2 * found[0].seconds)


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.2, "4 s"), (89, "89 s"), (91, "1.5 min"), (7200, "2.0 h"), (2e5, "2.3 d")]
)
def test_times_are_said_as_a_person_would(seconds, said):
    assert short_time(seconds) == said


@pytest.mark.parametrize(
    ("each", "minutes", "scale", "n_seeds"),
    [
        (1.0, 600, "large", 5),
        (10.0, 18, "small", 5),
        (10.0, 10, "quick", 5),
        (10.0, 4, "quick", 3),
        (10.0, 1.1, "quick", 1),
    ],
)
def test_a_budget_takes_the_best_rung_that_fits_and_says_what_it_cannot_tell(
    each, minutes, scale, n_seeds, monkeypatch
):
    counted = Census(learned=1, frozen=0, fixed=0, parts=("embed",))
    cost = Cost(census=counted, steps=1, tokens=1.0, flops=1.0, seconds=each)
    monkeypatch.setattr("partwise.compose.costs", lambda runs, seconds: [cost for _ in runs])
    plan = within_budget(RECIPES["mixit"](), ["needle", "memorization"], 60 * minutes, jobs=2)
    assert (plan.scale, len({one.seed for one in plan.experiments})) == (scale, n_seeds)
    said = " ".join(plan.sentences)
    assert f"allow scale {scale}" in said
    assert ("no intervals, no verdicts" in said) == (n_seeds < 3)
    assert ("needle beyond 8 pairs" in said) == (scale == "quick")


def test_a_selection_seed_is_never_reported():
    with pytest.raises(ConfigError, match="seed 1000 chooses the rates"):
        planned(RECIPES["mixit"](), "small", ["needle"], [0, 1000])


def test_the_chosen_rate_reaches_every_reported_seed():
    plan = planned(RECIPES["mixit"](), "small", ["memorization"], [0, 1])
    wanted = {grid.base.architecture: grid.values[1] for grid in plan.grids}

    def record(one):
        score = 1.0 if one.train.lr == wanted[one.architecture] else 0.0
        return RunRecord(
            digest=one.digest,
            architecture=one.architecture,
            matching="steps",
            selection="",
            experiment={},
            status="done",
            headline={"name": "bits", "better": "higher"},
            history=[{"step": 1, "validation": {"bits": score, "loss": 1.0}}],
        )

    reported = plan.with_chosen([record(one) for one in plan.selection_runs()])
    assert [one.seed for one in reported] == [one.seed for one in plan.experiments]
    assert all(one.train.lr == wanted[one.architecture] for one in reported)
    assert all("on validation of seeds 1000, 1001" in one.selection for one in reported)
