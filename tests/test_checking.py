"""`partwise check`: lines are shown and kept, a failing one is an exit code, figures stand beside them."""

import json
import math
from dataclasses import dataclass

import pytest
from test_messages import command  # noqa: F401  (a fixture)

from partwise.theory import CHECKS, Chart, Line


def line(predicted, measured, tolerance=0.1, **named):
    return Line(about="a coin", what="heads", predicted=predicted, measured=measured, tolerance=tolerance, **named)


@pytest.mark.parametrize(
    ("predicted", "measured", "relation", "holds"),
    [
        (0.5, 0.55, "=", True),
        (0.5, 0.65, "=", False),
        (0.5, 0.35, "=", False),
        (0.5, 0.2, "<=", True),
        (0.5, 0.65, "<=", False),
        (0.5, 0.8, ">=", True),
        (0.5, 0.35, ">=", False),
        (0.5, math.nan, "=", False),
        (math.nan, 0.5, "<=", False),
    ],
)
def test_a_line_holds_within_its_tolerance(predicted, measured, relation, holds):
    assert line(predicted, measured, relation=relation).holds is holds


def register(name, *lines):
    @CHECKS.register(name)
    @dataclass(frozen=True, kw_only=True)
    class Coin:
        """Heads and tails."""

        def run(self):
            yield from lines
            yield Chart(name=name, draw=drawing)


def drawing():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2, 2))
    figure.subplots().plot([0, 1])
    return figure


def test_a_failing_line_is_exit_code_one_and_all_is_kept(command, tmp_path):  # noqa: F811
    register("fair_coin", line(0.5, 0.55, because="2 standard errors"))
    register("false_coin", line(0.5, 0.55), line(0.5, 0.9))
    code, out, error = command("check theory --only fair_coin --out out")
    assert code == 0, error
    assert "fair_coin: Heads and tails." in out
    assert " heads 0.500 0.550 ±0.100 holds" in " ".join(out.split())
    assert "1 of 1 lines hold" in out
    page = (tmp_path / "out" / "fair_coin.md").read_text()
    assert "| heads | 0.500 | 0.550 | 0.100 (2 standard errors) | holds |" in page
    assert (tmp_path / "out" / "fair_coin.png").stat().st_size > 1000

    code, out, _ = command("check theory --only false_coin,fair_coin --out out")
    assert code == 1
    assert "1 of 2 lines hold" in out
    kept = json.loads((tmp_path / "out" / "false_coin.json").read_text())
    assert [one["holds"] for one in kept] == [True, False]
