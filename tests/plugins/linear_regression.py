"""In-context linear regression: after some pairs of x and y = w x, give the y of a new x.

    inputs   (x1, y1) (x2, y2) ... (xN, yN) (x, 0)
    targets      .        .            .      y

Source: von Oswald et al. 2023, arXiv:2212.07677; there x is uniform on (-1, 1) in each coordinate and w is N(0, I).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import Batch
from partwise.errors import ConfigError
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.splits import draw_split


@TASKS.register("linear_regression")
@dataclass(frozen=True, kw_only=True)
class LinearRegression:
    """Regression in context: every example has a w of its own, to be found from its pairs.

    Args:
        dimension: of x and w.
        n_pairs: N, pairs before the question.
        noise: sd of what is added to each y, also the one asked for.
    """

    dimension: int = 3
    n_pairs: int = 8
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.n_pairs < 1 or self.noise < 0:
            raise ConfigError("dimension and n_pairs are at least 1, and noise is not negative.")

    def build(self, *, seed: int) -> "LinearRegressionData":
        return LinearRegressionData(self)


class LinearRegressionData:
    ceiling = None
    splits_overlap = None

    def __init__(self, task: LinearRegression):
        self.task = task
        self.shape = TaskShape(length=task.n_pairs + 1, n_features=task.dimension + 1, n_outputs=1, real_targets=True)

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        content_BC = draw_split(n, split, lambda count: self._draw(count, generator))
        tokens_BLF = content_BC.unflatten(1, (self.shape.length, -1)).clone()
        targets_BL = torch.full(tokens_BLF.shape[:2], torch.nan)
        targets_BL[:, -1] = tokens_BLF[:, -1, -1]
        tokens_BLF[:, -1, -1] = 0
        asked_B = torch.full((n,), self.task.n_pairs)
        return Batch(tokens_BL=tokens_BLF, targets_BL=targets_BL, marks={"answer": asked_B})

    def _draw(self, n: int, generator: torch.Generator) -> Tensor:
        d, length = self.task.dimension, self.shape.length
        w_BK1 = torch.randn(n, d, 1, generator=generator)
        x_BLK = 2 * torch.rand(n, length, d, generator=generator) - 1
        y_BL1 = x_BLK @ w_BK1 + self.task.noise * torch.randn(n, length, 1, generator=generator)
        return torch.cat((x_BLK, y_BL1), dim=-1).flatten(1)

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """Zero, and the mean of the y that were shown: no look at any x."""
        mean_B1 = batch.tokens_BL[:, :-1, -1].mean(1, keepdim=True)
        return {"zero": torch.zeros_like(batch.targets_BL), "mean": mean_B1.expand_as(batch.targets_BL)}

    def bayes(self, batch: Batch) -> Tensor:
        """The posterior mean under the prior N(0, I): ridge regression, and without noise the shortest exact fit."""
        tokens_BLF = batch.tokens_BL.double()
        x_BNK, y_BN1, asked_B1K = tokens_BLF[:, :-1, :-1], tokens_BLF[:, :-1, -1:], tokens_BLF[:, -1:, :-1]
        gram_BNN = x_BNK @ x_BNK.mT + self.task.noise**2 * torch.eye(self.task.n_pairs, dtype=torch.float64)
        w_BK1 = x_BNK.mT @ (torch.linalg.pinv(gram_BNN, rtol=1e-9, hermitian=True) @ y_BN1)
        answer_B1 = (asked_B1K @ w_BK1)[..., 0].to(batch.targets_BL.dtype)
        return answer_B1.expand_as(batch.targets_BL)
