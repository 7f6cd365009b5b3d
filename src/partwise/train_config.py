"""How a model is trained, as data: steps, batch, rates and decays, clipping, how often it is scored."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from partwise.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PartRate:
    """A part's own rate and decay.

    Args:
        pattern: of addresses; it must match. Where two patterns name one parameter, the later one decides.
        lr: peak rate; None keeps the run's.
        weight_decay: None keeps the run's.
    """

    pattern: str
    lr: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        _check_positive("lr", self.lr)
        _check_not_negative("weight_decay", self.weight_decay)


def _check_positive(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
        raise ConfigError(f"{name} is {value}: a positive number was expected.")


def _check_not_negative(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
        raise ConfigError(f"{name} is {value}: a number from 0 on was expected.")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained: AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) or SGD, warmup, decay, clipping.

        rate(t) = lr * min(1, (t + 1) / warmup) * decay(t),    t = 0 ... steps - 1

    Args:
        steps: updates.
        batch: examples an update.
        accumulate: pieces the batch is cut into; the gradient is that of the whole batch.
        lr: peak rate.
        warmup: steps, never a share: outcomes depend on it (mixit.md 6).
        decay: after warmup: cosine or linear to zero, or constant.
        betas: AdamW's.
        eps: AdamW's.
        weight_decay: on matrices and tables that learn; gains and biases have none unless `parts` says so.
        optimizer: adamw; or sgd, with momentum and the weight decay added to the gradient.
        momentum: SGD's.
        clip: largest norm of the gradient over what learns now; None leaves it.
        parts: own rates and decay of parts.
        evaluate_every: steps between two scores on validation; None is a tenth of the steps.
        validation_size: examples of an endless task's validation set.
        stop_when_solved: end once two scores in a row are solved (90 % of the way from floor to ceiling).
    """

    version: ClassVar[int] = 1

    steps: int = 1000
    batch: int = 128
    accumulate: int = 1
    lr: float = 1e-3
    warmup: int = 80
    decay: Literal["cosine", "linear", "constant"] = "cosine"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.001
    optimizer: Literal["adamw", "sgd"] = "adamw"
    momentum: float = 0.9
    clip: float | None = 1.0
    parts: tuple[PartRate, ...] = ()
    evaluate_every: int | None = None
    validation_size: int = 1000
    stop_when_solved: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "validation_size"):
            given = getattr(self, name)
            if not isinstance(given, (int, float)) or given < 1:
                raise ConfigError(f"{name} is {given!r}: a whole number from 1 on was expected.")
        if self.accumulate > self.batch:
            raise ConfigError(
                f"accumulate is {self.accumulate}, more pieces than the batch has examples ({self.batch})."
            )
        for name in ("lr", "clip", "eps"):
            _check_positive(name, getattr(self, name))
        _check_not_negative("weight_decay", self.weight_decay)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas is {self.betas}: two numbers from 0 up to 1 were expected.")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"momentum is {self.momentum}: a number from 0 up to 1 was expected.")
        if self.decay not in _DECAYS:
            raise ConfigError(f"decay is {self.decay!r}: one of {', '.join(_DECAYS)} was expected.")
        if self.warmup < 0 or (self.evaluate_every is not None and self.evaluate_every < 1):
            raise ConfigError("warmup is a number of steps from 0 on, and evaluate_every from 1 on.")

    def rate(self, step: int) -> float:
        """The learning rate of update `step` as a share of the peak, in closed form."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        done = max(0.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return warm * _DECAYS[self.decay](done)

    def evaluates(self, step: int) -> bool:
        """Whether validation is scored after `step` updates: at each tenth, or as asked; and at nine tenths and the
        end, so that the gain over the last tenth is known."""
        if step in (self.steps, self.before_last_tenth):
            return True
        if self.evaluate_every is not None:
            return step % self.evaluate_every == 0
        return step * 10 // self.steps > (step - 1) * 10 // self.steps

    @property
    def before_last_tenth(self) -> int:
        """Nine tenths of the steps, and at least one step before the end."""
        return self.steps - max(1, self.steps // 10)

    def logs(self, step: int) -> bool:
        """Whether the loss is noted after `step` updates: a hundred times, and wherever validation is scored."""
        return step * 100 // self.steps > (step - 1) * 100 // self.steps or self.evaluates(step)


_DECAYS: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1 - done,
    "constant": lambda done: 1.0,
}
