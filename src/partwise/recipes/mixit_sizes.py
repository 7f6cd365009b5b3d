"""Sizes and rates of the comparison of Dong, Noci, Khodak, Li 2025, scale by scale."""

from typing import Any, Literal

from partwise.corpora.hub import Hub
from partwise.corpora.labelled_hub import LabelledHub
from partwise.corpora.movie_reviews import MovieReviews
from partwise.encoders.bpe import Bpe
from partwise.encoders.bytes import Bytes
from partwise.encoders.hub_tokenizer import HubTokenizer
from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.tasks.addition import Addition
from partwise.tasks.brackets import Brackets
from partwise.tasks.k_hop import KHop
from partwise.tasks.language_model import LanguageModel
from partwise.tasks.memorization import Memorization
from partwise.tasks.modular_addition import ModularAddition
from partwise.tasks.needle import Needle
from partwise.tasks.sentiment import Sentiment
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
    "language_model": {"usual": 3e-3, "embeddings_only": 1e-2},
    "sentiment": {"usual": 3e-3, "embeddings_only": 1e-2},
}
ON_REQUEST = ("language_model", "sentiment")  # what runs only when it is named
QUICK_ONLY = ("k_hop", "addition", "modular_addition", "brackets")  # tasks with no grid of their own behind RATE
CHOSEN = {
    "needle": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    "memorization": "chosen in advance at quick's sizes, on validation of seeds 1000 and 1001",
    **dict.fromkeys(QUICK_ONLY, "chosen in advance at quick's sizes, among two or three rates, on seed 1000"),
    "language_model": "fixed in advance, not chosen at this size",
    "sentiment": "fixed in advance after a few tries at quick's size, on seed 1000",
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
    "language_model": {"usual": (1.5e-3, 3e-3, 6e-3), "embeddings_only": (3e-3, 1e-2, 3e-2)},
    "sentiment": {"usual": (1e-3, 3e-3, 1e-2), "embeddings_only": (3e-3, 1e-2, 3e-2)},
}
PUBLISHED = (5e-4, 8e-4, 1e-3)  # the scripts' common grid (mixit.md 2.9); a task's own script adds its rate
FEWER_SEEDS = {"language_model": 3, "sentiment": 3}  # where a run takes minutes
GRID_SEEDS = {"language_model": (1000,), "sentiment": (1000,)}  # where one is enough: losses of text lie close together
GRID_PUBLISHED: dict[str, tuple[float, ...]] = {
    "needle": PUBLISHED,
    "k_hop": (1e-4, *PUBLISHED),
    "addition": (*PUBLISHED, 1e-2),
    "modular_addition": PUBLISHED,
    "brackets": PUBLISHED,
    "memorization": (*PUBLISHED, 5e-3),
    "language_model": PUBLISHED,
    "sentiment": PUBLISHED,
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


def language_model(
    *, encoder: Any, length: int, width: int, n_blocks: int, steps: int, batch: int, warmup: int = 100
) -> Experiment:
    """Shakespeare, on so many blocks."""
    train: dict[str, Any] = {"steps": steps, "batch": batch, "warmup": warmup, "weight_decay": 0.1}
    return _size(LanguageModel(encoder=encoder, length=length), width=width, n_blocks=n_blocks, **train)


def _published_text(dataset: str) -> Experiment:
    """Lines of the hub's text as published (mixit.md 2.7), though packed and with documents held out."""
    task = LanguageModel(
        corpus=Hub(dataset=dataset), encoder=HubTokenizer(tokenizer="meta-llama/Llama-3.2-1B"), length=256
    )
    train: dict[str, Any] = {"steps": 40_000, "batch": 512, "accumulate": 16, "lr": 5e-4, "warmup": 1600}
    return _size(task, width=512, n_blocks=12, n_heads=8, decay="linear", weight_decay=0.01, **train)


def sentiment(
    *, steps: int, source: Literal["both", "rotten_tomatoes"] = "both", length: int = 128, **size: Any
) -> Experiment:
    """Movie reviews, cut to so many words."""
    return _size(Sentiment(corpus=MovieReviews(source=source), length=length), steps=steps, batch=64, **size)


def _published_reviews() -> Experiment:
    """Yelp (mixit.md 2.6): one width for all arms, where the published script gives MixiT twice the width."""
    task = Sentiment(
        corpus=LabelledHub(dataset="yelp_polarity"),
        encoder=HubTokenizer(tokenizer="meta-llama/Llama-3.2-1B"),
        length=256,
    )
    train: dict[str, Any] = {"steps": 10_000, "batch": 256, "lr": 8e-4, "warmup": 500}
    return _size(task, width=512, n_blocks=4, n_heads=8, decay="linear", weight_decay=0.01, **train)


QUICK = {
    "k_hop": _size(KHop(length=20, max_hops=2), n_blocks=3, steps=600, batch=64),
    "addition": _size(Addition(n_digits=5), steps=500),
    "modular_addition": _size(ModularAddition(p=97), steps=400, batch=512),
    "brackets": _size(Brackets(max_pairs=10), width=32, steps=400),
}

FEW_FACTS: dict[str, Any] = {"n_second": 64, "batch": 2048, "width": 8}  # each is seen 4,000 times in 8,000 steps

PLAYS: dict[str, Any] = {"encoder": Bpe(vocabulary=4096), "length": 128, "width": 128, "n_blocks": 3, "batch": 4}
PLAYS_STEPS = 8000  # 4.1 M tokens, 2.6 times the training text

SMALL = {
    "needle": [needle(4), needle(8), needle(16, steps=1600)],
    **{task: [size] for task, size in QUICK.items()},
    "memorization": [memorization(**FEW_FACTS, steps=8000)],
    "language_model": [language_model(**PLAYS, steps=PLAYS_STEPS)],
    "sentiment": [sentiment(steps=600)],
}

# Where small and large choose rates; needle with many pairs has a grid of its own.
GRID_AT = {
    "needle": needle(8),
    **QUICK,
    "memorization": memorization(**FEW_FACTS, steps=1500),
    "language_model": language_model(**PLAYS, steps=PLAYS_STEPS // 6),
    "sentiment": sentiment(steps=300),
}
GRID_AT_MANY_PAIRS = needle(16, steps=1600)

SIZES: dict[str, dict[str, list[Experiment]]] = {
    "tiny": {
        "needle": [needle(4, steps=400)],
        "k_hop": [_size(KHop(length=12, max_hops=1), steps=200, batch=64)],
        "addition": [_size(Addition(n_digits=2), steps=300)],
        "modular_addition": [_size(ModularAddition(p=29), steps=200, batch=256)],
        "brackets": [_size(Brackets(max_pairs=6), width=32, steps=200)],
        "memorization": [memorization(128, steps=200, batch=2048)],
        "language_model": [language_model(encoder=Bytes(), length=32, width=32, n_blocks=2, steps=200, batch=32)],
        "sentiment": [sentiment(source="rotten_tomatoes", length=32, width=32, steps=200)],
    },
    "quick": {
        "needle": [needle(8)],
        **{task: [size] for task, size in QUICK.items()},
        "memorization": [memorization(256, steps=800, batch=4096)],
        "language_model": [language_model(encoder=Bytes(), length=64, width=64, n_blocks=2, steps=500, batch=32)],
        "sentiment": [sentiment(steps=300)],
    },
    "small": SMALL,
    "large": {
        "needle": [*SMALL["needle"], needle(24, steps=2000)],
        "k_hop": [*SMALL["k_hop"], _size(KHop(length=32, max_hops=3), n_blocks=3, steps=1500, batch=64)],
        "addition": [*SMALL["addition"], _size(Addition(n_digits=8), steps=2000)],
        "modular_addition": SMALL["modular_addition"],
        "brackets": [*SMALL["brackets"], _size(Brackets(max_pairs=20), width=32, steps=800)],
        "memorization": SMALL["memorization"],
        "language_model": [
            *SMALL["language_model"],
            language_model(
                **PLAYS | {"length": 256, "width": 256, "n_blocks": 6, "batch": 16}, steps=20_000, warmup=500
            ),
        ],
        "sentiment": [*SMALL["sentiment"], sentiment(length=256, width=128, n_blocks=3, steps=3000)],
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
        "language_model": [_published_text("wikitext-103-raw-v1"), _published_text("fineweb-edu")],
        "sentiment": [_published_reviews()],
    },
}
