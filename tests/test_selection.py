"""Rates are chosen on validation, by seeds that are not reported; test is never read."""

import dataclasses

import pytest
from small import experiment

from partwise.errors import ConfigError
from partwise.records import RunRecord
from partwise.rows import Row
from partwise.selection import Grid, page

METRIC = {"name": "accuracy", "unit": "", "better": "higher", "low": 0.0, "high": 1.0, "perfect": 1.0}


def record(one, validation, *, loss=1.0, test=0.5, status="done", metric=METRIC, solved=False):
    return RunRecord(
        digest=one.digest,
        architecture="standard",
        matching="steps",
        selection="",
        experiment={},
        status=status,
        headline=metric,
        rows=[Row(where="test", quantity="accuracy", value=test)],
        history=[
            {"step": 1, "validation": {"accuracy": 0.0, "loss": 9.0}},
            {"step": 2, "validation": {"accuracy": validation, "loss": loss, "solved": solved}},
        ],
    )


def chosen(scores, **changes):
    grid = Grid(base=experiment(), values=(1e-3, 3e-3, 1e-2))
    records = [record(one, score, **changes) for one, score in zip(grid.runs(), scores, strict=True)]
    return grid.best(records)


def test_the_best_mean_over_selection_seeds_wins():
    rate, said = chosen([0.1, 0.2, 0.9, 0.5, 1.0, 0.1])
    assert rate == 3e-3
    assert said == "train.lr 0.003 of {0.001, 0.003, 0.01}, the best mean on validation of seeds 1000, 1001"


RATES = (1e-3, 3e-3, 1e-2, 3e-2)


@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        ((0.5, 1.0, 1.0, 1.0), 1e-2),  # the middle of three, though all tie
        ((1.0, 1.0, 1.0, 0.3), 3e-3),
        ((0.5, 0.98, 0.99, 0.3), 3e-3),  # of two, the lower ...
        ((0.5, 0.91, 0.99, 0.3), 1e-2),  # ... unless the other is much better
        ((0.5, 0.7, 0.95, 0.96), 1e-2),
        ((0.95, 0.2, 0.2, 0.2), 1e-3),
    ],
)
def test_of_the_rates_that_solve_it_the_middle_one_is_taken(scores, rate):
    """The highest has the lowest loss, and on another seed it may fail."""
    grid = Grid(base=experiment(), values=RATES)
    of = dict(zip(RATES, scores, strict=True))
    records = [
        record(one, of[one.train.lr], loss=1e-4 / one.train.lr, solved=of[one.train.lr] > 0.9) for one in grid.runs()
    ]
    found, said = grid.best(records)
    assert found == rate
    assert "the middle of those that solve it on validation" in said


def test_a_rate_that_solves_it_with_one_seed_only_is_not_among_the_solving():
    grid = Grid(base=experiment(), values=(1e-3, 3e-3, 1e-2))
    records = [record(one, 1.0, solved=(one.train.lr, one.seed) != (3e-3, 1001)) for one in grid.runs()]
    assert grid.best(records)[0] == 1e-3


def test_where_scores_tie_the_lower_loss_wins():
    grid = Grid(base=experiment(), values=(1e-3, 3e-3, 1e-2))
    losses = (0.3, 0.3, 0.1, 0.1, 0.2, 0.2)
    records = [record(one, 1.0, loss=loss) for one, loss in zip(grid.runs(), losses, strict=True)]
    assert grid.best(records)[0] == 3e-3


def test_a_winner_at_the_edge_is_marked():
    assert chosen([0, 0, 0, 0, 1, 1])[1].endswith("; at the edge of its grid")


def test_a_run_that_is_lucky_on_test_is_not_picked():
    grid = Grid(base=experiment(), values=(1e-3, 3e-3))
    records = [
        record(one, 0.4, test=1.0) if one.train.lr == 1e-3 else record(one, 0.6, test=0.0) for one in grid.runs()
    ]
    assert grid.best(records)[0] == 3e-3


