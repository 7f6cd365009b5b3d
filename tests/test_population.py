"""A population trains as its runs do one by one: same losses, same frozen bits, each with its own end."""

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from small import experiment

from partwise import configs
from partwise.batch import Batch
from partwise.checkpoint import weights
from partwise.configs import replaced
from partwise.errors import ConfigError
from partwise.execution import Execution
from partwise.experiment import Busy, Experiment, load_run, locked, run, run_folder, vary
from partwise.parts import AllBut, Only, Stages
from partwise.plugins import load_plugin
from partwise.population import StepTimes, check_stackable, kind_of, stacking_pays, step_times, train_population
from partwise.probes.mix_entropy import MixEntropy
from partwise.stack import Stack, Trained, Unstackable, side_by_side
from partwise.sweep import Options, run_all
from partwise.tasks import TASKS
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.train_config import PartRate

QK = ("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
WITH_STATE = Path(__file__).parent / "plugins" / "with_state.py"
VALUE = ("blocks.*.token_mixer.value",)
FEW = ("embed", "unembed", "blocks.0")


def rules(*frozen):
    """Learn rules, each with a rate and a decay."""
    stages = Stages((0, AllBut(*frozen)), (30, AllBut()), (60, Only(*FEW)), (80, AllBut()))
    yield AllBut(), 3e-3, 0.001
    yield AllBut(*frozen), 6e-3, 0.1
    yield Only("embed", "unembed"), 1e-3, 0.0
    yield stages, 3e-3, 0.3


def agree(population, singles, rel=1e-5):
    """The learning curves, and what surrounds them, are those of the single runs."""
    for ours, theirs in zip(population, singles, strict=True):
        assert (ours.digest, ours.status, ours.steps) == (theirs.digest, theirs.status, theirs.steps)
        for mine, single in zip(ours.history, theirs.history, strict=True):
            assert mine.keys() == single.keys()
            assert (mine["step"], mine["rate"]) == (single["step"], single["rate"])
            assert mine["loss"] == pytest.approx(single["loss"], rel=rel)
            assert mine["gradient_norm"] == pytest.approx(single["gradient_norm"], rel=100 * rel)
            if "validation" in mine:
                assert mine["validation"]["loss"] == pytest.approx(single["validation"]["loss"], rel=rel)


@pytest.mark.parametrize(("mixer", "frozen"), [(Attention(n_heads=2), QK), (RandomMixing(n_heads=2), VALUE)])
def test_a_hundred_steps_have_the_losses_of_the_single_runs(mixer, frozen):
    base = experiment(train__steps=100, model__token_mixer=mixer)
    runs = []
    for seed, (learn, lr, decay) in enumerate(rules(*frozen)):
        runs += vary(base, learn=[learn], train__lr=[lr], train__weight_decay=[decay], seed=[seed])
    agree(train_population(runs), [run(one) for one in runs])


@pytest.mark.parametrize("name", TOKEN_MIXERS.names())
@pytest.mark.parametrize("two_way", [False, True])
def test_every_mixer_stacks(name, two_way):
    base = experiment(train__steps=10, task={"name": "brackets"}, model__token_mixer=name, model__two_way=two_way)
    runs = vary(base, seed=range(2))
    agree(train_population(runs), [run(one) for one in runs])


@pytest.mark.parametrize("name", TASKS.names())
def test_every_task_stacks(name):
    small = {"n_first": 8, "n_second": 16} if name == "memorization" else {}
    runs = vary(experiment(train__steps=10, task={"name": name, **small}), seed=range(2))
    agree(train_population(runs), [run(one) for one in runs])


@pytest.mark.parametrize(
    "changes",
    [
        {"train__accumulate": 3},
        {"train__clip": None},
        {"train__decay": "linear", "train__betas": (0.8, 0.95), "train__eps": 1e-4},
        {"train__parts": (PartRate(pattern="embed", lr=1e-2), PartRate(pattern="blocks.*.norm_1", weight_decay=0.3))},
        {"model__tied": True, "model__positions": "learned"},
    ],
    ids=["pieces", "no clipping", "another AdamW", "parts", "tied"],
)
def test_every_setting_of_a_training_holds_for_the_stack(changes):
    runs = vary(experiment(**changes), seed=range(2))
    agree(train_population(runs), [run(one) for one in runs])


def test_seeds_of_weights_frozen_draws_and_data_may_differ_each_by_itself():
    base = experiment(learn=AllBut(*QK))
    runs = [base, *(replaced(base, f"{what}_seed", 7) for what in ("init", "frozen", "data"))]
    population = train_population(runs)
    agree(population, [run(one) for one in runs])
    assert len({record.history[0]["loss"] for record in population}) == 4


def test_bfloat16_stacks():
    runs = vary(experiment(), seed=range(2))
    execution = Execution(precision="bfloat16")
    agree(train_population(runs, execution=execution), [run(one, execution=execution) for one in runs], rel=0.02)


def test_a_record_has_what_a_single_run_has():
    one = experiment(probes=(MixEntropy(),))
    other = dataclasses.replace(one, seed=1, architecture="mine", selection="by hand")
    for ours, theirs in zip(train_population([one, other, one]), [run(one), run(other), run(one)], strict=True):
        plain, single = json.loads(ours.to_json()), json.loads(theirs.to_json())
        assert plain["execution"].pop("stacked") == 2
        assert single["execution"].pop("stacked") == 1
        for name in plain.keys() - {"rows", "history", "seconds", "finished"}:
            assert plain[name] == single[name], name
        for mine, row in zip(ours.rows, theirs.rows, strict=True):
            assert dataclasses.replace(mine, value=0.0) == dataclasses.replace(row, value=0.0)
            assert mine.value == pytest.approx(row.value, rel=1e-4), row
        assert ours.seconds > 0


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_what_is_frozen_keeps_its_bits_and_what_stops_learning_too(tmp_path, decay):
    stages = Stages((0, AllBut()), (10, AllBut(*QK)))
    rules = [AllBut(*QK), Only("embed"), stages]
    runs = vary(experiment(train__weight_decay=decay), learn=rules)
    _, start = runs[0].build()
    train_population(runs, tmp_path)
    for one in runs[:2]:
        learns, end = one.learn.learning(start), weights(load_run(run_folder(tmp_path, one))[1])
        for name, tensor in weights(start).items():
            assert torch.equal(tensor, end[name]) == (name not in learns), name

    trained = Trained(model=runs[2].build()[1], learn=stages, config=runs[2].train)
    stack, data = Stack([trained]), runs[2].build()[0]
    seen = []
    for step in range(20):
        stack.update(step, [data.sample(16, split="train", generator=torch.Generator().manual_seed(step))])
        stack.hand_back(0)
        seen.append(trained.model.blocks[0].token_mixer.key.weight.clone())
    assert not torch.equal(seen[8], seen[9])
    assert all(torch.equal(seen[9], later) for later in seen[10:])


def test_one_that_diverges_is_marked_and_leaves_the_others_alone():
    base = experiment()
    runs = [base, *vary(base, train__lr=[1e30], seed=range(2)), replaced(base, "seed", 4)]
    population = train_population(runs)
    assert [record.status for record in population] == ["done", "diverged", "diverged", "done"]
    singles = [run(one) for one in runs]
    assert [record.detail.split(":")[0] for record in population] == [r.detail.split(":")[0] for r in singles]
    assert [record.steps for record in population] == [record.steps for record in singles]
    agree([population[0], population[3]], [singles[0], singles[3]])
    assert math.isnan(population[1].value("accuracy"))


def test_a_population_in_which_all_diverge_ends():
    assert {r.status for r in train_population(vary(experiment(train__lr=1e30), seed=range(2)))} == {"diverged"}


def test_one_that_is_solved_may_stop_and_the_others_go_on():
    base = experiment(train__steps=90, train__batch=32, train__lr=1e-2, train__decay="constant")
    base = replaced(replaced(base, "train.stop_when_solved", True), "train.evaluate_every", 10)
    runs = vary(base, seed=[2, 1])
    population = train_population(runs)
    agree(population, [run(one) for one in runs], rel=1e-3)
    assert [record.stopped_early for record in population] == [True, False]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("train.steps", 40, "differ in train.steps: 30 and 40"),
        ("task.n_pairs", 3, "differ in task.n_pairs: 2 and 3"),
        ("model.token_mixer", RandomMixing(n_heads=2), "differ in model.token_mixer: .*'attention'.*'random_mixing'"),
        ("test_size", 65, "differ in test_size: 64 and 65"),
    ],
)
def test_what_may_not_differ_is_named_with_both_values(path, value, said):
    one = experiment()
    with pytest.raises(ConfigError, match=said):
        train_population([one, replaced(one, path, value)])
    assert kind_of(one) != kind_of(replaced(one, path, value))


