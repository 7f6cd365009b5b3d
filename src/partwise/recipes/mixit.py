"""Which parts must learn for retrieval, and which for memorization?

Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (Attention Retrieves, MLP Memorizes).
Expected: standard, frozen_qk and frozen_mlp solve needle, mixit and embeddings_only stay at its floor; memorization
falls from standard over frozen_qk and mixit to frozen_mlp. Minutes on two cores: quick 3, small 60.
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.recipes import RECIPES, Scale, chosen
from partwise.tasks.memorization import Memorization
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.training import TrainConfig

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only")


@RECIPES.register("mixit")
class Mixit:
    """Standard, Frozen-QK, Frozen-MLP, MixiT and embeddings only, on needle and memorization."""

    tasks: ClassVar[tuple[str, ...]] = ("needle", "memorization")
    scales: ClassVar[dict[str, Scale]] = {
        "tiny": Scale(
            summary="a glance, half a minute: small sizes, one seed",
            seeds=1,
            cannot_tell=(
                "needle beyond 4 pairs",
                "how much an arm can memorize: the runs are so short that bits compare speed",
            ),
        ),
        "quick": Scale(
            summary="a first answer, 3 minutes on two cores: one seed",
            seeds=1,
            cannot_tell=("needle beyond 8 pairs", "how much an arm can memorize: bits still rise at the last step"),
        ),
        "small": Scale(
            summary="an answer with intervals, about an hour on two cores: 5 seeds, needle at 4, 8 and 16 pairs",
            seeds=5,
        ),
        "paper": Scale(summary="the paper's sizes, for a GPU: needle at 30 pairs, 512 x 512 facts", seeds=1),
    }

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """Every arm of every task; seed by seed, so that a table fills evenly.

        Raises:
            UnknownName: no such scale or task.
        """
        (scale,) = chosen("scale", [scale], list(self.scales))
        tasks = chosen("task", only, self.tasks)
        n_seeds = self.scales[scale].seeds if n_seeds is None else n_seeds
        if n_seeds < 1:
            raise ConfigError(f"{n_seeds} seeds: at least 1 was expected.")
        bases = [base for task in tasks for base in SIZES[scale][task]]
        return [arm(base, name, seed) for seed in range(n_seeds) for base in bases for name in ARMS]

    def base(self, task: str) -> Experiment:
        """The task at quick's size, everything learning."""
        return SIZES["quick"][task][0]


def arm(base: Experiment, name: str, seed: int) -> Experiment:
    """The base with an architecture's parts and learn rule."""
    chosen_one = architecture(name)
    return dataclasses.replace(
        base, model=chosen_one.model(base.model), learn=chosen_one.learn, architecture=name, seed=seed
    )


def _needle(
    n_pairs: int,
    *,
    width: int = 64,
    steps: int = 800,
    n_values: int = 63,
    lr: float = 1e-2,
    batch: int = 128,
    warmup: int = 80,
) -> Experiment:
    return Experiment(
        task=Needle(n_pairs=n_pairs, n_values=n_values),
        model=ModelConfig(width=width, token_mixer=Attention(n_heads=4), embed_std=1.0),
        train=TrainConfig(steps=steps, batch=batch, lr=lr, warmup=warmup),
    )


def _memorization(
    n_first: int, n_second: int, *, width: int, steps: int, batch: int, lr: float = 2e-2, warmup: int = 80
) -> Experiment:
    return Experiment(
        task=Memorization(n_first=n_first, n_second=n_second),
        model=ModelConfig(width=width, token_mixer=Attention(n_heads=4), embed_std=1.0),
        # Linear decay: with a cosine the last tenth of the steps hardly moves, and a run that is far from full looks flat
        # (docs/lab/2026-11-30-first-light.md).
        train=TrainConfig(steps=steps, batch=batch, lr=lr, warmup=warmup, decay="linear", weight_decay=1e-4),
    )


SIZES: dict[str, dict[str, list[Experiment]]] = {
    "tiny": {
        "needle": [_needle(4, steps=400)],
        "memorization": [_memorization(64, 128, width=16, steps=200, batch=2048)],
    },
    "quick": {
        "needle": [_needle(8)],
        "memorization": [_memorization(64, 256, width=16, steps=800, batch=4096)],
    },
    "small": {
        "needle": [_needle(4), _needle(8), _needle(16, steps=3000, lr=3e-3)],
        "memorization": [_memorization(64, 256, width=16, steps=3200, batch=4096)],
    },
    "paper": {
        "needle": [_needle(30, width=512, steps=100_000, n_values=255, lr=1e-3, batch=1000, warmup=500)],
        "memorization": [_memorization(512, 512, width=128, steps=20_000, batch=32_768, lr=5e-3, warmup=500)],
    },
}
