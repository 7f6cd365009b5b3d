import pytest

from partwise.errors import ConfigError
from partwise.report import draw


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


def test_another_suffix_names_the_possible_ones(study, tmp_path):
    with pytest.raises(ConfigError, match=r"\.png, \.pdf, \.svg, and a\.gif"):
        draw(study, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="no runs"):
        draw([], tmp_path / "a.png")
