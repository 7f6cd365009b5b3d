"""Killed at any moment, any number of times, and started again: the same bits."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from small import experiment
from torch import nn

from partwise.checkpoint import load_tensors
from partwise.errors import ConfigError, DamagedFile
from partwise.experiment import Busy, load_run, locked, run, run_folder
from partwise.parts import AllBut, Stages
from partwise.records import RunRecord
from partwise.train_config import TrainConfig
from partwise.training import fit


class Killed(BaseException):
    """Stands for a kill: nothing between here and the top may catch it."""


def killed_at(*steps):
    left = list(steps)

    def watch(progress):
        if left and progress.step >= left[0]:
            left.pop(0)
            raise Killed

    return watch


def finished(one, out, watch=None) -> tuple[bytes, list]:
    for _ in range(10):
        try:
            record = run(one, out, checkpoint_seconds=0.0, watch=watch)
            return (run_folder(out, one) / "model.safetensors").read_bytes(), record.history
        except Killed:
            continue
    raise AssertionError("never finished")


STAGED = Stages((0, AllBut("blocks.*.token_mixer.query")), (10, AllBut()), (20, AllBut("embed")))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model__token_mixer": "random_mixing", "model__token_mixer__n_heads": 2, "model__positions": "learned"},
        {"learn": STAGED},
        {"train__accumulate": 4, "train__decay": "linear"},
        {"model__tied": True, "train__stop_when_solved": True, "train__evaluate_every": 3},
    ],
    ids=["standard", "mixit", "stages", "accumulate", "tied"],
)
def test_three_kills_leave_no_trace_in_weights_or_history(changes, tmp_path):
    one = experiment(**changes)
    whole = finished(one, tmp_path / "whole")
    torn = finished(one, tmp_path / "torn", killed_at(4, 10, 21))
    assert torn == whole


def test_a_users_dropout_resumes_exactly(tmp_path):
    one = experiment()
    data, _ = one.build()

    def module():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Embedding(data.shape.vocabulary, 8), nn.Dropout(0.5), nn.Linear(8, data.shape.vocabulary)
        )

    ends = []
    for watch in (None, killed_at(7)):
        path = tmp_path / f"{watch}.safetensors"
        for _ in range(2):
            model = module()
            try:
                fit(
                    model,
                    data,
                    learn=AllBut(),
                    config=one.train,
                    seed=0,
                    checkpoint=path,
                    checkpoint_seconds=0,
                    watch=watch,
                )
                break
            except Killed:
                continue
        ends.append(model[2].weight)
    assert torch.equal(*ends)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from small import experiment
from partwise.experiment import run
run(experiment(train__steps=400), sys.argv[1], checkpoint_seconds=0.0)
"""


def test_three_real_kills_of_the_process_leave_no_trace(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    one = experiment(train__steps=400)
    for kill in (True, True, True, False):
        process = subprocess.Popen([sys.executable, str(script), str(tmp_path / "torn")])
        checkpoint = run_folder(tmp_path / "torn", one) / "checkpoint.safetensors"
        before = checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0
        if kill:
            while process.poll() is None and not (checkpoint.is_file() and checkpoint.stat().st_mtime_ns > before):
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    whole = finished(one, tmp_path / "whole")
    torn = run_folder(tmp_path / "torn", one)
    assert (torn / "model.safetensors").read_bytes() == whole[0]
    assert RunRecord.from_file(torn / "record.json").history == whole[1]
    assert {path.name for path in torn.iterdir()} == {
        *("experiment.json", "execution.json", "model.safetensors", "record.json", ".lock"),
    }


def test_what_is_done_is_not_done_again(tmp_path):
    one = experiment()
    run(one, tmp_path)
    record = run_folder(tmp_path, one) / "record.json"
    stamp = record.stat().st_mtime_ns
    run(one, tmp_path)
    assert record.stat().st_mtime_ns == stamp
    run(one, tmp_path, fresh=True)
    assert record.stat().st_mtime_ns > stamp


def test_the_execution_of_the_first_start_is_kept_on_resume(tmp_path):
    from partwise.execution import Execution

    one = experiment()
    with pytest.raises(Killed):
        run(one, tmp_path, execution=Execution(precision="bfloat16"), checkpoint_seconds=0, watch=killed_at(5))
    record = run(one, tmp_path, execution=Execution(precision="float32"))
    assert record.execution["precision"] == "bfloat16"


def test_two_processes_do_not_share_a_run(tmp_path):
    one = experiment()
    with locked(run_folder(tmp_path, one)), pytest.raises(Busy, match="another process is at work"):
        run(one, tmp_path)
    assert run(one, tmp_path).status == "done"


def test_a_damaged_checkpoint_says_so_and_is_left_alone(tmp_path):
    one = experiment()
    with pytest.raises(Killed):
        run(one, tmp_path, checkpoint_seconds=0, watch=killed_at(5))
    path = run_folder(tmp_path, one) / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFile, match="is damaged"):
        run(one, tmp_path)
    assert path.is_file()


