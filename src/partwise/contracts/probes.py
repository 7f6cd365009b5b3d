"""What a probe must hold to."""

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from partwise.batch import Batch
from partwise.contracts.common import Law, alike, it_survives_plain_data, name_of, require
from partwise.errors import ConfigError
from partwise.model import ModelConfig, Transformer
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.taps import Tap
from partwise.tasks.k_hop import KHop
from partwise.tasks.needle import Needle
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention


def check_probe(config: Any) -> None:
    """Hold a probe's config to every law, on small models of the lab."""
    for law in PROBE_LAWS:
        law(config)


def a_probe_only_looks(config: Any) -> None:
    """Afterwards the model has the same bits, mode, flags and gradients, and nobody listens."""
    for name, model, batch in probed(config):
        for training in (True, False):
            model.train(training)
            model.blocks[0].train(not training)
            next(model.parameters()).requires_grad_(False)
            before, random = _looks(model), torch.get_rng_state()
            list(config.measure(model, batch))
            for what, value in _looks(model).items():
                require(alike(value, before[what]), f"{name} changes {what}.")
            require(torch.equal(random, torch.get_rng_state()), f"{name} draws from the global random generator.")


def a_probe_yields_rows(config: Any) -> None:
    """Finite rows with a name, a place and a count; nothing at all where the probe does not apply."""
    found = 0
    for name, model, batch in probed(config):
        for row in config.measure(model, batch):
            found += 1
            require(isinstance(row, Row), f"{name} yields {type(row).__name__}, not a Row.")
            require(bool(row.quantity and row.where), f"{name} yields a row without a name or a place: {row}.")
            require(math.isfinite(row.value) and row.n >= 1, f"{name} yields {row.value} over {row.n}.")
    require(found > 0, f"{name_of(config)} yields no row on any model of the lab.")


def other_probes_do_not_change_its_values(config: Any) -> None:
    """Any probes, in any order, before it: the same rows."""
    others = [cls() for cls in map(PROBES.__getitem__, PROBES.names())]
    for name, model, batch in probed(config):
        alone = list(config.measure(model, batch))
        for other in others:
            list(other.measure(model, batch))
        require(list(config.measure(model, batch)) == alone, f"{name} gives other values after other probes.")


def padding_does_not_change_its_values(config: Any) -> None:
    """What stands in the padding is not measured."""
    for name, model, batch in probed(config):
        other = dataclasses.replace(batch, tokens_BL=batch.tokens_BL.masked_fill(~batch.used_BL, 1))
        for one, two in zip(config.measure(model, batch), config.measure(model, other), strict=True):
            same = math.isclose(one.value, two.value, rel_tol=1e-5, abs_tol=1e-6) and one.n == two.n
            require(same, f"{name} measures padding: {one.quantity} is {one.value}, then {two.value}.")


PROBE_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    a_probe_only_looks,
    a_probe_yields_rows,
    other_probes_do_not_change_its_values,
    padding_does_not_change_its_values,
)


def probed(config: Any) -> Iterator[tuple[str, Transformer, Batch]]:
    """A probe's name in words, a model, and examples: for every token mixer, and for none, with padding, marks and one
    scored place; for attention also with many scored places."""
    needle, k_hop = Needle(n_pairs=4, n_values=9).build(seed=0), KHop(length=8, max_hops=2).build(seed=0)
    every = [TOKEN_MIXERS[name]() for name in TOKEN_MIXERS.names()]
    for data, mixers in ((needle, every), (k_hop, [Attention()])):
        batch = data.sample(12, split="test", generator=generator_for(0, "probed"))
        for mixer, two_way in itertools.product(mixers, (False, True)):
            try:
                model = Transformer(ModelConfig(width=16, token_mixer=mixer, two_way=two_way), data.shape, seed=0)
            except ConfigError:
                continue
            yield f"{name_of(config)} on {name_of(mixer)}", model, batch


def _looks(model: nn.Module) -> dict[str, Any]:
    """All that could be seen of a model from outside."""
    return {
        "a weight or buffer": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "the mode": [module.training for module in model.modules()],
        "what needs a gradient": [parameter.requires_grad for parameter in model.parameters()],
        "a gradient": [parameter.grad is None for parameter in model.parameters()],
        "the listeners": [list(module.listeners) for module in model.modules() if isinstance(module, Tap)],
        "the hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()
        ],
    }
