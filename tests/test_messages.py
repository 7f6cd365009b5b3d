"""Every message a user can cause: one paragraph, exit code 2, the texts pinned in messages.json."""

import re
import sys

import pytest
from pinned import pinned

from partwise.cli import main

WRONG = [
    "run nedle",
    "run needle --arch mixt",
    "run needle --set task.n_pair=4",
    "run needle --set model.token_mixer.n_head=4",
    "run needle --set trian.steps=4",
    "run needle --set train.lrr=1",
    "run needle --set train.steps=abc",
    "run needle --set train.steps=0",
    "run needle --set train.steps",
    "run needle --set train.lr=-1",
    "run needle --set model.width=30",
    "run needle --set model.token_mixer.n_heads=5",
    "run needle --set model.token_mixer.n_kv_heads=3",
    "run needle --set model.token_mixer=unifrm",
    "run needle --set model.positions=learnd",
    "run needle --set model.positions=one_hot --set model.width=16",
    'run needle --set model.blocks=[{"token_mixr":"uniform"}]',
    "run needle --set model.blocks.0.norm=rms",
    "run needle --set model.tied=1",
    "run needle --set task.n_keys=4",
    "run needle --set task.min_pairs=9",
    "run needle --set task.n_pairs=true",
    'run needle --set learn={"name":"only"}',
    'run needle --set learn={"name":"stages","stages":[{"start":5,"rule":"all_but"}]}',
    'run needle --set train.parts=[{"pattern":"embedd"}]',
    "run memorization --set task.n_first=0",
    "run needle --freeze blocks.*.token_mixer.quer",
    "run needle --arch mixit --freeze blocks.*.token_mixer.query",
    "run needle --arch embeddings_only --freeze embed",
    "run needle --freeze embed --learn unembed",
    "run needle --learn blocks.7.norm_1",
    "run needle --device cuda:77",
    "run needle --precision fp16",
    "run needle --seeds 0",
    "run needle --seeds many",
    "run needle --plugin no_such_file.py",
    "reproduce mixt",
    "reproduce mixit --scale quik",
    "reproduce mixit --only nedle",
    "reproduce mixit --budget 10x",
    "reproduce mixit --budget 10m --scale quick",
    "reproduce mixit --budget 1s --only needle",
    "run addition --set task.n_digits=0",
    "run addition --set task.published_scoring=maybe",
    "run modular_addition --set task.p=1",
    "run modular_addition --set task.train_share=1.5",
    "run brackets --set task.max_pairs=1",
    "run sentiment --set task.length=1",
    "run sentiment --set task.keep=middle",
    "run sentiment --set task.corpus=labelled_files",
    "run sentiment --set task.encoder.vocabulary=3",
    "run k_hop --set task.max_hops=40",
    "run k_hop --set task.alphabet=1",
    "run k_hop --set task.length=1",
    "run needle --set task.n_values=0",
    "run language_model --set task.length=1",
    "run language_model --set task.length=1000000",
    "run language_model --set task.rows=pack",
    "run language_model --set task.corpus=shakespear",
    'run language_model --set task.corpus={"name":"files","files":["no_such.txt"]}',
    'run language_model --set task.corpus={"name":"hub","dataset":"nobody/nothing"}',
    'run language_model --set task.corpus={"name":"hub","dataset":"./no_such"}',
    'run language_model --set task.encoder={"name":"bpe","vocabulary":10}',
    'run language_model --set task.encoder={"name":"hub_tokenizer","tokenizer":"nobody/nothing"}',
    "reproduce text_length --only needle",
    "run noisy_recall --set task.noise=1",
    "run noisy_recall --set task.n_triggers=0",
    "run noisy_recall --set task.length=3",
    "run noisy_recall --set task.n_symbols=200",
    "run noisy_recall --set task.noise_symbol=@",
    "run noisy_recall --set train.optimizer=sdg",
    "run noisy_recall --set train.momentum=1",
    'run noisy_recall --set probes=[{"name":"recall","edits":[{"name":"keep_topp"}]}]',
    'run noisy_recall --set probes=[{"name":"recall","edits":[{"name":"keep_top","share":2}]}]',
    'run noisy_recall --set probes=[{"name":"recall","edits":[{"name":"keep_bottom","rank":-1}]}]',
    "run noisy_recall --arch frozen_qk",
    "reproduce distributional --scale tiny",
    "run needle --set model.token_mixer.qk_scale=-1",
    "run needle --arch mixit --set model.token_mixer.sink=true --set model.token_mixer.n_heads=1",
    "run needle --arch mixit --set model.token_mixer.std=colum",
    "run needle --arch shaped_published --set model.token_mixer.tau0=0",
    "run needle --arch shaped_published --set model.base_width=0",
    "run needle --arch standard_published --set model.join.r=abc",
    "run needle --arch random_mixing+atention",
    "run needle --match parms",
    "run addition --arch mixit --match parameters",
    "reproduce mixit --scale small --seeds 1000,",
    "reproduce qk_scale --scale small",
    "reproduce frozen_draw --only addition",
    "reproduce needle_by_n",
    "claims no_such_folder",
    "figure no_such_folder -o a.png --over task.n_pairs",
    "export no_such_folder --to other",
    "table no_such_folder",
    "figure no_such_folder -o a.png",
    "compare no_such_folder other",
    "check theoy",
    "check theory --only propogation",
    "list mixer",
    "new mixer foo",
    "new task Foo-bar",
]


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    def call(line: str, *more: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["partwise", *line.split(), *more])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture(scope="module")
def seen():
    return {}


