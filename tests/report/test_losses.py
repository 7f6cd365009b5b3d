"""Scores whose best nobody knows: floors beside them, differences to standard, silence where standard is too weak."""

import json

import pytest

from partwise.report import cells, render, verdicts
from partwise.report.cell import Cell
from partwise.report.details import details
from partwise.report.groups import groups
from partwise.report.statistics import Score, difference

THREE = " (3 seeds at n_pairs=8, width 64)."


def told(records):
    (sentences,) = verdicts(cells(records)).values()
    return sentences


def test_an_arm_is_measured_by_its_difference_to_standard_paired_over_seeds(text):
    records = text("standard", [2.7, 2.8, 2.9]) + text("frozen_qk", [2.75, 2.86, 2.94])
    cell = next(cell for cell in cells(records) if cell.headline and cell.architecture == "frozen_qk")
    assert (cell.retained, cell.solved, cell.closed, cell.ceiling) == (None, None, None, None)
    assert cell.retained_reason == "nobody knows the best score"
    # differences .05, .06, .04: sd .01, t(.975, 2) = 4.303
    assert cell.difference == pytest.approx(0.05)
    assert cell.difference_high - cell.difference == pytest.approx(4.3027 * 0.01 / 3**0.5, abs=1e-5)
    assert told(records) == [f"frozen_qk loses .050 nats a token [.025, .075] against standard{THREE}"]


def test_who_gains_and_who_is_not_told_apart(text):
    standard = text("standard", [2.7, 2.8, 2.9])
    assert told(standard + text("mixit", [2.65, 2.74, 2.86])) == [
        f"mixit gains .050 nats a token [.025, .075] against standard{THREE}"
    ]
    assert told(standard + text("mixit", [2.75, 2.75, 2.9])) == [
        f"mixit is not told from standard: +.000 [−.124, .124] nats a token{THREE}"
    ]


def test_a_standard_that_hardly_beats_its_floor_is_too_short_to_tell(text):
    records = text("standard", [2.91, 2.92, 2.93]) + text("mixit", [3.5, 3.6, 3.7])
    assert told(records) == [
        "Too short to tell: standard's 2.92 is not 0.1 nats a token better than the floor (guess, 3.00), so nothing is "
        "learnt of its parts."
    ]
    assert all(cell.difference is None for cell in cells(records))
    assert "Too short to tell" in render(records)


@pytest.mark.parametrize(("n", "few"), [(1, "One seed, so no interval"), (2, "Two seeds, too few for a verdict")])
def test_few_seeds_are_told_and_nothing_inferred(n, few, text):
    records = text("standard", [2.7, 2.8][:n]) + text("mixit", [2.8, 2.9][:n]) + text("frozen_qk", [2.69, 2.79][:n])
    assert told(records) == [
        f"{few}: against standard, frozen_qk −.010, mixit +.100 nats a token. --seeds 5 gives a verdict."
    ]


def test_without_standard_nothing_is_told(text):
    assert told(text("mixit", [2.8, 2.8, 2.9])) == []


def test_other_units_and_every_floor_stand_below(text):
    records = text("standard", [2.7, 2.8, 2.9]) + text("mixit", [2.8, 2.9, 3.0])
    (group,) = groups(cells(records))
    (grid,) = details(group)
    assert grid.title == "language_model: in other units, and every floor"
    assert grid.header == ["arm or floor", "loss", "bits_per_byte"]
    assert grid.rows == [
        ["standard", "2.80", "1.40"],
        ["mixit", "2.90", "1.45"],
        ["guess", "3.00", "1.50"],
        ["worse_guess", "4.00", "2.00"],
    ]


def test_a_table_says_what_its_numbers_are(text):
    shown = render(text("standard", [2.7, 2.8, 2.9]) + text("mixit", [2.8, 2.91, 3.0]), width=120)
    assert "loss (nat), lower is better" in shown
    assert "+.103" in shown and "[.089, .118]" in shown
    assert "arm − standard" in shown and "k/n: k of n" not in shown
    assert "floor 3.00: guess" in shown
    assert "; ceiling" not in shown.split("floor: the best")[0]


def test_differences_are_exported(text):
    (cell,) = [
        cell
        for cell in json.loads(render(text("standard", [2.7] * 3) + text("mixit", [2.8, 2.9, 3.0]), "json"))
        if cell["headline"] and cell["architecture"] == "mixit"
    ]
    assert cell["difference"] == pytest.approx(0.2)
    assert cell["difference_low"] < 0.2 < cell["difference_high"]
    assert "margin" not in Cell.exported()


def test_a_difference_needs_shared_seeds():
    def scores(*values):
        return {seed: Score(value, 3.0, float("nan")) for seed, value in enumerate(values)}

    assert difference(scores(), scores(1.0)).mean is None
    assert difference(scores(1.5), scores(1.0, 2.0)).mean == 0.5
    two = difference(scores(1.5, 2.7), scores(1.0, 2.0))
    assert (two.low, two.high, two.kind) == (pytest.approx(0.5), pytest.approx(0.7), "range")
