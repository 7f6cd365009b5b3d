"""Every probe in the catalogue is held to the contract, and the contract can fail."""

from dataclasses import dataclass

import pytest
import torch

from partwise import contracts
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, taps

CONFIGS = {name: PROBES[name]() for name in PROBES.names()}

every_probe = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_probe
def test_it_survives_plain_data(config):
    contracts.it_survives_plain_data(config)


@every_probe
def test_a_probe_only_looks(config):
    contracts.a_probe_only_looks(config)


@every_probe
def test_a_probe_yields_rows(config):
    contracts.a_probe_yields_rows(config)


@every_probe
def test_other_probes_do_not_change_its_values(config):
    contracts.other_probes_do_not_change_its_values(config)


@every_probe
def test_padding_does_not_change_its_values(config):
    contracts.padding_does_not_change_its_values(config)


def test_every_law_has_its_test_here():
    assert {f"test_{law.__name__}" for law in contracts.PROBE_LAWS} <= set(globals())


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A mean logit, with one fault."""

    fault: str

    def measure(self, model, batch):
        if self.fault == "leaves the model in eval mode":
            model.eval()
        if self.fault == "leaves a listener":
            for tap in taps(model).values() if has_tap(model, "*") else ():
                tap.listeners.append(lambda value: value)
        if self.fault == "leaves a gradient":
            predict(model, batch).sum().backward()
        with torch.no_grad():
            if self.fault == "moves a weight":
                model.unembed.weight.add_(1e-3)
            logits_BLV = predict(model, batch)
        if self.fault == "draws from the global generator":
            torch.rand(1)
        measured = logits_BLV if self.fault == "measures padding" else logits_BLV[batch.used_BL]
        if self.fault != "yields nothing":
            yield Row(where="model", quantity="mean_logit", value=measured.mean().item(), n=measured.numel())


FAULTS = {
    "leaves the model in eval mode": (contracts.a_probe_only_looks, "changes the mode"),
    "leaves a listener": (contracts.a_probe_only_looks, "changes the listeners"),
    "leaves a gradient": (contracts.a_probe_only_looks, "changes a gradient"),
    "moves a weight": (contracts.a_probe_only_looks, "changes a weight or buffer"),
    "draws from the global generator": (contracts.a_probe_only_looks, "global random generator"),
    "yields nothing": (contracts.a_probe_yields_rows, "yields no row"),
    "measures padding": (contracts.padding_does_not_change_its_values, "measures padding"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    law, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        law(Planted(fault=fault))


@pytest.mark.parametrize("law", contracts.PROBE_LAWS[1:], ids=lambda law: law.__name__)
def test_the_plant_without_a_fault_is_sound(law):
    law(Planted(fault="none"))