def test_a_diverged_run_makes_its_rate_lose():
    grid = Grid(base=experiment(), values=(1e-3, 3e-3))
    runs = grid.runs()
    records = [
        record(runs[0], 0.1),
        record(runs[1], 0.1),
        record(runs[2], 0.9),
        record(runs[3], 0.9, status="diverged"),
    ]
    assert grid.best(records)[0] == 1e-3
    with pytest.raises(ConfigError, match="came through"):
        grid.best([record(one, 0.5, status="diverged") for one in runs])


@pytest.mark.parametrize("lost", ["missing", "failed"])
def test_no_rate_is_chosen_while_a_selection_run_is_missing_or_failed(lost):
    """Another process may have it: what is left would choose another rate, and sound as sure."""
    grid = Grid(base=experiment(), values=(1e-3, 3e-3))
    records = [record(one, 0.5) for one in grid.runs()]
    records[-1] = dataclasses.replace(records[-1], status="failed")
    with pytest.raises(ConfigError, match="1 of its 4 selection runs failed or belong to another process"):
        grid.best(records[:3] if lost == "missing" else records)


def test_a_score_that_is_no_number_loses():
    """A nan is null in the file that a second start reads."""
    grid = Grid(base=experiment(), values=(1e-3, 3e-3))
    records = [record(one, 0.1 if one.train.lr == 1e-3 else 0.9) for one in grid.runs()]
    records[-1].history[-1]["validation"]["loss"] = None
    assert grid.best(records)[0] == 1e-3


def test_less_is_better_where_the_metric_says_so():
    lower = METRIC | {"better": "lower"}
    assert chosen([0.1, 0.1, 0.5, 0.5, 0.9, 0.9], metric=lower)[0] == 1e-3


def test_selection_seeds_are_not_the_reported_ones():
    grid = Grid(base=experiment(), values=(1e-3,))
    assert not {one.seed for one in grid.runs()} & set(range(100))
    assert dataclasses.replace(grid.runs()[0], seed=0).digest == experiment(train__lr=1e-3).digest


def test_the_page_shows_what_was_tried_and_marks_the_choice():
    grid = Grid(base=experiment(), values=(1e-3, 3e-3))
    records = [record(one, score) for one, score in zip(grid.runs(), [0.25, 0.5, 1.0, 0.75], strict=True)]
    records[0].status = "diverged"
    text = page([grid], records)
    assert "| standard | 1000, 1001 | 0.001: diverged, 0.5; **0.003: 1, 0.75** | train.lr 0.003 |" in text
    assert "| needle (n_pairs=2, min_pairs=1, n_values=5) |" in text
    scaled = Grid(base=experiment(model__token_mixer__qk_scale=2.0), values=(1e-3,))
    records += [record(one, 0.5) for one in scaled.runs()]
    text = page([grid, scaled], records)
    assert "n_values=5, token_mixer.qk_scale=1) |" in text
    assert "n_values=5, token_mixer.qk_scale=2) |" in text


def test_a_choice_holds_for_the_bases_own_task_and_model_or_for_the_tasks_named():
    base = experiment(model__token_mixer__qk_scale=2.0)
    grid = Grid(base=base, values=(1e-3,))
    assert grid.decides(dataclasses.replace(base, seed=7))
    assert grid.decides(experiment(model__token_mixer__qk_scale=2.0, train__steps=60, train__lr=1e-2))
    assert not grid.decides(experiment())
    larger = experiment(task__n_pairs=4)
    assert not grid.decides(larger)
    wide = Grid(base=base, values=(1e-3,), holds_for=(larger.task,))
    assert wide.decides(larger)
    assert not wide.decides(base)
    assert not wide.decides(dataclasses.replace(larger, architecture="frozen_qk"))


def test_a_grid_is_ascending():
    with pytest.raises(ConfigError, match="ascending"):
        Grid(base=experiment(), values=(1e-2, 1e-3))
