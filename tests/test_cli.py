"""The verbs, end to end, at their smallest."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_messages import command  # noqa: F401  (a fixture)

SMALL = [
    *("--set", "task.n_pairs=2", "--set", "task.n_values=5", "--set", "model.width=16", "--set", "train.steps=20"),
    *("--set", "train.batch=16", "--set", "train.warmup=5", "--set", "test_size=64"),
]


@pytest.fixture
def call(command):  # noqa: F811
    return command


def test_run_prints_a_table_and_keeps_it_with_a_figure(call, tmp_path):
    code, out, error = call("run needle --arch standard,mixit --seeds 2 --out out", *SMALL)
    assert code == 0, error
    assert "needle m=2 standard: learns 9,0" in out
    assert "mixit" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"table.txt", "table.md", "table.json", "figure.png"}
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 4

    code, again, _ = call("run needle --arch standard,mixit --seeds 2 --out out", *SMALL)
    assert code == 0
    assert again.count("done before") == 4

    for format in ("text", "md", "csv", "latex", "json"):
        code, out, _ = call(f"table out --format {format}")
        assert code == 0
        assert "mixit" in out
    (headline,) = [
        c for c in json.loads(call("table out --format json")[1]) if c["headline"] and c["architecture"] == "mixit"
    ]
    assert headline["n"] == 2
    assert headline["metric"] == "accuracy"
    assert headline["matching"] == "steps"

    assert call("figure out -o a.svg")[0] == 0
    assert (tmp_path / "a.svg").stat().st_size > 1000
    code, out, _ = call("compare out out")
    assert code == 0


def test_a_sweep_chooses_its_rates_draws_its_view_and_is_judged(call, tmp_path):
    plugin = Path(__file__).parent / "plugins" / "tiny_sweep.py"
    code, out, error = call(f"reproduce tiny_sweep --plugin {plugin} --jobs 1 --out results/tiny")
    assert code == 0, error
    assert "Rates are chosen on validation first: 4 runs." in out
    rates = (tmp_path / "results" / "tiny" / "rates.md").read_text()
    assert "n_blocks=1) | standard | 1000 |" in rates and "n_blocks=2) | standard | 1000 |" in rates
    said = (tmp_path / "results" / "tiny" / "table.md").read_text().splitlines()[0]
    assert ": 4 runs, " in said and "; rates chosen by 4 more runs, " in said
    assert (tmp_path / "results" / "tiny" / "figure.png").stat().st_size > 1000
    table = " ".join((tmp_path / "results" / "tiny" / "table.txt").read_text().split())
    assert "on validation of seed 1000" in table and "n_blocks=2" in table

    assert call("figure results/tiny -o a.svg --over model.n_blocks")[0] == 0
    code, _, error = call("figure results/tiny -o a.svg --over model.n_block")
    assert code == 2 and "no two scored runs here differ in 'model.n_block'. Did you mean 'model.n_blocks'" in error
    code, _, error = call("claims results")
    assert code == 2 and "no study is in results: claims are judged by runs in folders named" in error
    (tmp_path / "results" / "tiny").rename(tmp_path / "results" / "small")
    assert "Frozen-QK retrieves" in call("claims results")[1]
    code, out, _ = call("claims results --out claims.md")
    assert (code, out) == (0, "claims: claims.md\n")
    assert (tmp_path / "claims.md").read_text().startswith("# Claims, and what was found")


def test_settings_reach_the_run(call, tmp_path):
    call("run needle --seeds 3, --out out", *SMALL, "--set", "task.n_keys=7", "--set", "train.lr=0.02")
    (record,) = (tmp_path / "out" / "runs").glob("*/record.json")
    plain = json.loads(record.read_text())
    assert plain["experiment"]["task"]["n_keys"] == 7
    assert plain["experiment"]["train"]["lr"] == 0.02
    assert plain["experiment"]["seed"] == 3
    assert plain["history"][-1]["step"] == 20


def test_freeze_and_learn_change_what_learns_and_the_column_says_so(call):
    _, out, _ = call("run needle --freeze embed --out a", *SMALL)
    assert "standard, frozen embed: learns" in out
    _, out, _ = call("run needle --learn blocks.*.norm_1 --out b", *SMALL)
    assert "standard, only blocks.*.norm_1: learns 32 of" in out


def test_like_runs_may_be_trained_as_one(call, tmp_path):
    call("run needle --stack always --jobs 1 --seeds 2 --out out", *SMALL)
    paths = list((tmp_path / "out" / "runs").glob("*/execution.json"))
    assert [json.loads(path.read_text())["stacked"] for path in paths] == [2, 2]
    assert "Did you mean 'always'?" in " ".join(call("run needle --stack alway --out out")[2].split())


def test_precision_and_threads_are_in_the_execution(call, tmp_path):
    call("run needle --precision bfloat16 --threads 1 --out out", *SMALL)
    (path,) = (tmp_path / "out" / "runs").glob("*/execution.json")
    assert json.loads(path.read_text())["precision"] == "bfloat16"
    assert json.loads(path.read_text())["threads"] == 1


def test_what_is_no_setting_is_refused_and_what_makes_another_arm_is_named_in_its_column(call):
    for setting in ("seed=5", "matching=flops", "selection=mine", "architecture=x"):
        code, _, error = call("run needle --out a --set", setting)
        assert code == 2
        assert "is no setting" in error
    _, out, _ = call("run needle --out b --set model.token_mixer=uniform", *SMALL)
    assert "needle m=2 standard, model.token_mixer=uniform: learns" in out
    assert "not chosen at these settings" in " ".join(out.split())
    for setting in ("model.norm=layer", "model.blocks.0.norm=layer", 'learn.patterns=["embed"]'):
        more = ("--set", "model.blocks=[{},{}]") if "blocks" in setting else ()
        _, out, _ = call("run needle --dry-run --out c", *SMALL, *more, "--set", setting)
        assert f"standard, {setting}"[:20] in out


def test_a_rate_set_by_hand_is_not_said_to_be_chosen(call):
    _, out, _ = call("run needle --out a --set train.lr=0.05", *SMALL)
    assert "set by hand" in " ".join(out.split())


def test_arms_that_are_one_run_are_said_to_be_so(call):
    _, out, _ = call("run needle --arch standard,attention --out a", *SMALL)
    assert "attention is the same run as standard" in " ".join(out.split())


def test_a_damaged_checkpoint_is_said_before_anything_runs(call, tmp_path):
    call("run needle --out a", *SMALL)
    (record,) = (tmp_path / "a" / "runs").glob("*/record.json")
    record.unlink()
    (record.parent / "checkpoint.safetensors").write_bytes(b"nothing")
    code, _, error = call("run needle --out a", *SMALL)
    assert code == 2
    assert "checkpoint.safetensors is damaged" in " ".join(error.split())
    assert not (record.parent / "failure.json").exists()


def test_a_run_that_is_kept_says_where_it_was_run_otherwise(call):
    call("run needle --out a", *SMALL)
    _, out, _ = call("run needle --out a --precision bfloat16", *SMALL)
    assert "done before, as it was run: precision float32; --fresh runs it anew" in " ".join(out.split())


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="sends signals")
def test_ctrl_c_ends_in_one_sentence(tmp_path):
    line = [sys.executable, "-m", "partwise.cli", "run", "needle", "--out", str(tmp_path / "out"), *SMALL]
    line[line.index("train.steps=20")] = "train.steps=100000"
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "learns" in process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said.startswith("stopped. Finished runs are kept")
    assert "Traceback" not in said


def test_a_failing_run_gives_exit_code_1_and_the_others_finish(call, tmp_path):
    (tmp_path / "part.py").write_text(
        "from dataclasses import dataclass\nfrom torch import nn\nfrom partwise.token_mixers import TOKEN_MIXERS\n"
        "@TOKEN_MIXERS.register('raises_late')\n@dataclass(frozen=True, kw_only=True)\nclass P:\n    '''Raises.'''\n"
        "    def build(self, size, *, generator):\n        return M()\n"
        "class M(nn.Module):\n    def forward(self, x_BLD, lengths_B):\n        raise RuntimeError('planted')\n"
    )
    code, out, error = call("run needle --arch raises_late,standard --plugin part.py --out out", *SMALL)
    assert code == 1
    assert "RuntimeError: planted" in error
    assert "error.txt" in error
    assert "standard" in out


def test_dry_run_counts_and_runs_nothing(call, tmp_path):
    code, out, _ = call("reproduce mixit --scale small --dry-run --only needle")
    assert code == 0
    assert "75 runs" in out
    assert "143,296 / 143,296" in out
    assert not list(tmp_path.iterdir())


def test_a_budget_chooses_and_says_so(call):
    code, out, _ = call("reproduce mixit --budget 9000h --only needle --dry-run")
    assert code == 0
    assert "scale large with 5 seeds" in out


def test_list_shows_every_part_and_json_its_fields(call):
    _, out, _ = call("list")
    for name in ("needle", "mixit", "random_mixing", "gated_mlp", "scaled", "all_but", "mix_entropy"):
        assert name in out
    entries = json.loads(call("list token-mixers --json")[1])
    assert {entry["name"] for entry in entries} >= {"attention", "none", "random_mixing", "uniform"}
    assert next(entry for entry in entries if entry["name"] == "attention")["fields"]["n_heads"] == 4


def test_a_plug_in_of_the_nearest_pyproject_is_listed(call, tmp_path):
    call("new token-mixer from_pyproject")
    (tmp_path / "pyproject.toml").write_text('[tool.partwise]\nplugins = ["from_pyproject.py"]\n')
    assert "from_pyproject" in call("list token-mixers")[1]


@pytest.mark.parametrize("kind", ["token-mixer", "task", "probe"])
def test_a_new_part_passes_its_own_test_and_its_recipe_runs(kind, call, tmp_path):
    name = f"new_{kind.replace('-', '_')}"
    code, out, _ = call(f"new {kind} {name}")
    assert code == 0
    assert f"test_{name}.py" in out
    code, _, error = call(f"new {kind} {name}")
    assert code == 2
    assert "is there already" in error
    recipe = tmp_path / f"run_{name}.py"
    recipe.write_text(recipe.read_text().replace("train.steps=200", "train.steps=10"))
    ends = [
        subprocess.run([sys.executable, *args], cwd=tmp_path, capture_output=True, text=True, check=False)
        for args in (["-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{name}.py"], [recipe.name])
    ]
    assert [end.returncode for end in ends] == [0, 0], [end.stdout + end.stderr for end in ends]
    assert "accuracy" in ends[1].stdout


def test_a_closed_pipe_is_no_error(tmp_path):
    env = os.environ | {"COLUMNS": "100"}
    line = f"{sys.executable} -m partwise.cli list | head -1"
    end = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, env=env, check=False)
    assert end.stdout.strip() == "tasks"
    assert "Traceback" not in end.stderr
