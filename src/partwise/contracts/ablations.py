"""What an ablation must hold to."""

from typing import Any

import torch

from partwise.ablations import ablated
from partwise.contracts.common import (
    LENGTH,
    VOCABULARY,
    WIDTH,
    Law,
    alike,
    it_survives_plain_data,
    name_of,
    require,
    token_batch,
)
from partwise.model import ModelConfig, Transformer
from partwise.parts import select
from partwise.seeds import generator_for
from partwise.shapes import TaskShape


def check_ablation(config: Any) -> None:
    """Hold an ablation's config to every law, on a small model of the lab."""
    for law in ABLATION_LAWS:
        law(config)


def every_bit_is_put_back(config: Any) -> None:
    """On leaving, also after an exception; flags, gradients and output too."""
    model, batch = _model(), token_batch(3, LENGTH)
    next(model.parameters()).requires_grad_(False)
    with torch.no_grad():
        before, said = _bits(model), model(batch)
    for fails in (False, True):
        try:
            with ablated(model, config):
                if fails:
                    raise KeyError("inside")
        except KeyError:
            pass
        after = "after an exception " if fails else ""
        for what, value in _bits(model).items():
            require(alike(value, before[what]), f"{name_of(config)}: {after}{what} is not put back.")
        with torch.no_grad():
            require(torch.equal(model(batch), said), f"{name_of(config)}: {after}the output is not put back.")


def an_ablation_edits_what_it_names_and_nothing_else(config: Any) -> None:
    """Some weight under its pattern changes, and none elsewhere."""
    model = _model()
    before, named = model.state_dict(), select(model, (config.pattern,))
    before = {name: tensor.clone() for name, tensor in before.items()}
    with ablated(model, config) as edited:
        changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    require(set(edited) == named, f"{name_of(config)}: it says that it edits {', '.join(edited)}.")
    require(bool(changed), f"{name_of(config)} leaves every weight as it was.")
    require(
        changed <= named, f"{name_of(config)} changes {', '.join(sorted(changed - named))}, which it does not name."
    )


def the_same_seed_gives_the_same_edit(config: Any) -> None:
    """Whatever was drawn before from the global generator, which stays as it was."""
    model, found = _model(), []
    with torch.random.fork_rng(devices=[]):
        for noise in (1, 2):
            torch.manual_seed(noise)
            with ablated(model, config, seed=3):
                found.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    require(alike(*found), f"{name_of(config)}: one seed gives two edits.")


def an_edit_has_the_shape_and_type_of_the_weight(config: Any) -> None:
    """In float32 and bfloat16, of matrices high and wide and of vectors; and the weight itself is left alone."""
    for dtype in (torch.float32, torch.bfloat16):
        for shape in ((6, 4), (4, 6), (5,)):
            weight = torch.randn(shape, generator=generator_for(0, f"{shape}")).to(dtype)
            given = weight.clone()
            edited = config.edited(given, generator=generator_for(1, "edit"))
            require(torch.equal(given, weight), f"{name_of(config)} edits the weight that it is given.")
            require(
                edited.shape == weight.shape,
                f"{name_of(config)}: shape {tuple(edited.shape)} in place of {tuple(weight.shape)}.",
            )
            require(edited.dtype == dtype, f"{name_of(config)}: {edited.dtype} in place of {dtype}.")
            require(bool(edited.isfinite().all()), f"{name_of(config)}: an edited weight is not finite.")


ABLATION_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    every_bit_is_put_back,
    an_ablation_edits_what_it_names_and_nothing_else,
    the_same_seed_gives_the_same_edit,
    an_edit_has_the_shape_and_type_of_the_weight,
)


def _model() -> Transformer:
    return Transformer(ModelConfig(width=WIDTH), TaskShape(length=LENGTH, vocabulary=VOCABULARY), seed=0)


def _bits(model: Transformer) -> dict[str, Any]:
    return {
        "a weight or buffer": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "what needs a gradient": [parameter.requires_grad for parameter in model.parameters()],
        "a gradient": [parameter.grad is None for parameter in model.parameters()],
        "the mode": [module.training for module in model.modules()],
    }
