"""A training step of one arm, fully said: what learns, at which size, on how much."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.analytic import step_flops
from benchmarks.text import RandomText
from partwise.architectures import architecture
from partwise.batch import Batch
from partwise.model import ModelConfig, Transformer
from partwise.parts import LearnRule
from partwise.seeds import generator_for
from partwise.train_config import TrainConfig
from partwise.updates import Precision, optimizer_for, stepper


@dataclass(frozen=True, kw_only=True)
class Work:
    """One training step of one arm.

    Args:
        arm: an architecture's name.
        n_blocks: depth.
        width: n; four heads, a gated feed-forward of 4 n.
        batch: examples.
        task: what is trained on.
    """

    arm: str = "standard"
    n_blocks: int = 2
    width: int = 128
    batch: int = 8
    task: Any = RandomText(length=128, vocabulary=1024)

    @property
    def learn(self) -> LearnRule:
        return architecture(self.arm).learn

    def model(self) -> Transformer:
        """As it starts."""
        config = architecture(self.arm).model(ModelConfig(n_blocks=self.n_blocks, width=self.width))
        return Transformer(config, self.task.build(seed=0).shape, seed=0)

    def draw(self) -> Batch:
        """What the step is taken on, drawn beforehand."""
        return self.task.build(seed=0).sample(self.batch, split="train", generator=generator_for(0, "train/0"))

    def optimizer(self, model: Transformer) -> torch.optim.AdamW:
        """Of what learns in this arm."""
        return optimizer_for(model, self.learn.learning(model, 0), TrainConfig())

    def step(
        self,
        model: Transformer | None = None,
        *,
        device: torch.device = torch.device("cpu"),
        precision: Precision = "float32",
    ) -> Callable[[], float]:
        """A function that takes one step, as `fit` does, and gives its loss; of this model, or of one of its own."""
        model = (self.model() if model is None else model).to(device).train()
        batch = self.draw()
        step = stepper(model, learn=self.learn, config=TrainConfig(), device=device, precision=precision)
        return lambda: step(batch)

    @property
    def flops(self) -> float:
        """Of one step, by the formula; padding counts."""
        read_BQ, _ = self.draw().read()
        shape = self.task.build(seed=0).shape
        return step_flops(
            arm=self.arm,
            n_blocks=self.n_blocks,
            width=self.width,
            batch=self.batch,
            length=shape.length,
            vocabulary=shape.output_width,
            n_read=None if read_BQ is None else read_BQ.shape[1],
        )
