"""Predictors that are tables: for each thing that can be seen, the answer that went with it most often in training."""

import torch
from torch import Tensor

TABLE_SIZE = 20_000  # training examples that an endless task's tables are counted from, when it is built


def most_frequent(seen: Tensor, answers: Tensor, *, n_seen: int, n_answers: int) -> Tensor:
    """The answer most often met with each value of what is seen, int64 (n_seen,); 0 where none was met.

    Args:
        seen: int64, what is looked at, below `n_seen`; any shape.
        answers: int64 of the same shape, below `n_answers`; what is negative (IGNORE) does not count.
        n_seen: values that can be seen.
        n_answers: values that can be answered.
    """
    pair = (seen * n_answers + answers)[answers >= 0]
    return torch.bincount(pair, minlength=n_seen * n_answers).view(n_seen, n_answers).argmax(-1)
