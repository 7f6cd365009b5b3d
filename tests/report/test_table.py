import csv
import io
import json

import pytest

from partwise.errors import ConfigError
from partwise.report import Cell, formats, render


def test_json_is_valid_and_has_every_cell(study):
    plain = json.loads(render(study, "json"))
    assert [list(cell) for cell in plain] == [Cell.exported()] * len(plain)
    assert next(cell for cell in plain if cell["architecture"] == "frozen_mlp")["mean"] is None


def test_csv_has_a_line_a_cell_with_the_fields_of_json(study):
    lines = list(csv.DictReader(io.StringIO(render(study, "csv"))))
    assert list(lines[0]) == Cell.exported()
    assert json.loads(lines[0]["runs"])
    assert json.loads(lines[0]["settings"]) == {}
    assert lines[0]["headline"] == "true"
    assert next(line for line in lines if line["architecture"] == "frozen_mlp")["mean"] == ""


def test_a_table_shows_floor_ceiling_paper_solved_and_what_is_kept(study):
    text = render(study, "md")
    row = next(line for line in text.splitlines() if line.startswith("| needle"))
    assert ".970<br>" in row
    assert "3/3<br>keeps 97 %" in row
    assert "0/3 (+1)" in row
    assert "diverged@7" in row
    assert row.endswith("| .200 | 1.00 | 1.00 standard<br>.970 frozen\\_qk<br>.112 mixit |")
    assert "| floor | ceiling | paper<br>(n\\_pairs=30) |" in text, "the paper's number has its setting"
    assert "n\\_pairs=30" in text, "the paper's setting"
    assert "second-hand" in text


@pytest.mark.parametrize("format", ["text", "md", "latex"])
def test_the_floor_is_named_and_the_size_of_the_test_set_said(study, format):
    text = render(study, format)
    assert "floor .200: guess; ceiling 1.00; 4,000 scored test answers." in text
    assert "the best predictor without the ability" in text


def test_the_heading_has_the_tasks_own_sizes_and_no_unit_that_the_metric_says(study, memorization):
    text = render(study + memorization, "text", width=100)
    assert "needle (n_pairs=8): accuracy, higher is better" in text
    assert "memorization (n_pairs=8): bits, higher is better" in text


def test_an_arm_below_the_floor_is_said_to_be_so_in_its_cell(arm):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.1, 0.11, 0.12])
    text = render(records, "text", width=100)
    assert "below floor" in text
    assert "keeps −" not in text
    assert "below floor: it keeps less than nothing" in text


def test_a_cell_of_other_steps_than_standards_has_a_mark(run):
    text = render([run("standard"), run("mixit", value=0.3, train__steps=200)], "text", width=100)
    assert ".300†" in text
    assert "†: trained for another number of steps" in text
    assert "†" not in render([run("standard"), run("mixit")], "text", width=100)


def test_shares_of_solved_runs_have_their_wilson_interval_in_the_legend(study):
    assert "95 % (Wilson): 0/3 .000–.561, 3/3 .439–1.00" in " ".join(render(study, "text", width=100).split())


def test_where_no_run_has_a_score_nothing_looks_like_one(run):
    lost = run("standard", status="failed", steps=9)
    lost.headline, lost.rows = {}, []
    text = render([lost], "text", width=100)
    assert "needle (n_pairs=8): no run has a score" in text
    assert "failed@9" in text
    assert "diverged@s, failed@s: stopped at step s" in text


def test_arms_of_two_recipes_stand_together(run, arm):
    records = arm("standard", [1.0] * 3) + arm("standard, frozen blocks.*.norm_1", [1.0, 0.99, 0.98])
    records += arm("standard", [1.0] * 3, task__n_pairs=16) + arm("mixit", [0.2, 0.21, 0.22], task__n_pairs=16)
    text = render(records, "md")
    rows = [line for line in text.splitlines() if line.startswith("| needle n")]
    assert rows[0].startswith("| needle n\\_pairs=8 | 1.00<br>")
    assert rows[1].split(" | ")[2] == "", "an arm that the second recipe lacks"
    assert "| standard | standard, frozen blocks.\\*.norm\\_1 | mixit |" in text


def test_marks_are_explained_where_they_occur(study, memorization):
    assert "r: the range" in render(study, "text", width=100)
    assert "↑" not in render(study, "text", width=100)
    rising = render(memorization, "text", width=100)
    assert "2.01 k↑" in rising
    assert "↑: still improves" in rising


def test_verdicts_and_warnings_stand_below(study):
    text = render(study, "text", width=120)
    assert "  the random mixing matrix does not do it: mixit keeps 1 %" in text
    assert "mixit has 10 % fewer parameters, 20 % fewer FLOPs than standard." in text
    assert "diverged at step 7" in text


def test_costs_have_a_line_an_arm(study):
    lines = render(study, "text", width=100).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("needle: costs"))
    assert "matched by steps" in lines[start]
    line = next(line for line in lines[start:] if line.startswith("mixit"))
    assert line.split() == [*("mixit", "2×64", "1.00", "k", "900", "5.00", "k", "800", "M", "100", "0.01", "3", "(+1)")]


def test_how_rates_were_chosen_is_said_for_each_arm_where_it_differs(run):
    chosen = [run("standard"), run("mixit")]
    assert "rates fixed in advance" in render(chosen, "text", width=100)
    chosen[1].selection = "lr 0.02 of {0.01, 0.02}; at the edge of its grid"
    assert "rates of mixit: lr 0.02 of {0.01, 0.02}; at the edge of its grid." in render(chosen, "text", width=100)


def test_rates_that_differ_by_row_are_told_by_row(run):
    records = [run(name, task__n_pairs=n) for n in (4, 8) for name in ("standard", "standard, frozen embed")]
    for record in records[:2]:
        record.selection = "lr 0.02 of {0.01, 0.02}"
    text = render(records, "text", width=100)
    assert "  rates at n_pairs=4: lr 0.02 of {0.01, 0.02}." in text
    records[1].selection = "fixed in advance"
    assert "rates of 'standard, frozen embed' and standard: fixed in advance." in render(records, "text", width=100)


def test_a_wrong_format_names_the_right_ones(study):
    with pytest.raises(ConfigError, match="text, md, csv, latex, json"):
        render(study, "html")


def test_numbers_are_written_as_one_reads_them():
    assert [formats.share(value) for value in (0.998, 1.0, 0.0, 0.9996, -0.25)] == [
        ".998",
        "1.00",
        ".000",
        "1.00",
        "-.250",
    ]
    assert [formats.amount(value) for value in (61234, 407.2, 2.98, 0, 1.64e9, 999.9, 0.0417)] == [
        "61.2 k", "407", "2.98", "0", "1.64 G", "1.00 k", "0.0417",
    ]  # fmt: skip