def test_a_pickle_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(DamagedFile, match="pickle"):
        load_tensors(path)


def test_a_mixit_model_reloads_with_its_own_matrix_in_another_process_and_seed(tmp_path):
    one = experiment(model__token_mixer="random_mixing", model__token_mixer__n_heads=2, seed=3)
    run(one, tmp_path)
    folder = run_folder(tmp_path, one)
    _, model = load_run(folder)
    tokens = torch.arange(5)[None]
    code = (
        "import torch, sys; torch.manual_seed(99); torch.set_num_threads(1); from partwise.experiment import load_run;"
        f"m = load_run({str(folder)!r})[1]; print(m(torch.arange(5)[None]).flatten().tolist())"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == model(tokens).flatten().tolist()


def test_the_swapped_frozen_seed_moves_the_frozen_draw_and_nothing_else():
    frozen = AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
    one = experiment(learn=frozen)
    other = experiment(learn=frozen, frozen_seed=7)
    (_, a), (_, b) = one.build(), other.build()
    differ = {name for (name, p), q in zip(a.named_parameters(), b.parameters(), strict=True) if not torch.equal(p, q)}
    assert differ == {f"blocks.{i}.token_mixer.{role}.weight" for i in (0, 1) for role in ("query", "key")}
    mixit = {"model__token_mixer": "random_mixing", "model__token_mixer__n_heads": 2}
    (_, a), (_, b) = experiment(**mixit).build(), experiment(**mixit, frozen_seed=7).build()
    state_a, state_b = a.state_dict(), b.state_dict()
    differ = {name for name in state_a if not torch.equal(state_a[name], state_b[name])}
    assert differ == {"blocks.0.token_mixer.mix_HLL", "blocks.1.token_mixer.mix_HLL"}


def test_the_digest_knows_what_changes_the_numbers_and_what_only_names_a_run():
    one = experiment()
    assert experiment(architecture="mine", selection="by hand").digest == one.digest
    assert experiment(seed=1).digest != one.digest
    assert experiment(train__steps=31).digest != one.digest
    assert TrainConfig().version == 1


def test_the_checkpoint_of_another_training_is_refused(tmp_path):
    from partwise.tasks.needle import Needle
    from partwise.trial import train

    def module():
        torch.manual_seed(1)
        return nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12))

    task, path = Needle(n_pairs=2, n_values=5), tmp_path / "a.safetensors"
    config = TrainConfig(steps=10, warmup=2)
    train(module(), task, config=config, checkpoint=path, test_size=50)
    with pytest.raises(ConfigError, match="is of another training: seed, train, learn differ"):
        train(module(), task, config=TrainConfig(steps=11), learn=AllBut("0"), seed=5, checkpoint=path, test_size=50)
    with pytest.raises(ConfigError, match="is of another training: task differ"):
        train(module(), Needle(n_pairs=2, n_values=5, min_pairs=2), config=config, checkpoint=path, test_size=50)
    assert train(module(), task, config=config, checkpoint=str(path), test_size=50).status == "done"


