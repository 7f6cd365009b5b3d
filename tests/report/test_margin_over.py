"""A score that is compared once it is better than one floor, though another floor is better than it."""

import dataclasses

import pytest

from partwise.report import cells, render, verdicts
from partwise.tasks.sentiment import HEADLINE

PLACE = " (3 seeds at n_pairs=8, width 64)."


@pytest.fixture(name="reviews")
def records_of_sentiment(arm):
    """An arm of sentiment, beside a good floor of .9 and a weak one of .45, which the margin is counted from."""
    headline = dataclasses.asdict(HEADLINE) | {"margin_over": "worse_guess"}

    def made(architecture, values):
        return arm(architecture, values, task="sentiment", headline=headline, floor=0.9)

    return made


def told(records):
    (sentences,) = verdicts(cells(records)).values()
    return sentences


def test_arms_are_told_apart_below_the_best_floor(reviews):
    records = reviews("standard", [0.81, 0.82, 0.83]) + reviews("mixit", [0.56, 0.57, 0.58])
    assert told(records) == [f"mixit loses .250 of accuracy [.250, .250] against standard{PLACE}"]
    assert "floor .900: guess" in render(records, width=120)


def test_a_standard_that_hardly_guesses_better_tells_nothing(reviews):
    records = reviews("standard", [0.5, 0.54, 0.52]) + reviews("mixit", [0.56, 0.57, 0.58])
    assert told(records) == [
        "Too short to tell: standard's .520 is not 0.1 of accuracy better than the floor (worse_guess, .450), so "
        "nothing is learnt of its parts."
    ]
