"""Memorization: three counts of bits, each against its closed form and against the published numbers."""

import math
from collections import Counter

import pytest
import torch
from torch import nn

from partwise.batch import IGNORE
from partwise.errors import ConfigError
from partwise.evaluation import evaluation_batch, measure
from partwise.seeds import generator_for
from partwise.tasks.memorization import Memorization

PAPER = Memorization(n_first=512, n_second=512).build(seed=0)
# arm, trainable parameters at width 128, accuracy, bits a parameter by the paper's count and by Fano's (mixit.md 2.3)
PUBLISHED = [
    ("standard", 790_400, 0.998, 2.98, 2.97),
    ("frozen_qk", 724_352, 0.691, 2.25, 1.93),
    ("frozen_mlp", 394_880, 0.189, 1.13, 0.67),
    ("mixit", 724_736, 0.670, 2.18, 1.85),
]


def counts(data, accuracy, loss, trainable=1000, total=2000):
    measured = {"accuracy": accuracy, "loss": loss, "trainable_parameters": trainable, "total_parameters": total}
    return {row.quantity: row.value for row in data.derived(measured)}


@pytest.mark.parametrize(("arm", "parameters", "accuracy", "by_accuracy", "by_fano"), PUBLISHED)
def test_the_published_accuracies_give_the_published_bits(arm, parameters, accuracy, by_accuracy, by_fano):
    found = counts(PAPER, accuracy, 1.0, trainable=parameters, total=790_400)
    assert found["bits_accuracy_per_trainable_parameter"] == pytest.approx(by_accuracy, abs=0.005)
    assert found["bits_fano_per_trainable_parameter"] == pytest.approx(by_fano, abs=0.005)
    assert found["bits_fano_per_total_parameter"] == pytest.approx(by_fano * parameters / 790_400, abs=0.005)


def test_the_paper_has_2359296_bits_to_learn():
    assert PAPER.ceiling == 2_359_296
    assert PAPER.shape.vocabulary == 1024
    assert PAPER.n_facts == 512**2


@pytest.mark.parametrize(("first", "second", "values"), [(4, 8, 4), (16, 4, 2), (3, 5, 10)])
def test_each_count_is_its_closed_form(first, second, values):
    data = Memorization(n_first=first, n_second=second, n_values=values).build(seed=0)
    n, bits = first * second, math.log2(values)
    for accuracy, loss in ((0.9, 0.2), (0.6, 1.0), (1.0, 0.0)):
        miss = 1 - accuracy
        doubt = 0 if miss == 0 else -accuracy * math.log2(accuracy) - miss * math.log2(miss)
        fano = n * (bits - doubt - miss * math.log2(values - 1)) if accuracy > 1 / values else 0
        found = counts(data, accuracy, loss)
        assert found["bits"] == pytest.approx(n * max(0, bits - loss / math.log(2)))
        assert found["bits_accuracy"] == pytest.approx(accuracy * n * bits)
        assert found["bits_fano"] == pytest.approx(max(0, fano))
        for name in ("bits", "bits_accuracy", "bits_fano"):
            assert found[f"{name}_per_trainable_parameter"] == pytest.approx(found[name] / 1000)
            assert found[f"{name}_per_total_parameter"] == pytest.approx(found[name] / 2000)


def test_fano_is_zero_at_chance_and_never_counts_a_model_below_it():
    data = Memorization(n_first=8, n_second=8).build(seed=0)
    assert counts(data, 1 / 8, 3.0)["bits_fano"] == 0
    assert counts(data, 0.01, 3.0)["bits_fano"] == 0
    assert counts(data, 1 / 8 + 0.01, 3.0)["bits_fano"] > 0


class Says(nn.Module):
    """Logits from a table of (fact, token id)."""

    def __init__(self, logits):
        super().__init__()
        self.register_buffer("logits", logits)

    def forward(self, tokens_BL):
        first_B, second_B = tokens_BL[:, 0], tokens_BL[:, 1] - 16
        answer_BV = self.logits[first_B, second_B]
        return torch.stack((torch.zeros_like(answer_BV), answer_BV), dim=1)


@pytest.fixture(name="data")
def small_table():
    return Memorization(n_first=16, n_second=8).build(seed=1)


