"""Trajectories by place: what is drawn, and when a number sets in."""

import pytest
from report.conftest import make_run

from partwise.errors import ConfigError
from partwise.report import Panel, Places, draw_places, onsets
from partwise.report.places import curves, onset
from partwise.rows import Row

PANEL = Panel(title="noise", quantity="p_noise")
PLACES = Places(panels=(PANEL,))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({0: 0.0, 1: 0.1, 2: 0.9, 5: 1.0}, 2),
        ({0: 1.0, 10: 0.8, 20: 0.3, 30: 0.1}, 20),
        ({0: 0.0, 1: 0.9, 2: 0.1, 5: 0.8, 9: 1.0}, 5),  # from where on it stays
        ({0: 0.0, 1: 1.0, 2: 0.2}, None),  # it came back
        ({0: 0.5, 1: 0.5}, None),
    ],
)
def test_an_onset_is_where_the_middle_is_passed_for_good(values, step):
    assert onset(values) == step


def probed_run(seed, values, where="test/under=without blocks.1.channel_mixer", **named):
    rows = [Row(where=where, quantity="p_noise", value=value, step=step) for step, value in values.items()]
    record = make_run(seed=seed, **named)
    record.rows += rows
    return record


def test_onsets_have_an_interval_over_seeds():
    runs = [probed_run(seed, {0: 0.0, step: 1.0, 100: 1.0}) for seed, step in enumerate((10, 20, 30))]
    line = onsets(runs, PLACES).splitlines()[-1]
    assert line.startswith("| noise | ")
    assert "without blocks.1.feed-forward | 20 [" in line
    assert line.endswith("| 3 of 3 |")


def test_only_the_runs_that_were_asked_for_are_drawn(tmp_path):
    runs = [probed_run(0, {0: 0.1, 5: 0.9}), probed_run(1, {0: 0.2, 5: 0.8})]
    assert [len(seeds) for lines in curves(runs, PLACES, PANEL).values() for seeds in lines.values()] == [2]
    nothing = Places(panels=(PANEL,), of={"seed": 99})
    assert curves(runs, nothing, PANEL) == {}
    with pytest.raises(ConfigError, match="no run here was looked at while it trained"):
        draw_places(runs, tmp_path / "figure.png", nothing)
    path = draw_places(runs, tmp_path / "figure.png", PLACES)
    assert path.stat().st_size > 5000
    assert path.read_bytes() == draw_places(runs, tmp_path / "again.png", PLACES).read_bytes()
