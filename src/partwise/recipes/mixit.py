"""Which parts must learn for retrieval, for chained retrieval, for arithmetic, for brackets, and for memorization?

Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115 (Attention Retrieves, MLP Memorizes).
Expected: standard solves all but memorization; frozen_qk follows it; mixit and embeddings_only stay at needle's floor;
memorization falls from standard over frozen_qk to frozen_mlp. Minutes on two cores: quick 7 (needle and memorization
alone 3), small about 80.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from partwise.architectures import architecture
from partwise.errors import ConfigError
from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.recipes import RECIPES, Scale, chosen
from partwise.registry import name_of
from partwise.selection import Grid
from partwise.tasks.addition import Addition
from partwise.tasks.brackets import Brackets
from partwise.tasks.k_hop import KHop
from partwise.tasks.memorization import Memorization
from partwise.tasks.modular_addition import ModularAddition
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.training import TrainConfig

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit", "embeddings_only")

# Peak rates at quick's sizes: by task, the usual one and those of arms that do better with another, chosen on
# validation of seeds that are not reported (docs/lab/2026-11-30-first-light.md). Small chooses anew from GRID.
RATE: dict[str, dict[str, float]] = {
    "needle": {"usual": 1e-2, "mixit": 3e-3},
    "k_hop": {"usual": 3e-3},
    "addition": {"usual": 4e-3, "mixit": 8e-3, "embeddings_only": 8e-3},
    "modular_addition": {"usual": 1e-2},
    "brackets": {"usual": 3e-3},
    "memorization": {"usual": 4e-2, "standard": 2e-2, "embeddings_only": 8e-2},
}
GRID: dict[str, tuple[float, ...]] = {
    "needle": (1e-3, 3e-3, 1e-2),
    "k_hop": (1.5e-3, 3e-3, 6e-3),
    "addition": (4e-3, 8e-3, 1.6e-2),
    "modular_addition": (3e-3, 1e-2, 3e-2),
    "brackets": (1e-3, 3e-3, 1e-2),
    "memorization": (1e-2, 2e-2, 4e-2, 8e-2),
}
QUICK_ONLY = ("k_hop", "addition", "modular_addition", "brackets")  # tasks with no grid of their own yet
CHOSEN = {
    "needle": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    "memorization": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    **dict.fromkeys(QUICK_ONLY, "chosen in advance at quick's sizes, among two or three rates, on seed 1000"),
}
AT_EDGE = {  # arms whose best rate is the last of its grid, so that a better one may lie beyond
    "needle": ("standard", "frozen_qk", "frozen_mlp", "embeddings_only"),
    "memorization": ("embeddings_only",),
}


@RECIPES.register("mixit")
class Mixit:
    """Standard, Frozen-QK, Frozen-MLP, MixiT and embeddings only, on the paper's six synthetic tasks."""

    tasks: ClassVar[tuple[str, ...]] = tuple(RATE)
    scales: ClassVar[dict[str, Scale]] = {
        "tiny": Scale(
            summary="a glance, a minute or two: small sizes, one seed",
            seeds=1,
            cannot_tell=(
                "needle beyond 4 pairs",
                "how much an arm can memorize: the runs are so short that bits compare speed",
            ),
        ),
        "quick": Scale(
            summary="a first answer, 7 minutes on two cores: one seed",
            seeds=1,
            cannot_tell=("needle beyond 8 pairs", "how much an arm can memorize: bits still rise at the last step"),
        ),
        "small": Scale(
            summary="an answer with intervals, 80 minutes on two cores: rates chosen on 2 seeds, 5 others reported",
            seeds=5,
        ),
        "paper": Scale(summary="the published sizes and rates, for a GPU: see its --dry-run first", seeds=1),
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
        """Small chooses each arm's rate at quick's sizes, on seeds of their own; the other scales take RATE."""
        if scale != "small":
            return []
        return [Grid(base=one, values=GRID[name_of(one.task)]) for one in _arms("quick", only)]

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
        return dataclasses.replace(made, selection="the published ones")
    rates = RATE[name_of(base.task)]
    train = dataclasses.replace(base.train, lr=rates.get(name, rates["usual"]))
    return dataclasses.replace(made, train=train, selection=_how_chosen(name_of(base.task), name))


def _how_chosen(task: str, name: str) -> str:
    """What a table says of the arm's rate."""
    if name not in ARMS:
        return "the task's usual ones, not chosen for this arm"
    return CHOSEN[task] + ("; at the edge of the grid" if name in AT_EDGE.get(task, ()) else "")


def _size(
    task: Any, *, width: int = 64, n_blocks: int = 2, n_heads: int = 4, embed_std: float = 0.02, **train: Any
) -> Experiment:
    return Experiment(
        task=task,
        model=ModelConfig(width=width, n_blocks=n_blocks, token_mixer=Attention(n_heads=n_heads), embed_std=embed_std),
        train=TrainConfig(**train),
    )


def _needle(n_pairs: int, *, steps: int = 800) -> Experiment:
    return _size(Needle(n_pairs=n_pairs), embed_std=1.0, steps=steps)


def _memorization(n_second: int, *, steps: int, batch: int) -> Experiment:
    # Linear decay: with a cosine the last tenth of the steps hardly moves, and a run that is far from full looks flat
    # (docs/lab/2026-11-30-first-light.md).
    train: dict[str, Any] = {"steps": steps, "batch": batch, "decay": "linear", "weight_decay": 1e-4}
    return _size(Memorization(n_first=64, n_second=n_second), width=16, embed_std=1.0, **train)


QUICK = {
    "k_hop": _size(KHop(length=20, max_hops=2), n_blocks=3, steps=600, batch=64),
    "addition": _size(Addition(n_digits=5), steps=500),
    "modular_addition": _size(ModularAddition(p=97), steps=400, batch=512),
    "brackets": _size(Brackets(max_pairs=10), width=32, steps=400),
}

SIZES: dict[str, dict[str, list[Experiment]]] = {
    "tiny": {
        "needle": [_needle(4, steps=400)],
        "k_hop": [_size(KHop(length=12, max_hops=1), steps=200, batch=64)],
        "addition": [_size(Addition(n_digits=2), steps=300)],
        "modular_addition": [_size(ModularAddition(p=29), steps=200, batch=256)],
        "brackets": [_size(Brackets(max_pairs=6), width=32, steps=200)],
        "memorization": [_memorization(128, steps=200, batch=2048)],
    },
    "quick": {
        "needle": [_needle(8)],
        **{task: [size] for task, size in QUICK.items()},
        "memorization": [_memorization(256, steps=800, batch=4096)],
    },
    "small": {
        "needle": [_needle(4), _needle(8), _needle(16, steps=2000)],
        **{task: [size] for task, size in QUICK.items()},
        "memorization": [_memorization(256, steps=3200, batch=4096)],
    },
    # Where the published code gives the sizes and rates (mixit.md 2.1 to 2.8): steps are its examples over its batch.
    "paper": {
        "needle": [
            _size(
                Needle(n_pairs=30, n_values=255),
                width=512,
                embed_std=1.0,
                steps=100_000,
                batch=1000,
                lr=1e-3,
                warmup=500,
            )
        ],
        "k_hop": [
            _size(
                KHop(length=98, max_hops=16),
                width=128,
                n_blocks=5,
                steps=100_000,
                batch=32,
                lr=1e-4,
                warmup=1000,
                decay="linear",
            )
        ],
        "addition": [_size(Addition(n_digits=10), width=512, steps=40_000, batch=1000, lr=1e-2, warmup=500)],
        "modular_addition": [
            _size(ModularAddition(p=599, train_share=0.95), width=512, steps=20_000, batch=4000, lr=1e-3, warmup=50)
        ],
        "brackets": [
            _size(Brackets(max_pairs=40), width=512, n_heads=8, steps=234_000, batch=256, lr=5e-4, warmup=500)
        ],
        "memorization": [
            _size(
                Memorization(n_first=512, n_second=512),
                width=128,
                embed_std=1.0,
                steps=20_000,
                batch=32_768,
                lr=5e-3,
                warmup=500,
                weight_decay=1e-4,
            )
        ],
    },
}
