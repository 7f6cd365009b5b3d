"""Probes on runs that are done, from the command line: tables, files, and what cannot be probed."""

import json

import pytest
from small import experiment
from typer.testing import CliRunner

from partwise.cli import app
from partwise.errors import PartwiseError, UnknownName
from partwise.experiment import run, run_folder
from partwise.explain import explain
from partwise.looking import Looking
from partwise.probes.induction import Induction
from partwise.probing import probe_runs, probed, run_folders
from partwise.records import RunRecord


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Standard with two seeds, and mixit on a task of which its steps teach it nothing."""
    out = tmp_path_factory.mktemp("runs")
    mixing = {"model__token_mixer": "random_mixing", "model__token_mixer__n_heads": 2, "architecture": "mixit"}
    mixit = experiment(task__n_pairs=4, task__n_values=30, train__steps=10, **mixing)
    ones = [experiment(train__steps=60, train__lr=1e-2), experiment(train__steps=60, train__lr=1e-2, seed=1), mixit]
    for one in ones:
        run(one, out)
    return out, ones


def test_one_run_has_a_line_a_head_beside_the_same_model_as_drawn(runs):
    out, ones = runs
    place = run_folder(out, ones[0])
    result = CliRunner().invoke(app, ["probe", str(place), "--probe", "induction,head_ablation"])
    assert result.exit_code == 0, result.output
    text = result.output
    assert [f"block {block} head {head} " in text for block in (0, 1) for head in (0, 1)] == [True] * 4
    kept = json.loads((place / "probes.json").read_text(encoding="utf-8"))
    row = next(row for row in kept["trained"] if row["quantity"] == "induction.retrieval")
    start = next(row for row in kept["at_start"] if row["quantity"] == "induction.retrieval")
    assert row["where"] == start["where"] == "blocks.0.token_mixer.mix.0"
    assert (row["step"], start["step"], kept["digest"]) == (60, 0, ones[0].digest)
    shown = f"{row['value']:.3f} ({start['value']:.3f})".replace("0.", ".")
    assert shown in text and "as it was drawn" in text


def test_the_model_at_the_start_is_the_one_that_the_experiment_builds(runs):
    out, ones = runs
    found = probed(run_folder(out, ones[0]), [Induction()])
    data, model = ones[0].build()
    looking = Looking(data=data, seed=0, test_size=64, probes=(Induction(),))
    assert found.at_start == looking.rows(model, 0)
    assert found.trained != found.at_start


def test_several_runs_have_a_line_an_arm_and_their_rows_in_each_folder(runs):
    out, ones = runs
    text = probe_runs(out, ["previous_token"])
    assert (
        "the strongest head, the mean over seeds" in text
        and "needle standard" in text
        and "needle mixit n_pairs=4" in text
    )
    assert all((run_folder(out, one) / "probes.json").is_file() for one in ones)
    highest = []
    for one in ones[:2]:
        kept = json.loads((run_folder(out, one) / "probes.json").read_text(encoding="utf-8"))
        highest.append(max(row["value"] for row in kept["trained"]))
    assert f"{sum(highest) / 2:.3f}".replace("0.", ".", 1) in text


def test_an_input_free_mixer_is_not_applicable_and_its_constant_is_given(runs):
    out, ones = runs
    text = probe_runs(run_folder(out, ones[2]), ["previous_token"])
    assert " c\n" in text and "not applicable, input-free" in text


def test_a_probe_that_finds_nothing_says_so(runs):
    out, ones = runs
    assert "in_context_learning does not apply here" in probe_runs(run_folder(out, ones[0]), ["in_context_learning"])


def test_attention_maps_are_a_figure(runs):
    out, ones = runs
    place = run_folder(out, ones[2])
    assert f"figure: {place / 'attention_map.png'}" in probe_runs(place, ["attention_map"])
    assert (place / "attention_map.png").stat().st_size > 5000


def test_what_cannot_be_probed_says_why(runs, tmp_path):
    out, ones = runs
    with pytest.raises(UnknownName, match=r"no probe is called 'inducton'. Did you mean 'induction'"):
        probe_runs(out, ["inducton"])
    with pytest.raises(PartwiseError, match=r"no run in .* can be probed: no record.json is there"):
        run_folders(tmp_path)
    place = tmp_path / "runs" / "a"
    place.mkdir(parents=True)
    (place / "record.json").write_text((run_folder(out, ones[0]) / "record.json").read_text(encoding="utf-8"))
    with pytest.raises(PartwiseError, match=r"1 records are there, none with its model.safetensors"):
        run_folders(tmp_path)
    with pytest.raises(PartwiseError, match=r"holds 3 runs; name one of them, such as"):
        explain(out)


def test_explain_writes_a_page_and_a_figure(runs):
    out, _ = runs
    one = experiment(
        train__steps=60, train__lr=1e-2, architecture="frozen_qk",
        learn={"name": "all_but", "patterns": ["blocks.*.token_mixer.query", "blocks.*.token_mixer.key"]},
    )  # fmt: skip
    run(one, out / "explained")
    place = run_folder(out / "explained", one)
    result = CliRunner().invoke(app, ["explain", str(place)])
    assert result.exit_code == 0, result.output
    page = (place / "explain.md").read_text(encoding="utf-8")
    assert page in result.output and (place / "explain.png").stat().st_size > 5000
    assert page.startswith("# frozen_qk on needle, seed 0")
    assert "Frozen as drawn: `blocks.*.token_mixer.query` and `blocks.*.token_mixer.key`." in page
    assert "the floor is" in page and "One run of one seed" in page


def test_explain_says_nothing_of_heads_where_the_model_is_at_its_floor(runs):
    out, ones = runs
    page = (explain(run_folder(out, ones[2]))).split("\n\n|")[0]
    assert "does not pass the floor" in page
    assert "matters" not in page and "Half of the way" not in page


def test_explain_says_so_where_floor_and_ceiling_coincide(runs):
    out, ones = runs
    record = RunRecord.from_file(run_folder(out, ones[0]) / "record.json")
    assert record.value("accuracy.floor.last_value") == 1.0  # with two pairs and few values
    assert "Floor and ceiling coincide: the score tells nothing." in explain(run_folder(out, ones[0]))
