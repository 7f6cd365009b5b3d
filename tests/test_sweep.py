"""Many runs at once: a crash of one leaves the others, a second start does what is missing, all ends cleanly."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small import experiment

from partwise import sweep
from partwise.errors import ConfigError
from partwise.experiment import run, run_folder, vary
from partwise.plugins import load_plugin
from partwise.population import StepTimes
from partwise.records import RunRecord, read_records
from partwise.sweep import Options, run_all

FAULTY = '''
import os, signal
from dataclasses import dataclass
import torch
from torch import nn
from partwise.layers import linear
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("faulty")
@dataclass(frozen=True, kw_only=True)
class Faulty:
    """Raises, or kills its process, when it is trained."""

    how: str = "raise"

    def build(self, size, *, generator):
        return _Faulty(self.how, size, generator)


class _Faulty(nn.Module):
    def __init__(self, how, size, generator):
        super().__init__()
        self.how, self.out = how, linear(size.width, size.width, generator)

    def forward(self, x_BLD, lengths_B):
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "exit":
            os._exit(0)
        raise RuntimeError("the planted fault")
'''


@pytest.fixture
def plugin(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "faulty.py"
    path.write_text(FAULTY)
    load_plugin(path)
    return str(path)


def faulty(how, **changes):
    return experiment(model__token_mixer={"name": "faulty", "how": how}, **changes)


def test_a_faulty_run_of_five_is_reported_and_the_rest_finishes(tmp_path, plugin):
    good = [experiment(seed=seed) for seed in range(4)]
    every = [good[0], faulty("raise"), *good[1:]]
    events = []
    records = run_all(every, tmp_path, jobs=2, options=Options(plugins=(plugin,)), watch=events.append)
    assert [record.status for record in records] == ["done", "failed", "done", "done", "done"]
    assert records[1].detail == "RuntimeError: the planted fault"
    assert "Traceback" in (run_folder(tmp_path, every[1]) / "error.txt").read_text()
    assert {event.kind for event in events} >= {"started", "progress", "finished"}
    assert len(read_records(tmp_path)) == 5

    started = []
    again = run_all(
        every,
        tmp_path,
        options=Options(plugins=(plugin,)),
        watch=lambda e: started.append(e.index) if e.kind == "started" else None,
    )
    assert started == [1]
    assert [record.status for record in again] == ["done", "failed", "done", "done", "done"]


@pytest.mark.parametrize(("how", "said"), [("kill", "SIGKILL, perhaps for want of memory"), ("exit", "exit code 0")])
def test_a_process_that_dies_is_a_failed_run(how, said, tmp_path, plugin):
    every = [faulty(how), experiment()]
    records = run_all(every, tmp_path, jobs=1, options=Options(plugins=(plugin,)))
    assert [record.status for record in records] == ["failed", "done"]
    assert said in records[0].detail


def test_a_plug_in_loaded_in_python_is_loaded_in_every_process(tmp_path, plugin):
    (record,) = run_all([faulty("raise")], tmp_path)
    assert record.detail == "RuntimeError: the planted fault"


UNGUARDED = """
import sys
sys.path.insert(0, {tests!r})
from small import experiment
from partwise.sweep import run_all
print([record.status for record in run_all([experiment(seed=s) for s in (0, 1)], {out!r}, jobs=2)])
"""


def test_a_script_without_a_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED.format(tests=str(Path(__file__).parent), out=str(tmp_path / "out")))
    end = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert end.stdout.strip() == "['done', 'done']", end.stderr
    assert end.stderr == ""


OF_ITS_OWN = """
import sys
from dataclasses import dataclass
sys.path.insert(0, {tests!r})
from torch import nn
from partwise.layers import linear
from partwise.token_mixers import TOKEN_MIXERS
from small import experiment
from partwise.sweep import run_all


@TOKEN_MIXERS.register("in_the_script")
@dataclass(frozen=True, kw_only=True)
class Mine:
    def build(self, size, *, generator):
        return Mixer(size, generator)


class Mixer(nn.Module):
    def __init__(self, size, generator):
        super().__init__()
        self.out = linear(size.width, size.width, generator)

    def forward(self, x_BLD, lengths_B):
        return self.out(x_BLD)


if __name__ == "__main__":
    print([record.status for record in run_all([experiment(model__token_mixer="in_the_script")], {out!r})])
