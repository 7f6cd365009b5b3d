import ast
import json
from pathlib import Path

import pytest

import partwise.report
from partwise.report import cells, paper_values
from partwise.report.cell import canonical
from partwise.report.groups import groups
from partwise.rows import Row

KEYS = [
    "task",
    "architecture",
    "settings",
    "metric",
    "headline",
    "unit",
    "split",
    "mean",
    "ci_low",
    "ci_high",
    "interval",
    "n",
    "n_failed",
    "solved",
    "retained",
    "retained_low",
    "retained_high",
    "floor",
    "ceiling",
    "paper",
    "paper_status",
    "trainable_parameters",
    "total_parameters",
    "tokens",
    "flops",
    "matching",
    "selection",
    "runs",
]


def heads(records):
    return {(cell.architecture, *cell.settings.values()): cell for cell in cells(records) if cell.headline}


def test_a_cell_has_the_agreed_keys_in_order(study):
    for cell in cells(study):
        plain = cell.to_plain()
        assert list(plain)[: len(KEYS)] == KEYS
        json.dumps(plain, allow_nan=False)


def test_a_cell_says_what_its_runs_reached(study):
    cell = heads(study)["frozen_qk",]
    assert cell.values == [0.99, 0.97, 0.95]
    assert cell.seeds == [0, 1, 2]
    assert (cell.mean, cell.n, cell.n_failed, cell.solved) == (pytest.approx(0.97), 3, 0, 3)
    assert (cell.floor, cell.floor_name, cell.ceiling) == (pytest.approx(0.2), "guess", 1.0)
    assert cell.closed == pytest.approx((0.97 - 0.2) / 0.8)
    assert cell.retained == pytest.approx((2.91 - 0.6) / (2.975 - 0.6))
    assert (cell.trainable_parameters, cell.total_parameters, cell.tokens, cell.flops) == (800, 1000, 5000, 1e9)
    assert (cell.still_rising, cell.steps, cell.matching) == (False, 100, "steps")


def test_a_diverged_run_is_a_row_and_neither_a_score_nor_a_gap(study):
    found = heads(study)
    assert (found["mixit",].n, found["mixit",].n_failed) == (3, 1)
    lost = found["frozen_mlp",]
    assert (lost.mean, lost.n, lost.n_failed, lost.solved, lost.interval) == (None, 0, 1, 0, None)
    assert (lost.trainable_parameters, lost.retained_reason) == (1000, "no run was scored")
    assert len(lost.runs) == 1


def test_a_task_of_which_every_run_failed_still_has_a_cell(run):
    record = run("standard", status="failed", detail="OSError: disk full", steps=0)
    record.headline, record.rows = {}, []
    (cell,) = cells([record])
    assert (cell.headline, cell.mean, cell.n_failed, cell.total_parameters) == (True, None, 1, None)
    assert cell.notes == ["seed 0 failed: OSError: disk full."]
    json.dumps(cell.to_plain(), allow_nan=False)


def test_one_metric_a_task_is_the_headline_and_strata_are_not(study):
    made = cells(study)
    assert {(cell.metric, cell.split) for cell in made if cell.headline} == {("accuracy", "test")}
    strata = [cell for cell in made if cell.split != "test" and cell.architecture == "standard"]
    assert [cell.split for cell in strata] == ["test/n_pairs=1", "test/n_pairs=2", "test/n_pairs=10"]
    assert all(cell.solved is None and cell.retained is None and cell.floor is None for cell in strata)
    assert all(cell.ceiling == 1.0 and cell.paper is None for cell in strata)


def test_the_floor_of_a_stratum_is_that_of_the_whole_test_set_on_its_own_examples(run):
    stratum = {"where": "test/n_pairs=3", "n": 50}
    rows = (
        Row(quantity="accuracy", value=0.9, **stratum),
        Row(quantity="accuracy.floor.guess", value=0.3, **stratum),
        Row(quantity="accuracy.floor.last", value=0.4, **stratum),
    )
    (_, cell) = cells([run(extra=rows)])
    assert (cell.split, cell.floor, cell.floor_name, cell.n_examples) == ("test/n_pairs=3", 0.3, "guess", 50)
    assert cell.closed == pytest.approx(0.6 / 0.7)