@pytest.mark.parametrize("line", WRONG)
def test_wrong_input_gives_the_pinned_message_and_exit_code_2(line, command, seen, tmp_path):
    if line.startswith("export"):
        pytest.importorskip("transformers")
    code, _, error = command(line)
    # What a catalogue holds is not pinned: a new part is one file and no edit elsewhere.
    text = re.sub(r"(There are|each token mixer's name): [^.;]*", r"\1: ...", " ".join(error.split()))
    seen[line] = text
    if "cuda" in line:  # what torch says of a device differs between builds
        assert text.startswith("error: device 'cuda:77' cannot be used here: ")
        seen[line] = text = "error: device 'cuda:77' cannot be used here: ..."
    if "--budget 1s" in line:
        assert text.startswith("error: 1 s are not enough: the smallest comparison takes about ")
        seen[line] = text = "error: 1 s are not enough: ..."
    assert code == 2
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())  # nothing half-written
    assert text == pinned("messages.json", _so_far(seen))[line]


def _so_far(seen):
    return {line: seen[line] for line in WRONG if line in seen}


def test_debug_shows_the_traceback(command):
    code, _, error = command("run nedle --debug")
    assert code == 2
    assert "Traceback" in error
    assert "no task is called 'nedle'" in error


def test_a_misspelt_command_or_option_gets_the_near_one(command):
    assert "Did you mean 'run'?" in command("rnu needle")[2]
    assert "--seeds" in command("run needle --sed 4")[2]


def test_an_unwritable_folder_is_named(command, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = command("run needle --out file/out")
    assert code == 2
    assert "--out file/out cannot be written: Not a directory." in " ".join(error.split())


def test_a_plug_in_that_raises_is_named(command, tmp_path):
    (tmp_path / "bad.py").write_text("1 / 0\n")
    assert "plug-in bad.py raised ZeroDivisionError: division by zero" in command("list --plugin bad.py")[2]
    (tmp_path / "worse.py").write_text("def (\n")
    assert "plug-in worse.py raised SyntaxError" in command("list --plugin worse.py")[2]


def test_a_part_that_raises_when_it_is_built_is_named_before_anything_runs(command, tmp_path):
    (tmp_path / "part.py").write_text(
        "from dataclasses import dataclass\n"
        "from partwise.token_mixers import TOKEN_MIXERS\n"
        "@TOKEN_MIXERS.register('raises_at_build')\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class P:\n"
        "    '''Raises.'''\n"
        "    def build(self, size, *, generator):\n"
        "        raise KeyError('nothing here')\n"
    )
    code, _, error = command("run needle --arch raises_at_build --plugin part.py")
    assert code == 2
    assert "KeyError: 'nothing here' (raised in part.py, line 8)" in " ".join(error.split())


def test_a_full_disk_is_said_and_leaves_nothing_half_written(command, monkeypatch, tmp_path):
    import errno

    from small import experiment

    from partwise import records
    from partwise.experiment import run

    real = records.write_file

    def full(path, write):
        if path.name == "model.safetensors":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, write)

    monkeypatch.setattr("partwise.checkpoint.write_file", full)
    with pytest.raises(OSError, match="No space left"):
        run(experiment(), tmp_path / "out")
    place = next((tmp_path / "out" / "runs").iterdir())
    assert not (place / "record.json").exists()
    assert (place / "checkpoint.safetensors").exists()
    monkeypatch.setattr("partwise.checkpoint.write_file", real)
    assert run(experiment(), tmp_path / "out").status == "done"

    def table(folder):
        raise OSError(errno.ENOSPC, "No space left on device", "table.md")

    monkeypatch.setattr("partwise.records.read_records", table)
    code, _, error = command("table out")
    assert code == 2
    assert "No space left on device (table.md). Free some space and start again" in " ".join(error.split())


def test_a_damaged_record_is_named_and_says_what_to_do(command, tmp_path):
    place = tmp_path / "out" / "runs" / "0123456789abcdef"
    place.mkdir(parents=True)
    (place / "record.json").write_text('{"digest": ')
    code, _, error = command("table out")
    assert code == 2
    assert "record.json is damaged" in " ".join(error.split())
    assert "remove it and start the run again" in " ".join(error.split())
