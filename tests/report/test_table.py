import csv
import io
import json

import pytest

from partwise.errors import ConfigError
from partwise.report import Cell, formats, render
from partwise.rows import Row


@pytest.fixture
def memorization(arm, bits):
    """Two arms with three counts of bits, as the task of that name gives them."""

    def counts(whole):
        kinds = ("", "_per_trainable_parameter", "_per_total_parameter")
        return tuple(
            Row(where="test", quantity=f"{name}{kind}", value=whole / (1000 if kind else 1), unit="bit")
            for name in ("bits", "bits_accuracy", "bits_fano")
            for kind in kinds
            if name + kind != "bits"
        )

    settings = {"task": "memorization", "headline": bits, "floor": 200.0, "gain": 0.05}
    return [
        record
        for name, value in (("standard", 2000.0), ("mixit", 1000.0))
        for record in arm(name, [value, value + 10, value + 20], extra=counts(value), **settings)
    ]


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


def test_latex_is_a_booktabs_table_with_escapes(study):
    text = render(study, "latex")
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    assert r"frozen\_qk" in text
    assert r"\%" in text
    assert "frozen_qk" not in text
    assert "–" not in text
    assert text.count(" & standard & ") == 1, "headlines only"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_text_fits_its_width_and_has_no_control_codes(study, memorization, width):
    text = render(study + memorization, "text", width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert all(name in text for name in ("standard", "mixit", "floor", "ceiling", "paper"))


def test_text_puts_arms_side_by_side_where_they_fit(study):
    wide, tall = (render(study, "text", width=width) for width in (110, 80))
    assert "keeps 97 %" in wide
    assert "keeps %" in tall


def test_a_table_shows_floor_ceiling_paper_solved_and_what_is_kept(study):
    text = render(study, "md")
    row = next(line for line in text.splitlines() if line.startswith("| needle"))
    assert ".970<br>" in row
    assert "3/3<br>keeps 97 %" in row
    assert "0/3 (+1)" in row
    assert "diverged@7" in row
    assert row.endswith("| .200 | 1.00 | 1.00 standard<br>.970 frozen\\_qk<br>.112 mixit |")
    assert "n\\_pairs=30" in text, "the paper's setting"
    assert "second-hand" in text


def test_marks_are_explained_where_they_occur(study, memorization):
    assert "r: the range" in render(study, "text", width=100)
    assert "↑" not in render(study, "text", width=100)
    rising = render(memorization, "text", width=100)
    assert "2.01 k↑" in rising
    assert "↑: still improves" in rising


def test_verdicts_and_warnings_stand_below(study):
    text = render(study, "text", width=120)
    assert "  the random mixing matrix cannot do it: mixit keeps 1 %" in text
    assert "mixit has 10 % fewer parameters, 20 % fewer FLOPs than standard." in text
    assert "diverged at step 7" in text


def test_memorization_shows_three_counts_with_the_papers_beside(memorization):
    lines = render(memorization, "text", width=100).splitlines()
    found = [line.split() for line in lines if "bits_accuracy" in line]
    assert found == [
        ["bits_accuracy", "2.00", "k", "2.00", "2.00", "2.98"],
        ["bits_accuracy", "1.00", "k", "1.00", "1.00", "2.18"],
    ]
    assert any("bits_fano" in line for line in lines)


def test_strata_have_a_table_in_their_own_order(study):
    lines = render(study, "text", width=100).splitlines()
    start = lines.index("needle: accuracy by n_pairs")
    assert lines[start + 2].split() == ["n_pairs", "1", "2", "10"]
    assert lines[start + 4].split() == ["standard", "1.00", ".500", ".100"]


def test_costs_have_a_line_an_arm(study):
    lines = render(study, "text", width=100).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("needle: costs"))
    assert "matched by steps" in lines[start]
    line = next(line for line in lines[start:] if line.startswith("mixit"))
    assert line.split() == ["mixit", "2", "64", "1.00", "k", "900", "5.00", "k", "800", "M", "100", "4", "(1", "lost)"]


def test_how_rates_were_chosen_is_said_for_each_arm_where_it_differs(run):
    chosen = [run("standard"), run("mixit")]
    assert "rates fixed in advance" in render(chosen, "text", width=100)
    chosen[1].selection = "lr 0.02 of {0.01, 0.02}; at the edge of its grid"
    assert "rates of mixit: lr 0.02 of {0.01, 0.02}; at the edge of its grid." in render(chosen, "text", width=100)


def test_many_strata_are_thinned_and_that_is_said(run):
    strata = tuple(Row(where=f"test/n_pairs={k}", quantity="accuracy", value=1.0) for k in range(1, 31))
    assert "accuracy by n_pairs, 9 of 30 shown" in render([run(extra=strata)], "text", width=100)


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
