import pytest

from partwise.errors import ConfigError
from partwise.report import draw, figure


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_figure_is_written_for_each_suffix(study, tmp_path, suffix, start):
    path = draw(study, tmp_path / "deep" / f"figure.{suffix}")
    assert path.read_bytes().startswith(start)
    assert [left.name for left in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_same_runs_give_the_same_bytes(study, tmp_path, suffix):
    one, other = (draw(study, tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert one == other


def test_one_run_is_enough(run, tmp_path):
    assert draw([run()], tmp_path / "one.png").stat().st_size > 1000
    assert draw([run(status="diverged", steps=3)], tmp_path / "none.png").stat().st_size > 1000


def test_the_papers_value_is_drawn_at_the_papers_size_only(run, tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = []
    scatter = Axes.scatter
    monkeypatch.setattr(Axes, "scatter", lambda *a, **k: drawn.append(k.get("marker")) or scatter(*a, **k))
    draw([run()], tmp_path / "small.png")
    assert "D" not in drawn
    draw([run(task__n_pairs=30)], tmp_path / "large.png")
    assert drawn.count("D") == 1


@pytest.fixture
def drawn(keep_figures):
    return keep_figures(figure)


def test_a_panel_says_the_tasks_sizes_and_which_predictor_its_floor_is(study, drawn, tmp_path):
    draw(study, tmp_path / "a.png")
    (above, below) = drawn[0].axes
    assert above.get_title() == "needle\nn_pairs=8"
    assert "floor\nguess" in [text.get_text() for text in above.texts]
    assert [line.get_marker() for line in below.lines if line.get_marker() in "o^s"] == ["o"] * 3 + ["s"] * 3


def test_two_seeds_stand_inside_the_bar_of_their_mean_and_three_have_a_whisker(arm, drawn, tmp_path):
    for n in (2, 3):
        draw(arm("standard", [0.5, 0.6, 0.7][:n]), tmp_path / f"{n}.png")
    (two, _), (three, _) = (each.axes for each in drawn)
    dots = two.collections[0].get_offsets()[:, 0]
    (bar,) = two.collections[1].get_segments()
    assert bar[0][0] + 0.2 < min(dots) < max(dots) < bar[1][0] - 0.2
    assert (len(two.collections), len(three.collections)) == (2, 3)
    (whisker,) = three.collections[2].get_segments()
    assert whisker[0][1] == pytest.approx(0.6 - 0.2484, abs=1e-3)


def test_another_suffix_names_the_possible_ones(study, tmp_path):
    with pytest.raises(ConfigError, match=r"\.png, \.pdf, \.svg, and a\.gif"):
        draw(study, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="no runs"):
        draw([], tmp_path / "a.png")
