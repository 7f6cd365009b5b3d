"""Probes that look while a model trains: when, on what, through kills and in populations; default digests unmoved."""

import dataclasses
import re

import pytest
from small import experiment

from partwise.errors import ConfigError
from partwise.experiment import Experiment, run, run_folder
from partwise.population import train_population
from partwise.probes.previous_token import PreviousToken
from partwise.report import draw_steps, readings, render
from partwise.tasks.needle import Needle


def looked_at(**changes):
    return dataclasses.replace(experiment(**changes), probes=(PreviousToken(),), probe_at=(0, 10, 20, 30))


def looks(record):
    return [(row.step, row.where, row.value) for row in record.rows if row.quantity == "previous_token"]


def test_probes_look_after_the_steps_asked_for_and_once_at_the_end():
    record = run(looked_at())
    steps = [step for step, _, _ in looks(record)]
    assert sorted(set(steps)) == [0, 10, 20, 30] and all(steps.count(step) == 4 for step in set(steps))
    assert record.value("previous_token", where="blocks.0.token_mixer.mix.0") == looks(record)[0][2]
    assert looks(record)[0][0] == 30  # what a table reads first is the end


def test_looking_changes_nothing_and_sees_the_model_of_that_step():
    looked, plain = run(looked_at()), run(experiment())
    assert looked.history == plain.history
    ended = run(experiment(train__steps=10, train__decay="constant", probes=["previous_token"]))
    on_the_way = run(dataclasses.replace(looked_at(train__decay="constant")))
    assert [one[1:] for one in looks(ended)] == [one[1:] for one in looks(on_the_way) if one[0] == 10]


def test_a_default_leaves_the_digest_as_it_was():
    one = Experiment(task=Needle())
    assert dataclasses.replace(one, probe_at=()).digest == one.digest
    assert dataclasses.replace(one, probes=(PreviousToken(),), probe_at=(5,)).digest != one.digest


def test_what_was_found_before_a_kill_is_kept(tmp_path):
    class Killed(BaseException):
        pass

    left = [12, 25]

    def watch(progress):
        if left and progress.step >= left[0]:
            left.pop(0)
            raise Killed

    one = looked_at()
    for _ in range(2):
        with pytest.raises(Killed):
            run(one, tmp_path, checkpoint_seconds=0.0, watch=watch)
    assert (run_folder(tmp_path, one) / "checkpoint.safetensors").is_file()
    assert looks(run(one, tmp_path, checkpoint_seconds=0.0)) == looks(run(one))


def test_a_population_looks_as_each_run_does():
    ones = [looked_at(seed=seed) for seed in (0, 1)]
    for record, one in zip(train_population(ones), ones, strict=True):
        alone = looks(run(one))
        assert [found[:2] for found in looks(record)] == [found[:2] for found in alone]
        assert [found[2] for found in looks(record)] == pytest.approx([found[2] for found in alone], abs=2e-3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"probe_at": (5,)}, "probe_at is [5], and probes is empty"),
        ({"probes": (PreviousToken(),), "probe_at": (5, 31)}, "probe_at is [5, 31]: steps from 0 to the run's 30 were"),
    ],
)
def test_steps_that_cannot_be_looked_at_are_errors_before_the_start(changes, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        dataclasses.replace(experiment(), **changes).check()


def test_tables_and_figures_show_the_strongest_head_by_step(tmp_path):
    records = [run(looked_at(seed=seed)) for seed in (0, 1)]
    at_ten = [max(value for step, _, value in looks(record) if step == 10) for record in records]
    found = readings.looks(records)["previous_token", "", readings.STRONGEST]
    assert list(found) == [0, 10, 20, 30] and found[10] == pytest.approx(sum(at_ten) / 2)
    text = render(records)
    assert "probes while it trains, the mean over seeds" in text and "blocks.0.token_mixer.mix" not in text
    first, second = (draw_steps(records, tmp_path / name, ["", "previous_token"]) for name in ("a.png", "b.png"))
    assert first.read_bytes() == second.read_bytes()


def test_a_figure_of_what_nobody_looked_for_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no run here was probed at several steps"):
        draw_steps([run(experiment(probes=["previous_token"]))], tmp_path / "a.png", ["previous_token"])
    with pytest.raises(ConfigError, match=r"no probe here found 'previous_tokens'. Did you mean 'previous_token'"):
        draw_steps([run(looked_at())], tmp_path / "a.png", ["previous_tokens"])