def test_a_shared_module_with_buffers_is_saved_once_and_resumed(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.bn, self.head = nn.Embedding(12, 8), nn.BatchNorm1d(8), nn.Linear(8, 12)
            self.again = self.bn

        def forward(self, tokens):
            return self.head(self.again(self.bn(self.table(tokens).mT)).mT)

    one = experiment()
    data, _ = one.build()
    ends = []
    for watch in (None, killed_at(9)):
        path = tmp_path / f"{watch is None}.safetensors"
        for _ in range(2):
            torch.manual_seed(1)
            model = Shared()
            try:
                fit(
                    model,
                    data,
                    learn=AllBut(),
                    config=one.train,
                    seed=0,
                    checkpoint=path,
                    checkpoint_seconds=0,
                    watch=watch,
                )
                break
            except Killed:
                continue
        ends.append(model)
    assert torch.equal(ends[0].head.weight, ends[1].head.weight)
    assert torch.equal(ends[0].bn.running_var, ends[1].again.running_var)


def test_a_kept_run_answers_under_the_labels_it_is_asked_for_by(tmp_path):
    run(experiment(architecture="first"), tmp_path)
    record = run(experiment(architecture="second", matching="parameters", selection="by hand"), tmp_path)
    assert (record.architecture, record.matching, record.selection) == ("second", "parameters", "by hand")
    on_disk = RunRecord.from_file(run_folder(tmp_path, experiment()) / "record.json")
    assert on_disk.architecture == "second"
    assert on_disk.experiment["architecture"] == "second"


def test_versions_that_changed_between_two_starts_are_both_on_record(tmp_path):
    one = experiment()
    with pytest.raises(Killed):
        run(one, tmp_path, checkpoint_seconds=0, watch=killed_at(5))
    path = run_folder(tmp_path, one) / "execution.json"
    plain = json.loads(path.read_text())
    plain["environment"]["packages"]["torch"] = "1.0"
    path.write_text(json.dumps(plain))
    environment = run(one, tmp_path).execution["environment"]
    assert environment["packages"]["torch"] == torch.__version__
    assert [before["packages"]["torch"] for before in environment["before"]] == ["1.0"]
    (path.parent / "record.json").unlink()
    path.write_text('{"precisoin": 1}')
    with pytest.raises(DamagedFile, match="is no execution of a run"):
        run(one, tmp_path)


def test_a_record_of_a_newer_program_is_read_or_left_alone(tmp_path):
    run(experiment(), tmp_path)
    path = run_folder(tmp_path, experiment()) / "record.json"
    plain = json.loads(path.read_text())
    path.write_text(json.dumps(plain | {"a_new_field": 1}))
    assert RunRecord.from_file(path).status == "done"
    path.write_text(json.dumps(plain | {"format": 99}))
    with pytest.raises(DamagedFile, match="written by a newer partwise") as error:
        RunRecord.from_file(path)
    assert "remove" not in str(error.value)


def test_what_a_killed_write_left_is_cleared_away(tmp_path):
    place = run_folder(tmp_path, experiment())
    place.mkdir(parents=True)
    (place / ".part-abc.safetensors").write_bytes(b"half")
    run(experiment(), tmp_path)
    assert not list(place.glob(".part-*"))


@pytest.mark.parametrize(
    "wrong", [{"positions": "learnt"}, {"norm": "rsm"}, {"order": "paralel"}, {"embed_std": -1.0}, {"n_blocks": 1.5}]
)
def test_a_config_made_in_python_is_checked_like_one_from_a_file(wrong):
    one = experiment()
    model = object.__new__(type(one.model))  # as without the type checker that the tests install
    for field in dataclasses.fields(one.model):
        object.__setattr__(model, field.name, wrong.get(field.name, getattr(one.model, field.name)))
    with pytest.raises(ConfigError):
        run(dataclasses.replace(one, model=model))
