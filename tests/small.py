"""The smallest things that are still the real thing: what many tests start from."""

from typing import Any

from partwise.configs import replaced
from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.train_config import TrainConfig


def experiment(**changes: Any) -> Experiment:
    """Needle with two pairs on a width of 16, 30 steps; `changes` are paths with __ for dots."""
    made = Experiment(
        task=Needle(n_pairs=2, n_values=5),
        model=ModelConfig(width=16, token_mixer=Attention(n_heads=2)),
        train=TrainConfig(steps=30, batch=16, lr=3e-3, warmup=5, validation_size=64),
        test_size=64,
    )
    for path, value in changes.items():
        made = replaced(made, path.replace("__", "."), value)
    return made