def test_a_cell_knows_its_rate_and_how_many_examples_it_was_tested_on(study):
    cell = heads(study)["standard",]
    assert (cell.lr, cell.n_examples) == (0.01, 4000)
    assert heads(study)["frozen_mlp",].n_examples is None
    plain = list(cell.to_plain())
    assert plain[len(KEYS) : len(KEYS) + 3] == ["lr", "n_examples", "retained_interval"]


def test_an_arm_whose_every_run_failed_takes_the_metrics_name_from_another_arm(run):
    lost = run("frozen_qk", status="failed", steps=0)
    lost.headline, lost.rows = {}, []
    assert heads([lost, run("standard")])["frozen_qk",].metric == "accuracy"


def test_steps_that_are_not_those_of_standard_are_known_where_arms_are_matched_by_steps(run):
    def other(**settings):
        cell = heads([run("standard", **settings), run("mixit", train__steps=200, **settings)])["mixit",]
        return cell.other_steps

    assert other()
    assert not other(matching="flops")
    early = [run("standard"), run("mixit", stopped_early=True, steps=40)]
    assert not heads(early)["mixit",].other_steps, "it was asked for as many"


def test_architectures_stand_as_in_the_papers_table_and_changed_ones_behind_their_own():
    names = ["mine", "mixit", "standard_published", "interleaved", "standard, frozen embed", "frozen_qk", "standard"]
    assert canonical(names) == [
        *("standard", "standard, frozen embed", "frozen_qk", "mixit"),
        *("interleaved", "standard_published", "mine"),
    ]


def test_settings_are_what_varies_and_never_a_seed(run):
    records = [
        run(arch, seed, task__n_pairs=pairs, init_seed=seed)
        for arch in ("standard", "mixit")
        for seed in (0, 1)
        for pairs in (4, 8)
    ]
    assert [cell.settings for cell in cells(records)] == [{"task.n_pairs": 4}] * 2 + [{"task.n_pairs": 8}] * 2


def test_what_makes_an_architecture_or_follows_from_the_task_is_no_setting(run):
    records = [
        run(arch, task__n_pairs=pairs, model__width=width, train__lr=rate)
        for arch, width in (("standard", 64), ("mixit", 70))
        for pairs, rate in ((4, 0.1), (8, 0.2))
    ]
    assert {tuple(cell.settings) for cell in cells(records)} == {("task.n_pairs",)}


def test_a_rate_that_varies_in_one_arm_splits_that_arm_alone(run):
    records = [run("standard"), run("frozen_qk", value=0.9), run("frozen_qk", value=0.3, train__lr=1.0)]
    found = heads(records)
    assert set(found) == {("standard",), ("frozen_qk", 0.01), ("frozen_qk", 1.0)}
    assert found["frozen_qk", 1.0].retained == pytest.approx(0.125), "its rate is the arm's own choice"
    rows = [(group.label, list(group.arms)) for group in groups(cells(records))]
    assert rows == [("lr=0.01", ["standard", "frozen_qk"]), ("lr=1", ["frozen_qk"])]


def test_an_arm_of_another_width_is_not_measured_against_standard(run):
    records = [run("standard"), run("frozen_qk"), run("frozen_qk", model__width=128)]
    assert heads(records)["frozen_qk", 128].retained_reason == "no standard arm at the same settings"


def test_the_same_run_in_two_folders_counts_once(arm):
    records = arm("standard", [1.0, 0.9])
    assert [cell.n for cell in cells(records + records)] == [2]


def test_runs_that_share_a_seed_are_averaged_before_they_are_paired(run, arm):
    records = arm("standard", [1.0, 1.0])
    records += [run("frozen_qk", seed, value, frozen_seed=draw) for seed, draw, value in
                ((0, 1, 0.6), (0, 2, 0.8), (1, 1, 0.5), (1, 2, 0.7))]  # fmt: skip
    cell = heads(records)["frozen_qk",]
    assert cell.n == 4
    assert cell.retained == pytest.approx((0.5 + 0.4) / 1.6)
    assert (cell.retained_low, cell.retained_high) == (pytest.approx(0.5), pytest.approx(0.625)), (
        "a range, of two seeds"
    )
    assert cell.retained_interval == "range"