"""


def test_a_part_that_a_script_defines_reaches_its_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(OF_ITS_OWN.format(tests=str(Path(__file__).parent), out=str(tmp_path / "out")))
    end = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert end.stdout.strip() == "['done']", end.stderr


def test_parts_of_a_module_that_the_script_imports_reach_its_runs(tmp_path):
    body, main = OF_ITS_OWN.split("if __name__")
    (tmp_path / "my_parts.py").write_text(body.format(tests=str(Path(__file__).parent)))
    script = tmp_path / "script.py"
    out = str(tmp_path / "out")
    script.write_text("from my_parts import *\n\nif __name__" + main.format(out=out).replace("run_all(", "run_all("))
    end = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert end.stdout.strip() == "['done']", end.stderr


def test_a_part_that_runs_cannot_reach_is_said_in_one_sentence(tmp_path):
    code = OF_ITS_OWN.format(tests=str(Path(__file__).parent), out=str(tmp_path / "out"))
    end = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "put the part into a file, and load it with load_plugins" in end.stderr


def test_no_jobs_are_no_jobs(tmp_path):
    with pytest.raises(ConfigError, match="jobs is 0"):
        run_all([experiment()], tmp_path, jobs=0)


def test_a_run_in_a_process_of_the_pool_equals_a_run_here_bit_for_bit(tmp_path):
    one = experiment()
    run_all([one], tmp_path / "pool")
    run(one, tmp_path / "here")
    a, b = (run_folder(tmp_path / place, one) / "model.safetensors" for place in ("pool", "here"))
    assert a.read_bytes() == b.read_bytes()


def test_equal_experiments_run_once(tmp_path):
    records = run_all([experiment(), experiment(architecture="other name")], tmp_path)
    assert len({record.digest for record in records}) == 1
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_diverged_run_is_a_record_and_is_not_tried_again(tmp_path):
    one = experiment(train__lr=1e6, train__warmup=0, train__steps=200)
    (record,) = run_all([one], tmp_path)
    assert record.status == "diverged"
    assert record.detail.startswith("diverged at step")
    kinds = []
    run_all([one], tmp_path, watch=lambda event: kinds.append(event.kind))
    assert kinds == ["kept"]


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from small import experiment
from partwise.sweep import run_all

if __name__ == "__main__":
    def watch(event):
        if event.kind == "progress":
            print("progress", flush=True)
    try:
        run_all([experiment(train__steps=100_000, seed=s) for s in (0, 1)], {out!r}, jobs=2, watch=watch)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
"""


def children_of(pid: int) -> list[int]:
    """Every process below this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(stat.parent.name)
            found += [child, *children_of(child)]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_when_the_main_process_goes_its_runs_go_too(how, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), out=str(tmp_path / "out")))
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "progress\n"
        below = children_of(process.pid)
        assert len(below) >= 2
        os.kill(process.pid, how)
        rest = process.stdout.read()
        code = process.wait()
    if how == signal.SIGINT:
        assert code == 130
        assert "interrupted" in rest
    end = time.monotonic() + 30
    while any(alive(pid) for pid in below) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in below if alive(pid)]


def test_a_record_reads_back_as_it_was_written(tmp_path):
    record = run(experiment(), tmp_path)
    assert RunRecord.from_file(run_folder(tmp_path, experiment()) / "record.json").to_json() == record.to_json()
    json.loads(record.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def interrupt(progress):
    if progress.step > 5:
        raise KeyboardInterrupt


def stacked(records):
    return [record.execution["stacked"] for record in records]


def test_runs_of_one_kind_are_trained_as_one_where_that_is_asked_for(tmp_path):
    runs = [*vary(experiment(), seed=range(3)), experiment(task__n_pairs=3), experiment(train__lr=1e30)]
    events = []
    records = run_all(runs, tmp_path / "one", jobs=1, options=Options(stack="always"), watch=events.append)
    assert stacked(records) == [4, 4, 4, 1, 4]
    assert [record.status for record in records] == ["done"] * 4 + ["diverged"]
    assert sorted(event.index for event in events if event.kind == "finished") == list(range(5))
    assert {event.index for event in events if event.kind == "progress"} == set(range(5))
    singles = [run(one) for one in runs[:4]]
    for ours, theirs in zip(records[:4], singles, strict=True):
        assert ours.digest == theirs.digest
        assert ours.value("loss") == pytest.approx(theirs.value("loss"), rel=1e-4)
    assert stacked(run_all(runs, tmp_path / "one", options=Options(stack="always"))) == stacked(records)
    assert stacked(run_all(runs[:4], tmp_path / "two", jobs=2, options=Options(stack="always"))) == [1, 2, 2, 1]


@pytest.mark.parametrize(("pays", "expected"), [(True, 2), (False, 1)])
def test_the_timing_decides_and_is_kept_where_runs_are_stacked(tmp_path, monkeypatch, pays, expected):
    times = StepTimes(alone_ms=2.0, stacked_ms=1.0 if pays else 3.0)
    monkeypatch.setattr(sweep, "step_times", lambda experiments, execution: times)
    records = run_all(vary(experiment(), seed=range(2)), tmp_path, jobs=1, options=Options(stack="auto"))
    assert stacked(records) == [expected] * 2
    noted = {"alone_ms": 2.0, "stacked_ms": 1.0} if pays else None
    assert [record.execution["environment"].get("stacking") for record in records] == [noted] * 2


def test_a_run_that_was_begun_on_its_own_goes_on_on_its_own(tmp_path):
    runs = vary(experiment(), seed=range(3))
    with pytest.raises(KeyboardInterrupt):
        run(runs[0], tmp_path, checkpoint_seconds=0, watch=interrupt)
    assert stacked(run_all(runs, tmp_path, jobs=1, options=Options(stack="always"))) == [1, 2, 2]


def test_a_population_that_fails_or_is_killed_is_a_failure_of_each_of_its_runs(tmp_path, plugin):
    options = Options(stack="always", plugins=(plugin,))
    for how in ("raise", "kill"):
        base = experiment(model__token_mixer={"name": "faulty", "how": how})
        records = run_all(vary(base, seed=range(2)), tmp_path, jobs=1, options=options)
        assert [record.status for record in records] == ["failed"] * 2
        assert ("planted fault" if how == "raise" else "SIGKILL") in records[1].detail
        assert (run_folder(tmp_path, vary(base, seed=[1])[0]) / "failure.json").is_file()


def test_a_run_is_started_with_large_pages_unless_somebody_chose_otherwise(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    with sweep._large_pages():
        assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert "GLIBC_TUNABLES" not in os.environ
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=3")
    with sweep._large_pages():
        assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.check=3"
    assert os.environ["GLIBC_TUNABLES"] == "glibc.malloc.check=3"