def test_what_may_differ_is_of_one_kind():
    one = experiment()
    varied = {"seed": 3, "init_seed": 1, "frozen_seed": 1, "data_seed": 1, "learn": Only("embed"), "selection": "so"}
    varied |= {"train.lr": 0.1, "train.weight_decay": 0.2, "architecture": "mine", "matching": "flops"}
    others = [replaced(one, path, value) for path, value in varied.items()]
    check_stackable([one, *others])
    assert {kind_of(other) for other in others} == {kind_of(one)}


def test_a_population_of_none_is_an_error():
    with pytest.raises(ConfigError, match="at least one was expected"):
        train_population([])


def test_runs_land_where_single_runs_do_and_a_finished_one_is_kept(tmp_path):
    runs = vary(experiment(), seed=range(3))
    first = run(runs[1], tmp_path)
    seen = []
    records = train_population(runs, tmp_path, watch=lambda index, progress: seen.append(index))
    assert set(seen) == {0, 2}
    assert records[1].seconds == first.seconds
    assert records[1].execution["stacked"] == 1
    assert [record.execution["stacked"] for record in (records[0], records[2])] == [2, 2]
    for one, record in zip(runs, records, strict=True):
        assert run(one, tmp_path).to_json() == record.to_json()
        loaded, _ = load_run(run_folder(tmp_path, one))
        assert loaded == one
    fresh = train_population(runs, tmp_path, fresh=True)
    assert {record.execution["stacked"] for record in fresh} == {3}


