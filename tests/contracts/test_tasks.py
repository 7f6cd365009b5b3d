"""Every task in the catalogue is held to the contract, and the contract can fail."""

import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
from reviews import small_sentiment

from partwise import contracts
from partwise.batch import IGNORE, Batch
from partwise.corpora.standard_library import StandardLibrary
from partwise.shapes import TaskShape
from partwise.tasks import TASKS
from partwise.tasks.language_model import LanguageModel
from partwise.tasks.memorization import Memorization
from partwise.tasks.needle import Needle

CONFIGS = {name: TASKS[name]() for name in TASKS.names()} | {
    "needle, of two values": Needle(n_pairs=5, n_values=2, n_keys=9, min_pairs=3),
    "needle, of one number of pairs": Needle(n_pairs=4, min_pairs=4, n_values=20),
    "memorization, few values": Memorization(n_first=4, n_second=6, n_values=3),
    "memorization, many values": Memorization(n_first=4, n_second=6, n_values=30),
    "sentiment": small_sentiment(),  # its default reads 33,000 reviews
    "language_model, a document a row": LanguageModel(corpus=StandardLibrary(), length=96, rows="one_document"),
}

every_task = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_task
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_task
def test_a_batch_is_what_the_shape_says(config):
    contracts.a_batch_is_what_the_shape_says(config)


@every_task
def test_the_referee_agrees_with_the_targets(config):
    contracts.the_referee_agrees_with_the_targets(config)


@every_task
def test_the_splits_share_no_example(config):
    contracts.the_splits_share_no_example(config)


@every_task
def test_the_same_seed_gives_the_same_data(config):
    contracts.the_same_seed_gives_the_same_data(config)


@every_task
def test_many_batches_at_once_are_the_same(config):
    contracts.many_batches_at_once_are_the_same(config)


@every_task
def test_floors_are_predictions(config):
    contracts.floors_are_predictions(config)


@every_task
def test_floor_losses_are_those_of_distributions(config):
    contracts.floor_losses_are_those_of_distributions(config)


@every_task
def test_a_model_can_be_trained_and_scored_on_it(config):
    contracts.a_model_can_be_trained_and_scored_on_it(config)


@every_task
def test_no_input_holds_its_own_answer(config):
    contracts.no_input_holds_its_own_answer(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.TASK_LAWS} <= set(globals())


@dataclass(frozen=True, kw_only=True)
class Planted:
    """Say the largest of eight numbers, with one fault."""

    fault: str

    def build(self, *, seed):
        return _Planted(self.fault)


class _Planted:
    ceiling = None
    splits_overlap = None

    def __init__(self, fault):
        self.fault = fault
        self.shape = TaskShape(length=8, vocabulary=50, may_look_ahead=fault != "has a floor that looks ahead")

    def sample(self, n, *, split, generator):
        if self.fault == "draws from the global generator":
            generator = None
        tokens_BL = torch.randint(50, (n, 8), generator=generator)
        if self.fault != "its splits overlap":
            tokens_BL[:, 0] = 3 * (tokens_BL[:, 0] // 3) % 48 + ("train", "validation", "test").index(split)
        if self.fault == "its splits overlap" and n > 500:
            tokens_BL[0] = 7
        targets_BL = torch.full_like(tokens_BL, IGNORE)
        targets_BL[:, -1] = tokens_BL.max(-1).values
        batch = Batch(tokens_BL=tokens_BL, targets_BL=targets_BL, marks={"answer": torch.full((n,), 7)})
        changes = {
            "gives one too few": lambda: batch.rows(0, max(1, n - 1)),
            "has a token out of range": lambda: dataclasses.replace(batch, tokens_BL=tokens_BL + 1),
            "has float tokens": lambda: dataclasses.replace(batch, tokens_BL=tokens_BL.float()),
            "scores the padding": lambda: dataclasses.replace(batch, lengths_B=torch.full((n,), 7), marks={}),
            "marks a place outside": lambda: dataclasses.replace(batch, marks={"answer": torch.full((n,), 8)}),
            "has an example without a target": lambda: dataclasses.replace(
                batch, targets_BL=targets_BL.masked_fill(torch.arange(n)[:, None] == 0, IGNORE)
            ),
            "is read off by looking ahead": lambda: dataclasses.replace(
                batch, targets_BL=torch.cat((tokens_BL[:, 1:], torch.full((n, 1), IGNORE)), dim=1)
            ),
        }
        return changes.get(self.fault, lambda: batch)()

    def floors(self, batch):
        if self.fault == "has no floor":
            return {}
        if self.fault == "has a floor that reads the targets":
            return {"cheat": batch.targets_BL}
        if self.fault == "has a floor of another shape":
            return {"last": batch.tokens_BL[:, -1]}
        return {"last": batch.tokens_BL[:, -1:].expand_as(batch.tokens_BL)}

    def floor_losses(self, batch):
        nats_BL = torch.full(batch.targets_BL.shape, math.log(50))
        if self.fault == "has a floor whose probabilities do not sum to one":
            nats_BL = nats_BL - 0.1
        if self.fault == "has a floor that looks ahead":
            nats_BL[:, :4] = batch.tokens_BL[:, 4:]
        return {} if self.fault == "has no floor of its loss" else {"uniform": nats_BL}

    def referee(self, tokens):
        best = min(tokens) if self.fault == "has a referee that errs" else max(tokens)
        return [IGNORE] * 7 + [best]


FAULTS = {
    "gives one too few": (contracts.a_batch_is_what_the_shape_says, "257 examples were asked for, 256 came"),
    "has a token out of range": (contracts.a_batch_is_what_the_shape_says, "of 50 ids"),
    "has float tokens": (contracts.a_batch_is_what_the_shape_says, "not int64"),
    "scores the padding": (contracts.a_batch_is_what_the_shape_says, "a target stands in the padding"),
    "marks a place outside": (contracts.a_batch_is_what_the_shape_says, "mark answer points outside"),
    "has an example without a target": (contracts.a_batch_is_what_the_shape_says, "an example has no target"),
    "its splits overlap": (contracts.the_splits_share_no_example, "1 examples stand both in train and in validation"),
    "draws from the global generator": (contracts.the_same_seed_gives_the_same_data, "global random generator"),
    "has no floor": (contracts.floors_are_predictions, "has no floor"),
    "has a floor that reads the targets": (contracts.floors_are_predictions, "reads the targets"),
    "has a floor of another shape": (contracts.floors_are_predictions, "shape"),
    "has a floor whose probabilities do not sum to one": (
        contracts.floor_losses_are_those_of_distributions,
        "sum to one within 0.11",
    ),
    "has no floor of its loss": (contracts.floor_losses_are_those_of_distributions, "no floor of its loss"),
    "has a floor that looks ahead": (contracts.floor_losses_are_those_of_distributions, "uniform looks ahead"),
    "has a referee that errs": (contracts.the_referee_agrees_with_the_targets, "the referee says"),
    "is read off by looking ahead": (contracts.no_input_holds_its_own_answer, "may_look_ahead is True"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))


@pytest.mark.parametrize("law", contracts.TASK_LAWS[1:], ids=lambda law: law.__name__)
def test_the_plant_without_a_fault_is_sound(law):
    law(Planted(fault="none"))
