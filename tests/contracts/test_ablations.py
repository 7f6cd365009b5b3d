"""Every ablation in the catalogue is held to the contract, and the contract can fail."""

from dataclasses import dataclass

import pytest
import torch

from partwise import contracts
from partwise.ablations import ABLATIONS

CONFIGS = {name: ABLATIONS[name]() for name in ABLATIONS.names()}

every_ablation = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_ablation
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_ablation
def test_every_bit_is_put_back(config):
    contracts.every_bit_is_put_back(config)


@every_ablation
def test_an_ablation_edits_what_it_names_and_nothing_else(config):
    contracts.an_ablation_edits_what_it_names_and_nothing_else(config)


@every_ablation
def test_the_same_seed_gives_the_same_edit(config):
    contracts.the_same_seed_gives_the_same_edit(config)


@every_ablation
def test_an_edit_has_the_shape_and_type_of_the_weight(config):
    contracts.an_edit_has_the_shape_and_type_of_the_weight(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.ABLATION_LAWS} <= set(globals())


@dataclass(frozen=True, kw_only=True)
class Planted:
    """Halve the weights, with one fault."""

    fault: str
    pattern: str = "blocks.*.channel_mixer"
    label: str = "half"

    def edited(self, weight, *, generator):
        if self.fault == "changes nothing":
            return weight
        if self.fault == "edits the weight itself":
            weight.mul_(0.5)
            return weight
        if self.fault == "draws from the global generator":
            return weight * torch.rand(weight.shape)
        if self.fault == "gives another shape":
            return weight[..., :1]
        if self.fault == "gives another type":
            return (weight / 2).double() if weight.dtype == torch.float32 else (weight / 2).float()
        return weight / 2


FAULTS = {
    "changes nothing": (contracts.an_ablation_edits_what_it_names_and_nothing_else, "leaves every weight as it was"),
    "edits the weight itself": (contracts.an_edit_has_the_shape_and_type_of_the_weight, "edits the weight that it is"),
    "draws from the global generator": (contracts.the_same_seed_gives_the_same_edit, "two edits"),
    "gives another shape": (contracts.an_edit_has_the_shape_and_type_of_the_weight, "shape"),
    "gives another type": (contracts.an_edit_has_the_shape_and_type_of_the_weight, "float"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))


@pytest.mark.parametrize("law", contracts.ABLATION_LAWS[1:], ids=lambda law: law.__name__)
def test_the_plant_without_a_fault_is_sound(law):
    law(Planted(fault="none"))


def test_a_context_that_forgets_is_found(monkeypatch):
    import contextlib

    from partwise.contracts import ablations

    @contextlib.contextmanager
    def forgetful(model, *edits, seed=0):
        model.unembed.weight.data.add_(1e-3)
        yield []

    monkeypatch.setattr(ablations, "ablated", forgetful)
    with pytest.raises(AssertionError, match="is not put back"):
        contracts.every_bit_is_put_back(CONFIGS["drop"])
