import pytest

from partwise.errors import DamagedFile
from partwise.records import write_text
from partwise.report import compare


@pytest.fixture
def keep(tmp_path):
    """Write records into a folder of runs."""

    def write(name, records):
        for i, record in enumerate(records):
            kind = "record" if record.status == "done" else "failure"
            write_text(tmp_path / name / "runs" / str(i) / f"{kind}.json", record.to_json())
        return tmp_path / name

    return write


def line(text, start):
    return " ".join(next(line for line in text.splitlines() if line.strip().startswith(start)).split())


def test_two_runs_of_different_arms_are_compared(keep, run):
    text = compare(keep("a", [run("standard", value=1.0)]), keep("b", [run("mixit", value=0.25, model__width=70)]))
    assert line(text, "model.width") == "model.width 64 70"
    assert "task.n_pairs" not in text
    assert "execution: no difference" in text
    assert line(text, "needle") == "needle standard | mixit accuracy 1.00 .250 −.750 one pair: no interval 1 1 1"


def test_two_folders_are_paired_over_the_seeds_they_share(keep, arm):
    ours = arm("standard", [0.5, 0.6, 0.7]) + arm("mixit", [0.2, 0.2, 0.2])
    theirs = arm("standard", [0.6, 0.72, 0.78, 0.9]) + arm("mixit", [0.2, 0.2, 0.2])
    text = compare(keep("a", ours), keep("b", theirs))
    # differences .10 .12 .08: mean .1, sd .02, half width 4.302653 * .02 / sqrt(3) = .0497
    assert line(text, "needle standard") == "needle standard accuracy .600 .700 +.100 [+.050, +.150] 3 3 4"
    assert line(text, "needle mixit") == "needle mixit accuracy .200 .200 .000 [.000, .000] 3 3 3"
    assert line(text, "seed") == "seed 0, 1, 2 0, 1, 2, 3"


def test_the_means_are_those_of_the_pairs_so_that_their_difference_is_the_one_shown(keep, arm, run):
    text = compare(keep("a", arm("standard", [1.0, 0.5, 0.6])), keep("b", [run("standard", 0, 0.537)]))
    assert line(text, "needle") == "needle standard accuracy 1.00 .537 −.463 one pair: no interval 1 3 1"
    assert "means over the pairs" in text
    assert "means over the pairs" not in compare(keep("c", [run()]), keep("d", [run()]))


def test_what_one_side_alone_has_is_listed(keep, run):
    ours = [run("standard"), run("frozen_vo"), run("standard", task="recall")]
    text = compare(keep("a", ours), keep("b", [run("standard"), run("mixit")]))
    assert "  only in A: needle frozen_vo; recall standard" in text
    assert "  only in B: needle mixit" in text
    assert "only in" not in compare(keep("c", [run()]), keep("d", [run()]))


def test_two_pairs_give_a_range_and_it_is_explained(keep, arm):
    text = compare(keep("a", arm("standard", [0.5, 0.5])), keep("b", arm("standard", [0.6, 0.65])))
    assert line(text, "needle") == "needle standard accuracy .500 .625 +.125 [+.100, +.150] r 2 2 2"
    assert "r: the range of the differences" in text


def test_how_it_was_run_is_compared_too(keep, run):
    other = run()
    other.execution = {"precision": "bfloat16", "threads": 1, "environment": {"packages": {"torch": "2.11"}}}
    text = compare(keep("a", [run()]), keep("b", [other]))
    assert "experiment: no difference" in text
    assert line(text, "precision") == "precision float32 bfloat16"
    assert line(text, "environment.packages.torch") == "environment.packages.torch 2.10 2.11"
    assert "threads" not in text


def test_a_run_without_a_score_is_told(keep, run):
    text = compare(keep("a", [run()]), keep("b", [run(status="failed", steps=4, detail="OSError")]))
    assert "1 run, 1 without a score" in text
    assert "failed@4" in line(text, "needle")
    assert "no seed is shared" in line(text, "needle")


def test_nothing_in_common_is_said(keep, run):
    text = compare(keep("a", [run()]), keep("b", [run(task="recall")]))
    assert "scores: nothing in common to compare" in text


def test_a_folder_without_runs_is_an_error(keep, run, tmp_path):
    with pytest.raises(DamagedFile):
        compare(keep("a", [run()]), tmp_path / "nowhere")
