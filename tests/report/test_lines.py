"""Scores against a setting: what is drawn where."""

import pytest

from partwise.errors import ConfigError
from partwise.report import View, draw_over, lines


@pytest.fixture
def drawn(keep_figures):
    return keep_figures(lines)


@pytest.fixture
def by_pairs(arm):
    """Two arms at three numbers of pairs, with floors that fall."""
    return [
        record
        for m, floor in ((4, 0.5), (8, 0.35), (16, 0.25))
        for name, value in (("standard", 0.99), ("mixit", floor - 0.02))
        for record in arm(name, [value - 0.01, value, value + 0.01], task__n_pairs=m, floor=floor)
    ]


def curve(axes, label):
    (line,) = (line for line in axes.lines if line.get_label() == label)
    return dict(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_a_line_an_arm_through_the_means_with_the_floor_below(by_pairs, drawn, tmp_path):
    draw_over(by_pairs, tmp_path / "a.png", View(over="task.n_pairs", label="pairs m", log=True))
    (axes,) = drawn[0].axes
    assert curve(axes, "standard") == pytest.approx({4: 0.99, 8: 0.99, 16: 0.99})
    assert curve(axes, "mixit") == pytest.approx({4: 0.48, 8: 0.33, 16: 0.23})
    assert curve(axes, "floor") == pytest.approx({4: 0.5, 8: 0.35, 16: 0.25})
    assert (axes.get_xlabel(), axes.get_xscale()) == ("pairs m", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16"]


def test_three_seeds_have_a_whisker_and_two_none(by_pairs, drawn, tmp_path):
    view = View(over="task.n_pairs")
    draw_over(by_pairs, tmp_path / "three.png", view)
    draw_over([one for one in by_pairs if one.seed < 2], tmp_path / "two.png", view)
    three, two = (sum(hasattr(c, "get_segments") for c in each.axes[0].collections) for each in drawn)
    assert (three, two) == (6, 0)


def test_an_arm_without_the_setting_is_a_level(by_pairs, arm, drawn, tmp_path):
    other = arm("embeddings_only", [0.4, 0.5])
    for record in other:
        del record.experiment["task"]["n_pairs"]
    draw_over([*by_pairs, *other], tmp_path / "a.png", View(over="task.n_pairs"))
    (level,) = (line for line in drawn[0].axes[0].lines if line.get_label() == "embeddings_only (has no such setting)")
    assert set(level.get_ydata()) == {0.45}


def test_flops_and_lines_of_several_architectures(arm, drawn, tmp_path):
    records = [
        *arm("standard", [0.9, 0.9], flops=4e9),
        *arm("late", [0.8, 0.8], flops=3e9),
        *arm("frozen_qk", [0.7, 0.7], flops=2e9),
        *arm("frozen_mlp", [0.2, 0.2], flops=1e9),
    ]
    queries = ("frozen_qk", "late", "standard")
    view = View(over="flops", lines={"queries": queries, "feed-forward": ("frozen_mlp", "standard")})
    draw_over(records, tmp_path / "a.png", view)
    (axes,) = drawn[0].axes
    assert curve(axes, "queries") == pytest.approx({2e9: 0.7, 3e9: 0.8, 4e9: 0.9})
    assert curve(axes, "feed-forward") == pytest.approx({1e9: 0.2, 4e9: 0.9})


def test_lines_by_seed_have_a_panel_an_arm(run, drawn, tmp_path):
    records = [
        run(name, seed, 0.1 * seed + 0.01 * draw, frozen_seed=draw)
        for name in ("frozen_qk", "mixit")
        for seed in (0, 1)
        for draw in (7, 8, 9)
    ]
    draw_over(records, tmp_path / "a.png", View(over="frozen_seed", by="seed"))
    one, other = drawn[0].axes
    assert "frozen_qk" in one.get_title() and "mixit" in other.get_title()
    assert curve(other, "seed 1") == pytest.approx({7: 0.17, 8: 0.18, 9: 0.19})


def test_a_second_metric_has_a_panel_of_its_own(arm, drawn, tmp_path):
    from partwise.rows import Row

    extra = (Row(where="test", quantity="exact_match", value=0.25),)
    records = [one for m in (4, 8) for one in arm("mixit", [0.5], task__n_pairs=m, extra=extra)]
    draw_over(records, tmp_path / "a.png", View(over="task.n_pairs", metrics=("", "exact_match")))
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["accuracy on test", "exact match on test"]
    assert curve(drawn[0].axes[1], "mixit") == {4: 0.25, 8: 0.25}


def test_what_cannot_be_drawn_is_said(by_pairs, run, arm, tmp_path):
    with pytest.raises(
        ConfigError, match=r"no two scored runs here differ in 'task\.n_pair'\. Did you mean 'task\.n_pairs'"
    ):
        draw_over(by_pairs, tmp_path / "a.png", View(over="task.n_pair"))
    with pytest.raises(ConfigError, match=r"differ in 'model\.width'\..* What differs: .*task\.n_pairs, flops\."):
        draw_over(by_pairs, tmp_path / "a.png", View(over="model.width"))
    with pytest.raises(ConfigError, match="differ in 'task"):
        draw_over([run(status="diverged")], tmp_path / "a.png", View(over="task.n_pairs"))
    with pytest.raises(ConfigError, match=r"and a\.gif does not"):
        draw_over(by_pairs, tmp_path / "a.gif", View(over="task.n_pairs"))
    switched = [one for on in (False, True) for one in arm("standard", [1.0], model__tied=on)]
    with pytest.raises(ConfigError, match=r"differ in 'model\.tied'"):
        draw_over(switched, tmp_path / "a.png", View(over="model.tied"))


def test_panels_wrap_and_one_without_the_setting_is_left_out(arm, drawn, tmp_path):
    records = [one for task in "abcd" for m in (4, 8) for one in arm("standard", [1.0], task=task, task__n_pairs=m)]
    other = arm("standard", [1.0], task="e")
    for record in other:
        del record.experiment["task"]["n_pairs"]
    draw_over([*reversed(records), *other], tmp_path / "a.png", View(over="task.n_pairs"))
    titles = [axes.get_title() for axes in drawn[0].axes if axes.axison]
    assert titles == ["a", "b", "c", "d"]


def test_the_same_runs_give_the_same_bytes(by_pairs, tmp_path):
    view = View(over="task.n_pairs")
    one, other = (draw_over(by_pairs, tmp_path / f"{name}.svg", view).read_bytes() for name in "ab")
    assert one == other


def test_a_panel_without_any_line_is_left_out(arm, drawn, tmp_path):
    standard = [*arm("standard", [1.0], flops=2.0), *arm("standard", [1.0], flops=3.0)]
    for record in standard[1:]:
        record.digest = "another"
    records = [*standard, *arm("mixit", [1.0], task="k_hop", flops=1.0)]
    draw_over(records, tmp_path / "a.png", View(over="flops", lines={"one": ("standard",)}))
    assert len(drawn[0].axes) == 1