def measured(data, logits_ABV):
    batch = evaluation_batch(data, "test", n=1, seed=0)
    rows = measure(
        Says(logits_ABV),
        data,
        batch,
        split="test",
        step=7,
        counts={"trainable_parameters": 10.0, "total_parameters": 20.0},
    )
    assert {row.where for row in rows} == {"test"}
    assert {row.step for row in rows} == {7}
    return {row.quantity: row.value for row in rows}


def test_a_model_that_says_all_values_alike_holds_no_bit(data):
    logits_ABV = torch.full((16, 8, 24), -torch.inf)
    logits_ABV[..., :16] = 0
    found = measured(data, logits_ABV)
    assert found["loss"] == pytest.approx(math.log(16), rel=1e-6)
    assert found["bits"] == pytest.approx(0, abs=1e-3)


def test_random_logits_are_not_paid_for_fact_by_fact(data):
    logits_ABV = torch.randn(16, 8, 24, generator=generator_for(0, "x"))
    assert measured(data, logits_ABV)["bits"] == 0


def test_a_model_that_knows_the_table_holds_every_bit(data):
    logits_ABV = 50 * torch.nn.functional.one_hot(data.value_AB, 24).float()
    found = measured(data, logits_ABV)
    for name in ("bits", "bits_accuracy", "bits_fano", "bits.ceiling"):
        assert found[name] == pytest.approx(16 * 8 * 4, rel=1e-6), name
    assert found["bits_per_trainable_parameter"] == pytest.approx(51.2, rel=1e-6)
    assert found["bits_per_total_parameter"] == pytest.approx(25.6, rel=1e-6)


def test_a_table_of_the_last_key_alone_holds_what_its_floor_says(data):
    share_BV = torch.stack([torch.bincount(column, minlength=24) for column in data.value_AB.T]) / 16
    found = measured(data, share_BV.log().expand(16, 8, 24))
    assert found["bits.floor.table_of_last_key"] > 100  # a small table: its columns are far from uniform
    assert found["bits"] == pytest.approx(found["bits.floor.table_of_last_key"], rel=1e-5)
    assert found["accuracy"] == pytest.approx(found["accuracy.floor.most_frequent_by_last_key"])


def test_the_floors_are_the_shares_of_the_most_frequent_values(data):
    found = measured(data, torch.zeros(16, 8, 24))
    every = Counter(data.value_AB.flatten().tolist())
    assert found["accuracy.floor.most_frequent_value"] == pytest.approx(max(every.values()) / 128)
    columns = [max(Counter(column.tolist()).values()) for column in data.value_AB.T]
    assert found["accuracy.floor.most_frequent_by_last_key"] == pytest.approx(sum(columns) / 128)


def test_every_split_is_the_whole_table_once(data):
    for split in ("train", "validation", "test"):
        batch = data.all_of(split)
        assert len({tuple(tokens) for tokens in batch.tokens_BL.tolist()}) == len(batch) == 128
        assert torch.equal(batch.targets_BL[:, 1].reshape(16, 8), data.value_AB)
        assert (batch.targets_BL[:, 0] == IGNORE).all()


def test_the_table_hangs_on_the_seed_and_its_values_are_uniform():
    assert torch.equal(Memorization().build(seed=3).value_AB, Memorization().build(seed=3).value_AB)
    assert not torch.equal(Memorization().build(seed=3).value_AB, Memorization().build(seed=4).value_AB)
    histogram = torch.bincount(PAPER.value_AB.flatten(), minlength=512)
    assert len(histogram) == 512
    assert ((histogram - 512) ** 2 / 512).sum().item() == pytest.approx(511, abs=4 * (2 * 511) ** 0.5)


def test_every_field_shows_in_the_table():
    data = Memorization(n_first=3, n_second=5, n_values=40).build(seed=0)
    assert data.value_AB.shape == (3, 5)
    assert data.shape.vocabulary == 45
    assert data.all_of("test").tokens_BL.max() == 44
    assert Memorization(n_first=9).values == 9
    sampled = data.sample(500, split="train", generator=generator_for(0, "x"))
    assert len({tuple(tokens) for tokens in sampled.tokens_BL.tolist()}) == 15


@pytest.mark.parametrize("fields", [{"n_first": 0}, {"n_second": 0}, {"n_values": 1}, {"n_first": 1}])
def test_an_impossible_table_is_refused(fields):
    with pytest.raises(ConfigError):
        Memorization(**fields)
