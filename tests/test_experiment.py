"""A run whole, and `train` for anybody's module."""

import math

import pytest
import torch
from small import experiment
from torch import nn

from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import run, vary
from partwise.flops import flops_per_example
from partwise.model import ModelConfig, Transformer
from partwise.parts import AllBut, Only, Stages
from partwise.probes.mix_entropy import MixEntropy
from partwise.probes.score_spread import ScoreSpread
from partwise.shapes import TaskShape
from partwise.tasks.memorization import Memorization
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.train_config import TrainConfig
from partwise.trial import train


class Bag(nn.Module):
    """A module of the user's: the mean of the embeddings so far."""

    def __init__(self, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, 16)
        self.head = nn.Linear(16, vocabulary)

    def forward(self, tokens):
        x = self.table(tokens)
        return self.head(x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None])


def test_a_users_module_is_trained_frozen_and_scored_by_its_own_names():
    task = Needle(n_pairs=2, n_values=5)
    module = Bag(task.build(seed=0).shape.vocabulary)
    before = module.table.weight.clone()
    record = train(module, task, learn=AllBut("table"), config=TrainConfig(steps=30, warmup=5), test_size=100)
    assert torch.equal(before, module.table.weight)
    assert record.value("trainable_parameters", where="model") == sum(p.numel() for p in module.head.parameters())
    assert 0 <= record.value("accuracy") <= 1
    assert record.value("flops", where="train") > 0
    assert record.task == "needle"


def test_a_module_with_too_few_outputs_is_told_so():
    task = Needle(n_pairs=2, n_values=5)
    module = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 5))
    with pytest.raises(ConfigError, match="Sequential gives 5 outputs, and this task has"):
        train(module, task)