def test_a_run_that_another_process_has_is_said(tmp_path):
    runs = vary(experiment(), seed=range(2))
    with locked(run_folder(tmp_path, runs[1])), pytest.raises(Busy):
        train_population(runs, tmp_path)


def test_a_population_that_was_stopped_begins_again_and_may_go_on_singly(tmp_path):
    runs = vary(experiment(), seed=range(2))

    class Killed(Exception):
        pass

    def killed(index, progress):
        raise Killed

    with pytest.raises(Killed):
        train_population(runs, tmp_path, watch=killed)
    (single,) = [run(runs[0], tmp_path)]
    assert single.execution["stacked"] == 1
    again = train_population(runs, tmp_path)
    assert [record.execution["stacked"] for record in again] == [1, 1]
    agree(again, [run(one) for one in runs])


def test_batches_of_unequal_lengths_stand_side_by_side():
    def batch(length, lengths, target):
        tokens = torch.ones(2, length, dtype=torch.int64)
        return Batch(tokens_BL=tokens, targets_BL=tokens * target, lengths_B=lengths)

    both = side_by_side([batch(3, None, 1), batch(2, torch.tensor([1, 2]), 1)])
    assert both.tokens_BL.shape == (4, 3)
    assert both.lengths_B.tolist() == [3, 3, 1, 2]
    assert both.targets_BL[2].tolist() == [1, 1, -100]
    assert side_by_side([batch(3, None, 1)] * 2).lengths_B is None
    real = Batch(tokens_BL=torch.zeros(1, 2, 4), targets_BL=torch.zeros(1, 2))
    longer = Batch(tokens_BL=torch.zeros(1, 3, 4), targets_BL=torch.zeros(1, 3))
    assert side_by_side([real, longer]).scored_BL.tolist() == [[True, True, False], [True] * 3]


