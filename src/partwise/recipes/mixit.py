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
from partwise.selection import Grid
from partwise.tasks.memorization import Memorization
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.training import TrainConfig

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only")

# Peak rates by task and arm, the best of GRID on validation over seeds 1000 and 1001 at quick's sizes; the whole grid
# is in docs/lab/2026-11-30-first-light.md.
GRID = {"needle": (1e-3, 3e-3, 1e-2), "memorization": (1e-2, 2e-2, 4e-2)}
RATE = {
    "needle": dict.fromkeys(ARMS, 1e-2) | {"mixit": 3e-3},
    "memorization": dict.fromkeys(ARMS, 2e-2),
}
CHOSEN = "in advance, on validation of seeds 1000 and 1001"


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
            summary="an answer with intervals, about an hour on two cores: rates chosen on 2 seeds, 5 others reported",
            seeds=5,
        ),
        "paper": Scale(summary="the paper's sizes, for a GPU: needle at 30 pairs, 512 x 512 facts", seeds=1),
    }

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """Every arm of every task; seed by seed, so that a table fills evenly.

        Raises:
            UnknownName: no such scale or task.
        """
        arms = _arms(scale, only)
        n_seeds = self.scales[scale].seeds if n_seeds is None else n_seeds
        if n_seeds < 1:
            raise ConfigError(f"{n_seeds} seeds: at least 1 was expected.")
        return [dataclasses.replace(one, seed=seed) for seed in range(n_seeds) for one in arms]

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """Small chooses each arm's rate on seeds of their own; the other scales take RATE."""
        if scale != "small":
            return []
        return [Grid(base=one, values=GRID[one.task.registered_name]) for one in _arms(scale, only)]  # type: ignore[attr-defined]

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """The task at quick's size, under an architecture."""
        return _arm(SIZES["quick"][task][0], arch)


def _arms(scale: str, only: Sequence[str]) -> list[Experiment]:
    (scale,) = chosen("scale", [scale], list(Mixit.scales))
    tasks = chosen("task", only, Mixit.tasks)
    own_rate = scale != "paper"
    return [_arm(base, name, own_rate=own_rate) for task in tasks for base in SIZES[scale][task] for name in ARMS]


def _arm(base: Experiment, name: str, *, own_rate: bool = True) -> Experiment:
    """The base with an architecture's parts and learn rule, and the arm's rate."""
    arm = architecture(name)
    made = dataclasses.replace(base, model=arm.model(base.model), learn=arm.learn, architecture=name)
    if not own_rate:
        return dataclasses.replace(made, selection="the published one")
    rates = RATE[base.task.registered_name]  # type: ignore[attr-defined]
    train = dataclasses.replace(base.train, lr=rates.get(name, rates["standard"]))
    return dataclasses.replace(made, train=train, selection=CHOSEN)


def _needle(n_pairs: int, *, width: int = 64, steps: int = 800, n_values: int = 63, batch: int = 128) -> Experiment:
    return Experiment(
        task=Needle(n_pairs=n_pairs, n_values=n_values),
        model=ModelConfig(width=width, token_mixer=Attention(n_heads=4), embed_std=1.0),
        train=TrainConfig(steps=steps, batch=batch, warmup=80),
    )


def _memorization(n_first: int, n_second: int, *, width: int, steps: int, batch: int) -> Experiment:
    return Experiment(
        task=Memorization(n_first=n_first, n_second=n_second),
        model=ModelConfig(width=width, token_mixer=Attention(n_heads=4), embed_std=1.0),
        # Linear decay: with a cosine the last tenth of the steps hardly moves, and a run that is far from full looks
        # flat (docs/lab/2026-11-30-first-light.md).
        train=TrainConfig(steps=steps, batch=batch, warmup=80, decay="linear", weight_decay=1e-4),
    )


def _published(size: Experiment, *, lr: float) -> Experiment:
    return dataclasses.replace(size, train=dataclasses.replace(size.train, lr=lr, warmup=500, decay="cosine"))


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
        "needle": [_needle(4), _needle(8), _needle(16, steps=3000)],
        "memorization": [_memorization(64, 256, width=16, steps=3200, batch=4096)],
    },
    "paper": {
        "needle": [_published(_needle(30, width=512, steps=100_000, n_values=255, batch=1000), lr=1e-3)],
        "memorization": [_published(_memorization(512, 512, width=128, steps=20_000, batch=32_768), lr=5e-3)],
    },
}
