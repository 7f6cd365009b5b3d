"""One loss and one score: against cases worked out by hand, for the lab's models and anybody's module."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from partwise import fast
from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.evaluation import (
    CHUNK,
    Headline,
    _exact,
    evaluation_batch,
    headline,
    loss_sum,
    measure,
    mode,
    predict,
    rows,
    score,
)
from partwise.model import ModelConfig, Transformer
from partwise.shapes import TaskShape
from partwise.tasks import ACCURACY, REAL_ERROR
from partwise.tasks.addition import Addition
from partwise.tasks.brackets import Brackets
from partwise.tasks.needle import Needle

_ = IGNORE


class Says(nn.Module):
    """The same logits for every batch, given as nested lists."""

    def __init__(self, logits):
        super().__init__()
        self.logits_BLV = torch.tensor(logits)

    def forward(self, tokens_BL):
        return self.logits_BLV[: len(tokens_BL)]


@dataclass
class Data:
    """Just enough of a task."""

    floor: torch.Tensor
    shape: TaskShape = TaskShape(length=2, vocabulary=3)
    ceiling: float | None = None

    def floors(self, batch):
        return {"constant": self.floor}


TARGETS = torch.tensor([[0, _], [1, 2], [_, 0]])
BATCH = Batch(tokens_BL=torch.zeros(3, 2, dtype=torch.int64), targets_BL=TARGETS)
LOGITS = [[[2.0, 0.0, 1.0], [0.0, 9.0, 0.0]], [[1.0, 0.0, 3.0], [0.0, 0.0, 1.0]], [[5.0, 0.0, 0.0], [1.0, 1.5, 0.0]]]


def hand_loss(*cases):
    """Mean of -log softmax, written out."""
    return sum(-math.log(math.exp(z[t]) / sum(map(math.exp, z))) for z, t in cases) / len(cases)


def test_loss_and_accuracy_equal_a_case_worked_out_by_hand():
    result = score(Says(LOGITS), BATCH)
    expected = hand_loss((LOGITS[0][0], 0), (LOGITS[1][0], 1), (LOGITS[1][1], 2), (LOGITS[2][1], 0))
    assert result.loss == pytest.approx(expected, rel=1e-6)
    found = {
        row.quantity: row
        for row in rows(Data(torch.zeros(3, 2, dtype=torch.int64)), BATCH, result, split="test", step=4)
    }
    assert found["accuracy"].value == 2 / 4  # right at (0, 0) and (1, 1)
    assert found["accuracy"].n == 4
    assert found["loss"].value == result.loss
    assert found["loss"].unit == "nat"
    assert found["exact_match"].value == pytest.approx(1 / 3)
    assert found["exact_match"].n == 3
    assert {row.step for row in found.values()} == {4}


def test_floors_are_scored_on_the_very_same_positions():
    data = Data(torch.tensor([[0, 2], [2, 2], [2, 2]]))
    found = {row.quantity: row for row in rows(data, BATCH, score(Says(LOGITS), BATCH), split="test", step=0)}
    assert found["accuracy.floor.constant"].value == 2 / 4
    assert found["accuracy.floor.constant"].n == 4
    assert found["exact_match.floor.constant"].value == pytest.approx(1 / 3)
    assert found["accuracy.ceiling"].value == 1
    data.ceiling = 0.75
    found = {row.quantity: row.value for row in rows(data, BATCH, score(Says(LOGITS), BATCH), split="test", step=0)}
    assert found["accuracy.ceiling"] == 0.75


def test_strata_of_examples_and_of_positions_split_the_score():
    batch = Batch(
        tokens_BL=BATCH.tokens_BL,
        targets_BL=TARGETS,
        strata={"row": torch.tensor([5, 6, 6]), "place": torch.tensor([[0, 1], [0, 1], [0, 1]])},
    )
    found = list(rows(Data(TARGETS.clamp_min(0)), batch, score(Says(LOGITS), batch), split="test", step=0))
    split = {row.where: (row.value, row.n) for row in found if row.where != "test" and row.quantity == "accuracy"}
    assert split == {
        "test/row=5": (1.0, 1),
        "test/row=6": (pytest.approx(1 / 3), 3),
        "test/place=0": (0.5, 2),
        "test/place=1": (0.5, 2),
    }


def test_floors_are_scored_on_each_stratum_too():
    batch = Batch(tokens_BL=BATCH.tokens_BL, targets_BL=TARGETS, strata={"row": torch.tensor([5, 6, 6])})
    data = Data(torch.tensor([[0, 2], [2, 2], [2, 2]]))
    found = rows(data, batch, score(Says(LOGITS), batch), split="test", step=4)
    floors = [row for row in found if row.quantity == "accuracy.floor.constant"]
    assert [(row.where, row.value, row.n, row.step) for row in floors] == [
        ("test/row=5", 1.0, 1, 4),
        ("test/row=6", pytest.approx(1 / 3), 3, 4),
        ("test", 0.5, 4, 4),
    ]


def test_strata_of_positions_follow_the_positions_that_are_read():
    targets_BL = torch.tensor([[_, 0], [1, _], [_, _]])
    batch = Batch(tokens_BL=BATCH.tokens_BL, targets_BL=targets_BL, strata={"place": torch.tensor([[0, 1]] * 3)})
    result = score(Says(LOGITS), batch)
    assert result.hits.shape == (3, 1)
    every = rows(Data(TARGETS.clamp_min(0)), batch, result, split="test", step=0)
    found = {row.where: row.value for row in every if row.quantity == "accuracy"}
    assert found["test/place=0"] == 0  # (1, 0): says 2, is 1
    assert found["test/place=1"] == 0  # (0, 1): says 1, is 0


def test_real_targets_are_scored_by_the_squared_error_of_the_first_output():
    targets_BL = torch.tensor([[math.nan, 2.0], [1.0, math.nan]])
    batch = Batch(tokens_BL=torch.zeros(2, 2, 3), targets_BL=targets_BL)
    model = Says([[[9.0, 0.0], [0.5, 7.0]], [[-1.0, 7.0], [9.0, 9.0]]])
    data = Data(
        torch.tensor([[0.0, 0.0], [0.0, 0.0]]), TaskShape(length=2, n_features=3, n_outputs=2, real_targets=True)
    )
    result = score(model, batch)
    assert result.loss == pytest.approx((1.5**2 + 2**2) / 2)
    found = {row.quantity: row.value for row in rows(data, batch, result, split="test", step=0)}
    assert found == {
        "squared_error": pytest.approx(3.125),
        "squared_error.floor.constant": pytest.approx(2.5),
        "squared_error.ceiling": 0,
    }


def test_the_loss_of_no_scored_position_is_zero_and_has_no_gradient_trouble():
    logits = torch.randn(2, 3, 4, requires_grad=True)
    loss_sum(logits, torch.full((2, 3), _)).backward()
    assert not logits.grad.any()
    real = torch.randn(2, 3, 1, requires_grad=True)
    loss_sum(real, torch.full((2, 3), math.nan)).backward()
    assert not real.grad.any()


def test_scoring_in_chunks_equals_scoring_at_once():
    data = Needle(n_pairs=3).build(seed=0)
    batch = evaluation_batch(data, "test", n=2 * CHUNK + 7, seed=0)
    model = Transformer(ModelConfig(width=8, n_blocks=1), data.shape, seed=0)
    result = score(model, batch)
    assert result.hits.shape == result.scored.shape == (2 * CHUNK + 7, 1)
    with torch.no_grad():
        logits = predict(model, batch).gather(
            1, batch.marks["answer"][:, None, None].expand(-1, -1, data.shape.output_width)
        )
    targets = batch.targets_BL.gather(1, batch.marks["answer"][:, None])
    assert torch.equal(result.hits, logits.argmax(-1) == targets)
    assert result.loss == pytest.approx(loss_sum(logits, targets).item() / len(batch), rel=1e-5)


@pytest.mark.parametrize("task", [Needle(n_pairs=6), Brackets(), Addition(n_digits=3)])
def test_scoring_rows_by_their_length_and_without_padding_changes_nothing(task):
    data = task.build(seed=0)
    batch = evaluation_batch(data, "test", n=CHUNK + 70, seed=0)
    model = Transformer(ModelConfig(width=8), data.shape, seed=0)
    quick = score(model, batch)
    with fast.plain():
        slow = score(model, batch)
    assert torch.equal(quick.hits, slow.hits)
    assert torch.equal(quick.scored, slow.scored)
    assert quick.loss == pytest.approx(slow.loss, rel=1e-6)


def test_anybodys_module_is_called_with_the_tokens_alone_and_its_logits_unpacked():
    @dataclass
    class Output:
        logits: torch.Tensor

    class Wrapped(Says):
        def forward(self, tokens_BL):
            assert isinstance(tokens_BL, torch.Tensor)
            return Output(super().forward(tokens_BL))

    assert torch.equal(predict(Wrapped(LOGITS), BATCH), torch.tensor(LOGITS))
    read_BQ = torch.tensor([[1], [0], [1]])
    assert predict(Wrapped(LOGITS), BATCH, read_BQ).tolist() == [[LOGITS[0][1]], [LOGITS[1][0]], [LOGITS[2][1]]]


@pytest.mark.parametrize(
    ("module", "came"),
    [
        (nn.Embedding(3, 4).double().requires_grad_(False), None),
        (Says([[0.0, 1.0]] * 3), r"Says gave \(3, 2\)"),
        (Says([[[0.0] * 3] * 5] * 3), r"Says gave \(3, 5, 3\)"),
    ],
)
def test_logits_of_a_wrong_shape_are_refused_with_the_shape_that_was_expected(module, came):
    if came is None:
        assert predict(module, BATCH).shape == (3, 2, 4)
        return
    with pytest.raises(
        ConfigError, match=came + r": logits of shape \(batch, length, vocabulary\) were expected, here \(3, 2, V\)"
    ):
        predict(module, BATCH)


def test_a_module_that_gives_no_tensor_is_told_what_it_gave():
    class Text(nn.Module):
        def forward(self, tokens_BL):
            return "words"

    with pytest.raises(ConfigError, match="Text gave str: logits"):
        predict(Text(), BATCH)


def test_scoring_puts_the_mode_back_and_leaves_no_gradient():
    data = Needle(n_pairs=2).build(seed=0)
    model = Transformer(ModelConfig(width=8), data.shape, seed=0)
    for training in (True, False):
        model.train(training)
        score(model, evaluation_batch(data, "test", n=10, seed=0))
        assert model.training is training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_evaluation_set_hangs_on_the_split_and_the_seed_alone():
    data = Needle().build(seed=0)
    one, same, other, split = (
        evaluation_batch(data, name, n=50, seed=seed).tokens_BL
        for name, seed in (("test", 0), ("test", 0), ("test", 1), ("validation", 0))
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, split)
    more = evaluation_batch(data, "test", n=60, seed=0)
    assert len(more) == 60


def test_a_run_of_needle_yields_every_kind_of_row():
    data = Needle(n_pairs=3).build(seed=0)
    model = Transformer(ModelConfig(width=8), data.shape, seed=0)
    batch = evaluation_batch(data, "test", n=40, seed=0)
    found = measure(model, data, batch, split="test", step=0, counts={})
    assert [row.quantity for row in found if row.where == "test"] == [
        "accuracy",
        "loss",
        "accuracy.floor.most_frequent_value",
        "accuracy.floor.last_value",
        "accuracy.ceiling",
    ]
    by_k = [row for row in found if row.where.startswith("test/n_pairs=") and row.quantity == "accuracy"]
    assert sum(row.n for row in by_k) == 40
    mean = sum(row.value * row.n for row in by_k) / 40
    assert mean == pytest.approx(found[0].value)


def test_the_headline_is_read_against_its_best_floor_and_its_ceiling():
    measured = {
        "accuracy": 0.95,
        "accuracy.floor.a": 0.3,
        "accuracy.floor.b": 0.5,
        "accuracy.ceiling": 1.0,
        "loss.floor.c": 0.99,
    }
    found = headline(ACCURACY, measured)
    assert found == Headline(value=0.95, floor=0.5, ceiling=1.0)
    assert found.closed == pytest.approx(0.9)
    assert Headline(value=0.9, floor=0.0, ceiling=1.0).solved
    assert not Headline(value=0.89, floor=0.0, ceiling=1.0).solved
    lower = headline(
        REAL_ERROR,
        {
            "squared_error": 0.1,
            "squared_error.floor.zero": 2.0,
            "squared_error.floor.mean": 1.0,
            "squared_error.ceiling": 0.0,
        },
    )
    assert lower.floor == 1.0
    assert lower.closed == pytest.approx(0.9)
    assert math.isnan(Headline(value=1.0, floor=1.0, ceiling=1.0).closed)


def test_a_row_that_scores_nothing_is_no_exact_match():
    hits = torch.tensor([[True, False], [False, False], [True, True]])
    scored = torch.tensor([[True, True], [False, False], [True, True]])
    assert _exact(hits & scored, scored) == (0.5, 2)


def test_scoring_gives_each_submodule_its_own_mode_back():
    model = nn.Sequential(nn.Embedding(4, 4), nn.Dropout(), nn.Dropout())
    model.train()
    model[1].eval()
    with mode(model, training=False):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False, True]