def test_lower_can_be_better(run):
    error = {"name": "squared_error", "unit": "", "better": "lower", "low": 0.0, "high": None, "perfect": 0.0}
    records = [run("standard", s, 0.02, headline=error, floor=2.0, gain=-0.1) for s in range(3)]
    records += [run("mixit", s, 1.5 + s / 100, headline=error, floor=2.0) for s in range(3)]
    found = heads(records)
    assert found["standard",].floor == 2.0, "the best floor is the least"
    assert found["standard",].solved == 3
    assert found["standard",].still_rising, "an error that falls"
    assert found["mixit",].retained == pytest.approx(0.49 / 1.98)


def test_without_floors_the_floor_is_zero_where_higher_is_better(run):
    assert heads([run(floor=None)])["standard",].floor == 0.0


def test_the_papers_value_comes_with_setting_and_status(run):
    found = heads([run("frozen_qk", value=0.9), run("frozen_mlp"), run("embeddings_only")])
    quoted = found["frozen_qk",]
    assert (quoted.paper, quoted.paper_status) == (0.97, "second-hand")
    assert "n_pairs=30" in quoted.paper_setting
    assert "arXiv:2506.01115" in quoted.paper_setting
    assert (found["frozen_mlp",].paper, found["frozen_mlp",].paper_status) == (None, "second-hand")
    assert (found["embeddings_only",].paper, found["embeddings_only",].paper_status) == (None, "not known")
    known = {1.0, 0.97, None, 0.112, 2.98, 2.25, 2.18, 1.13} | {2.78, 3.07, 3.73}
    assert {entry.value for entry in paper_values().values()} == known


def test_a_number_that_is_not_finite_is_no_score(run):
    (cell,) = cells([run(value=float("nan"))])
    assert (cell.n, cell.mean, cell.notes) == (0, None, ["seed 0 trained to the end and has no accuracy."])


def test_the_report_knows_rows_and_never_the_model():
    allowed = ("partwise.records", "partwise.rows", "partwise.errors", "partwise.report")
    slow = ("matplotlib", "scipy", "rich", "numpy")
    for path in Path(partwise.report.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        names = {(n.module if isinstance(n, ast.ImportFrom) else n.names[0].name): n for n in nodes}
        assert not any(name.split(".")[0] == "torch" for name in names), path
        assert all(name.startswith(allowed) for name in names if name.startswith("partwise")), path
        assert not any(n in tree.body for name, n in names.items() if name.split(".")[0] in slow), path


def test_rows_of_other_places_are_no_cells(run):
    place = {"where": "blocks.0.token_mixer.mix", "quantity": "mix_entropy", "unit": "bit"}
    made = cells([run(seed=seed, extra=(Row(value=seed, **place),)) for seed in (0, 1)])
    assert [cell.metric for cell in made] == ["accuracy"]
    assert made[0].probes == {("mix_entropy", "bit", "blocks.0.token_mixer.mix"): 0.5}
    assert "probes" not in made[0].to_plain()


def test_a_rate_that_was_chosen_at_each_setting_is_no_row_of_its_own(arm):
    """Standard and frozen_qk at two scales, each with a rate of its own: they are still measured against each other."""
    rates = {("standard", 1.0): 0.003, ("standard", 2.0): 0.01, ("frozen_qk", 1.0): 0.01, ("frozen_qk", 2.0): 0.01}
    records = [
        record
        for (name, scale), lr in rates.items()
        for record in arm(name, [1.0, 0.99, 0.98], train__lr=lr, model__qk_scale=scale)
    ]
    found = [cell for cell in cells(records) if cell.headline]
    assert [cell.settings for cell in found] == [{"model.qk_scale": scale} for scale in (1.0, 1.0, 2.0, 2.0)]
    assert all(cell.retained == 1.0 for cell in found if cell.architecture == "frozen_qk")
    assert [len(group.arms) for group in groups(found)] == [2, 2]


def test_a_rate_that_is_varied_by_itself_is_a_row(arm):
    records = [record for lr in (0.003, 0.01) for record in arm("standard", [1.0, 0.9], train__lr=lr)]
    assert [cell.settings for cell in cells(records) if cell.headline] == [{"train.lr": 0.003}, {"train.lr": 0.01}]
