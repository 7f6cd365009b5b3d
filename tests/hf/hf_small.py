"""The smallest models of Hugging Face that are still the real thing."""

from typing import Any

import torch
from torch import Tensor

from partwise import PartwiseConfig, PartwiseForCausalLM, PartwiseForSequenceClassification
from partwise.architectures import architectures
from partwise.token_mixers import TOKEN_MIXERS

VOCABULARY, LENGTH = 11, 14
MIXERS = TOKEN_MIXERS.names()
NAMES = sorted({*MIXERS, *(name for name, _ in architectures())})  # every mixer, and what else makes a model differ


def config(name: str = "mixit", **changes: Any) -> PartwiseConfig:
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": LENGTH}
    return PartwiseConfig(architecture=name, **sizes | changes)


def causal(name: str = "mixit", **changes: Any) -> PartwiseForCausalLM:
    return PartwiseForCausalLM(config(name, **changes)).eval()


def classifier(name: str = "mixit", **changes: Any) -> PartwiseForSequenceClassification:
    return PartwiseForSequenceClassification(config(name, num_labels=3, **changes)).eval()


def tokens(n: int = 3, length: int = LENGTH, *, seed: int = 0) -> Tensor:
    return torch.randint(1, VOCABULARY, (n, length), generator=torch.Generator().manual_seed(seed))  # 0 is the padding


def padded(rows: list[Tensor], side: str) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as (tokens, attention mask), 0 where there is none."""
    longest = max(len(row) for row in rows)
    whole, mask = torch.zeros(2, len(rows), longest, dtype=torch.long)
    for index, row in enumerate(rows):
        at = slice(longest - len(row), None) if side == "left" else slice(len(row))
        whole[index, at], mask[index, at] = row, 1
    return whole, mask
