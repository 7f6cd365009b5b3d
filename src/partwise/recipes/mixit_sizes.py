"""Sizes and rates of the comparison of Dong, Noci, Khodak, Li 2025, scale by scale."""

from typing import Any

from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.tasks.addition import Addition
from partwise.tasks.brackets import Brackets
from partwise.tasks.k_hop import KHop
from partwise.tasks.memorization import Memorization
from partwise.tasks.modular_addition import ModularAddition
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.train_config import TrainConfig

# Peak rates at quick's sizes: by task, the usual one and those of arms that do better with another, chosen on
# validation of seeds that are not reported (docs/lab/2026-11-30-first-light.md). Small and large choose anew.
RATE: dict[str, dict[str, float]] = {
    "needle": {"usual": 1e-2, "mixit": 3e-3},
    "k_hop": {"usual": 3e-3},
    "addition": {"usual": 4e-3, "mixit": 8e-3, "embeddings_only": 8e-3},
    "modular_addition": {"usual": 1e-2},
    "brackets": {"usual": 3e-3},
    "memorization": {"usual": 4e-2, "standard": 2e-2, "embeddings_only": 8e-2},
}
QUICK_ONLY = ("k_hop", "addition", "modular_addition", "brackets")  # tasks with no grid of their own behind RATE
CHOSEN = {
    "needle": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    "memorization": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    **dict.fromkeys(QUICK_ONLY, "chosen in advance at quick's sizes, among two or three rates, on seed 1000"),
}
AT_EDGE = {  # arms whose best rate is the last of its grid, so that a better one may lie beyond
    "needle": ("standard", "frozen_qk", "frozen_mlp", "embeddings_only"),
    "memorization": ("embeddings_only",),
}
# What small and large try, around RATE; as there, some arms have their own.
GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "needle": {"usual": (3e-3, 1e-2, 2e-2), "mixit": (1e-3, 3e-3, 1e-2)},
    "k_hop": {"usual": (1.5e-3, 3e-3, 6e-3)},
    "addition": {"usual": (2e-3, 4e-3, 8e-3), "mixit": (4e-3, 8e-3, 1.6e-2), "embeddings_only": (4e-3, 8e-3, 1.6e-2)},
    "modular_addition": {"usual": (3e-3, 1e-2, 3e-2)},
    "brackets": {"usual": (1e-3, 3e-3, 1e-2)},
    "memorization": {
        "usual": (2e-2, 4e-2, 8e-2),
        "standard": (1e-2, 2e-2, 4e-2),
        "embeddings_only": (4e-2, 8e-2, 1.6e-1),
    },
}
PUBLISHED = (5e-4, 8e-4, 1e-3)  # the scripts' common grid (mixit.md 2.9); a task's own script adds its rate
GRID_PUBLISHED: dict[str, tuple[float, ...]] = {
    "needle": PUBLISHED,
    "k_hop": (1e-4, *PUBLISHED),
    "addition": (*PUBLISHED, 1e-2),
    "modular_addition": PUBLISHED,
    "brackets": PUBLISHED,
    "memorization": (*PUBLISHED, 5e-3),
}
MANY_PAIRS = 12  # from which on needle has a grid of its own: standard, solved at 3e-3, stays at the floor at 5e-3
GRID_MANY_PAIRS: dict[str, tuple[float, ...]] = {"usual": (3e-3, 1e-2), "mixit": (1e-3, 3e-3, 1e-2)}


def _size(
    task: Any, *, width: int = 64, n_blocks: int = 2, n_heads: int = 4, embed_std: float = 0.02, **train: Any
) -> Experiment:
    return Experiment(
        task=task,
        model=ModelConfig(width=width, n_blocks=n_blocks, token_mixer=Attention(n_heads=n_heads), embed_std=embed_std),
        train=TrainConfig(**train),
    )


def needle(n_pairs: int, *, steps: int = 800) -> Experiment:
    """Needle with up to so many pairs, on two blocks of width 64."""
    return _size(Needle(n_pairs=n_pairs), embed_std=1.0, steps=steps)


def memorization(n_second: int, *, steps: int, batch: int, width: int = 16) -> Experiment:
    """64 x n_second facts, on two blocks so narrow that they cannot hold them."""
    # Linear decay: with a cosine the last tenth of the steps hardly moves, and a run that is far from full looks flat
    # (docs/lab/2026-11-30-first-light.md).
    train: dict[str, Any] = {"steps": steps, "batch": batch, "decay": "linear", "weight_decay": 1e-4}
    return _size(Memorization(n_first=64, n_second=n_second), width=width, embed_std=1.0, **train)


QUICK = {
    "k_hop": _size(KHop(length=20, max_hops=2), n_blocks=3, steps=600, batch=64),
    "addition": _size(Addition(n_digits=5), steps=500),
    "modular_addition": _size(ModularAddition(p=97), steps=400, batch=512),
    "brackets": _size(Brackets(max_pairs=10), width=32, steps=400),
}

FEW_FACTS: dict[str, Any] = {"n_second": 64, "batch": 2048, "width": 8}  # each is seen 4,000 times in 8,000 steps

SMALL = {
    "needle": [needle(4), needle(8), needle(16, steps=1600)],
    **{task: [size] for task, size in QUICK.items()},
    "memorization": [memorization(**FEW_FACTS, steps=8000)],
}

# Where small and large choose rates; needle with many pairs has a grid of its own.
GRID_AT = {"needle": needle(8), **QUICK, "memorization": memorization(**FEW_FACTS, steps=1500)}
GRID_AT_MANY_PAIRS = needle(16, steps=1600)

SIZES: dict[str, dict[str, list[Experiment]]] = {
    "tiny": {
        "needle": [needle(4, steps=400)],
        "k_hop": [_size(KHop(length=12, max_hops=1), steps=200, batch=64)],
        "addition": [_size(Addition(n_digits=2), steps=300)],
        "modular_addition": [_size(ModularAddition(p=29), steps=200, batch=256)],
        "brackets": [_size(Brackets(max_pairs=6), width=32, steps=200)],
        "memorization": [memorization(128, steps=200, batch=2048)],
    },
    "quick": {
        "needle": [needle(8)],
        **{task: [size] for task, size in QUICK.items()},
        "memorization": [memorization(256, steps=800, batch=4096)],
    },
    "small": SMALL,
    "large": {
        "needle": [*SMALL["needle"], needle(24, steps=2000)],
        "k_hop": [*SMALL["k_hop"], _size(KHop(length=32, max_hops=3), n_blocks=3, steps=1500, batch=64)],
        "addition": [*SMALL["addition"], _size(Addition(n_digits=8), steps=2000)],
        "modular_addition": SMALL["modular_addition"],
        "brackets": [*SMALL["brackets"], _size(Brackets(max_pairs=20), width=32, steps=800)],
        "memorization": SMALL["memorization"],
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
