"""All of a training as one file, from which it goes on with the same bits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from partwise.checkpoint import load_tensors, load_weights, save_tensors, weights
from partwise.configs import to_plain
from partwise.course import Fit
from partwise.errors import ConfigError
from partwise.looking import Looking
from partwise.parts import LearnRule
from partwise.train_config import TrainConfig
from partwise.updates import optimizer_for


def stamp_of(
    model: nn.Module, data: Any, learn: LearnRule, config: TrainConfig, looking: Looking | None
) -> dict[str, Any]:
    """What makes a training this one and no other, for its checkpoint."""
    return {
        "train": to_plain(config, without_defaults=True),
        "learn": repr(learn),
        "task": [type(data).__name__, repr(getattr(data, "task", None)), repr(data.shape)],
        "parameters": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
        **({"looks": [repr(looking.probes), looking.at]} if looking and looking.at else {}),
    }


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, state: Fit, stamp: dict[str, Any]
) -> None:
    """Weights, buffers, moments, the global generator, where the training stands and which one it is, as one file."""
    held = {f"model/{name}": tensor for name, tensor in weights(model).items()}
    for name, parameter in model.named_parameters():
        for moment, tensor in optimizer.state.get(parameter, {}).items():
            held[f"optimizer/{name}/{moment}"] = tensor
    held["generator"] = torch.get_rng_state()
    save_tensors(path, held, {"state": vars(state), "stamp": stamp})


def resumed(
    model: nn.Module, learn: LearnRule, config: TrainConfig, checkpoint: Path | None, stamp: dict[str, Any]
) -> tuple[Fit, torch.optim.Optimizer | None]:
    """Where the checkpoint stands, with its weights put in; a new beginning where there is none.

    Raises:
        ConfigError: the checkpoint is of another training.
    """
    if checkpoint is None or not checkpoint.is_file():
        return Fit(), None
    held, note = load_tensors(checkpoint)
    stamp = json.loads(json.dumps(stamp))  # as it comes back: tuples are lists
    other = [name for name, value in stamp.items() if note.get("stamp", {}).get(name) != value]
    if other:
        raise ConfigError(
            f"{checkpoint} is of another training: {', '.join(other)} differ. Remove it, or name another."
        )
    load_weights(model, dict(_below("model/", held)), source=checkpoint)
    state = Fit(**{name: value for name, value in note["state"].items() if name in Fit.__dataclass_fields__})
    optimizer = optimizer_for(model, learn.learning(model, max(0, state.step - 1)), config)
    moments = dict(_below("optimizer/", held))
    for name, parameter in model.named_parameters():
        own = dict(_below(f"{name}/", moments))
        if own:
            device = parameter.device
            optimizer.state[parameter] = {moment: tensor.to(device) for moment, tensor in own.items()}
    torch.set_rng_state(held["generator"])
    return state, optimizer


def _below(prefix: str, held: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), tensor) for name, tensor in held.items() if name.startswith(prefix))