def test_a_calibration_times_both_ways():
    runs = vary(experiment(), seed=range(2))
    times = step_times(runs, seconds=0.01)
    assert times.alone_ms > 0
    assert times.stacked_ms > 0
    assert times.pays == (times.stacked_ms < times.alone_ms)
    assert StepTimes(alone_ms=2.0, stacked_ms=1.0).pays
    assert isinstance(stacking_pays(runs, seconds=0.01), bool)


def test_an_execution_from_before_populations_can_be_read(tmp_path):
    one = experiment()
    place = run_folder(tmp_path, one)
    place.mkdir(parents=True)
    plain = Execution().to_plain()
    del plain["stacked"]
    (place / "execution.json").write_text(json.dumps(plain))
    assert run(one, tmp_path).execution["stacked"] == 1
    assert configs.from_plain(Experiment, json.loads((place / "experiment.json").read_text())) == one


def with_state(how):
    load_plugin(WITH_STATE)
    task = {"name": "modular_addition", "p": 11}  # of full rows: a packed batch meets its mixer in groups
    return experiment(task=task, model__token_mixer={"name": "with_state", "how": how}, train__steps=20)


@pytest.mark.parametrize("how", ["in_place", "anew"])
def test_buffers_that_training_moves_are_each_models_own(tmp_path, how):
    runs = vary(with_state(how), seed=range(2), train__lr=[3e-3, 1e-2])
    agree(train_population(runs, tmp_path / "one"), [run(each, tmp_path / "each") for each in runs])
    for each in runs:
        ours, theirs = (weights(load_run(run_folder(tmp_path / where, each))[1]) for where in ("one", "each"))
        assert theirs["blocks.0.token_mixer.seen"] == 20
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-3, atol=1e-5, msg=name)


def test_what_is_frozen_keeps_its_buffers_and_one_that_joins_later_moves_them(tmp_path):
    frozen = AllBut("blocks.*.token_mixer")
    late = Stages((0, frozen), (15, AllBut()))
    for learn, moves in ((frozen, 0), (late, 5)):
        runs = vary(with_state("in_place"), learn=[learn], seed=range(2))
        agree(train_population(runs, tmp_path), [run(each) for each in runs])
        for each in runs:
            assert load_run(run_folder(tmp_path, each))[1].blocks[0].token_mixer.seen == moves


def test_a_module_with_buffers_that_only_some_models_learn_is_no_population(tmp_path):
    runs = vary(with_state("in_place"), learn=[AllBut(), AllBut("blocks.0.token_mixer")])
    with pytest.raises(Unstackable, match=r"blocks\.0\.token_mixer has buffers and is frozen in some"):
        train_population(runs)
    assert [record.status for record in run_all(runs, tmp_path, jobs=1, options=Options(stack="auto"))] == ["done"] * 2


@pytest.mark.parametrize(("how", "said"), [("dropout", "random operation"), ("branch", "data-dependent control flow")])
def test_models_that_vmap_refuses_are_trained_singly_where_that_is_left_open(tmp_path, how, said):
    runs = vary(with_state(how), seed=range(2))
    with pytest.raises(ConfigError, match=f"cannot be trained as one: .*{said}.*on its own"):
        train_population(runs)
    singly = run_all(runs, tmp_path / "auto", jobs=1, options=Options(stack="auto"))
    assert [(record.status, record.execution["stacked"]) for record in singly] == [("done", 1)] * 2
    failed = run_all(runs[:2], tmp_path / "always", jobs=1, options=Options(stack="always"))
    assert all(record.status == "failed" and said in record.detail for record in failed)