def test_train_uses_the_threads_that_it_records():
    seen: set[int] = set()

    class Noting(Bag):
        def forward(self, tokens):
            seen.add(torch.get_num_threads())
            return super().forward(tokens)

    task = Needle(n_pairs=2, n_values=5)
    torch.set_num_threads(2)
    try:
        record = train(Noting(task.build(seed=0).shape.vocabulary), task, config=TrainConfig(steps=3, warmup=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert seen == {record.execution["threads"]} == {1}


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, "standard"),
        ({"learn": AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")}, "frozen_qk"),
        ({"learn": Only("embed", "positions?", "unembed")}, "embeddings_only"),
        (
            {"model__token_mixer": "random_mixing", "model__token_mixer__n_heads": 2, "model__positions": "learned"},
            "mixit",
        ),
        ({"model__token_mixer": "uniform"}, "uniform"),
        ({"learn": AllBut("blocks.0.token_mixer.query")}, "attention, frozen query"),
    ],
)
def test_an_experiment_without_a_name_is_called_what_it_amounts_to(changes, label):
    assert experiment(**changes).arm == label


def test_a_run_counts_what_it_used():
    one = experiment()
    record = run(one)
    _, model = one.build()
    assert record.value("total_parameters", where="model") == sum(p.numel() for p in model.parameters())
    assert 3 * 16 * 30 <= record.value("tokens", where="train") <= 5 * 16 * 30
    assert record.value("accuracy.ceiling") == 1.0
    assert not math.isnan(record.value("accuracy.floor.most_frequent_value"))
    assert {row.where for row in record.rows} >= {"test", "test/n_pairs=1", "test/n_pairs=2", "model", "train"}
    assert all(row.experiment == one.digest for row in record.rows)


@pytest.mark.parametrize("mixer", ["attention", "random_mixing"])
def test_flops_are_those_of_the_formula(mixer):
    """mixit.md 6: 2 FLOPs a weight and token forward, 4 backward; attention 4 T n a token and block (MixiT 2 T n)."""
    n, length, n_blocks, vocabulary = 32, 5, 3, 21
    task = Needle(n_pairs=2, n_values=vocabulary - 5)
    data = task.build(seed=0)
    assert (data.shape.length, data.shape.vocabulary) == (length, vocabulary)
    config = ModelConfig(n_blocks=n_blocks, width=n, token_mixer=Attention(n_heads=4))
    if mixer == "random_mixing":
        config = architecture("mixit").model(config)
    ((_, counted),) = flops_per_example(Transformer(config, data.shape, seed=0), data, AllBut())
    qk, vo, mlp = 2 * n * n, 2 * n * n, 12 * n * n
    mix = 4 * length * n if mixer == "attention" else 2 * length * n
    qk = qk if mixer == "attention" else 0
    whole = 6 * length * (qk + vo + mlp) + 3 * length * mix
    # The last block reads one position: keys and values of all, the rest for one; the matrix of MixiT has no gradient.
    last = 6 * (length * (qk / 2 + n * n) + (qk / 2 + n * n + mlp)) + 3 * mix
    unread = 0 if mixer == "attention" else n_blocks  # gradient of a fixed matrix is never computed
    saved = (length * mix * (n_blocks - 1) + mix) if unread else 0
    expected = whole * (n_blocks - 1) + last + 6 * vocabulary * n - saved
    assert counted == pytest.approx(expected, rel=0.01)


def test_flops_count_padding_whatever_the_lengths_of_the_rows_that_were_drawn():
    def counted(**task):
        data, model = experiment(task__n_pairs=6, task__n_values=9, **task).build()
        return flops_per_example(model, data, AllBut())

    assert counted() == counted(task__min_pairs=6)


def test_freezing_saves_its_weight_gradients_and_stages_count_each():
    one = experiment()
    data, model = one.build()
    qk = AllBut("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
    (whole,) = flops_per_example(model, data, AllBut())
    (frozen,) = flops_per_example(model, data, qk)
    assert frozen[1] < whole[1]
    staged = flops_per_example(model, data, Stages((0, qk), (10, AllBut())))
    assert staged == [(0, frozen[1]), (10, whole[1])]
    record = run(experiment(learn=Stages((0, qk), (10, AllBut()))))
    assert record.value("flops", where="train") == pytest.approx(16 * (10 * frozen[1] + 20 * whole[1]))


def test_counting_flops_leaves_no_gradient_behind():
    one = experiment()
    data, model = one.build()
    flops_per_example(model, data, Only("embed"))
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_probes_are_measured_on_the_trained_model():
    record = run(experiment(probes=(MixEntropy(), ScoreSpread())))
    found = {row.where: row for row in record.rows if row.quantity == "mix_entropy"}
    assert set(found) == {"blocks.0.token_mixer.mix", "blocks.1.token_mixer.mix"}
    assert all(row.step == 30 for row in found.values())
    assert any(row.quantity == "score_spread" for row in record.rows)


def test_a_run_that_still_rises_is_marked_by_its_gain():
    task = Memorization(n_first=16, n_second=16)
    record = run(experiment(task=task, train__steps=60, train__lr=2e-2, train__decay="linear", train__batch=64))
    gain = record.value("bits.gain_last_tenth", where="validation")
    scored = {entry["step"]: entry["validation"]["bits"] for entry in record.history if "validation" in entry}
    assert gain == pytest.approx((scored[60] - scored[54]) / scored[60])


CLEAN = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only", "norms_only", "frozen_vo")


def test_the_clean_arms_differ_in_what_they_are_said_to_differ_in():
    base = ModelConfig(width=32, token_mixer=Attention(n_heads=8, bias=False))
    shape = TaskShape(length=5, vocabulary=9)
    standard = Transformer(base, shape, seed=0).state_dict()
    for name in CLEAN:
        arm = architecture(name)
        model = Transformer(arm.model(base), shape, seed=0)
        for key, tensor in model.state_dict().items():
            if key in standard:
                assert torch.equal(tensor, standard[key]), (name, key)
        extra = set(model.state_dict()) - set(standard)
        expected = {"positions.weight", "blocks.0.token_mixer.mix_HLL", "blocks.1.token_mixer.mix_HLL"}
        assert extra == (expected if name == "mixit" else set()), name
    mixer = architecture("mixit").model(base).token_mixer
    assert (mixer.n_heads, mixer.bias) == (8, False)


def test_vary_gives_every_combination():
    runs = vary(experiment(), train__lr=[1e-3, 1e-2], seed=range(3))
    assert [(one.train.lr, one.seed) for one in runs] == [(lr, seed) for lr in (1e-3, 1e-2) for seed in range(3)]


def test_two_architectures_see_the_same_data():
    one, other = experiment(), experiment(model__token_mixer="uniform")
    from partwise.seeds import generator_for

    for step in range(3):
        batches = [
            e.build()[0].sample(16, split="train", generator=generator_for(e.seed_of("data"), f"train/{step}"))
            for e in (one, other)
        ]
        assert torch.equal(batches[0].tokens_BL, batches[1].tokens_BL)
