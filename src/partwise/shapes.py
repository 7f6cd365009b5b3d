"""The joint between task and model, and the legend of the letters that tensor names end in.

    B batch      L position   S source position   Q read position   D width     H head     K head width
    F hidden width of a channel mixer, or feature of a real-valued input        V vocabulary, or output

`mix_BHLS` multiplies values; `scores_BHLS` is what it was before the softmax.
"""

from dataclasses import dataclass
from typing import Literal

from partwise.errors import ConfigError

Split = Literal["train", "validation", "test"]


@dataclass(frozen=True, kw_only=True)
class TaskShape:
    """What a model must know of a task: said once, by the task.

    Args:
        length: longest input, in positions.
        vocabulary: number of token ids; None for a task with real-valued inputs.
        n_features: numbers a position holds; None for a task with tokens.
        n_outputs: numbers the model gives a position; None means one logit for each token id.
        real_targets: targets are real numbers (squared error on the one output) and not ids (cross-entropy).
        may_look_ahead: whether a two-way model is honest here; False where the input holds its own answers.
    """

    length: int
    vocabulary: int | None = None
    n_features: int | None = None
    n_outputs: int | None = None
    real_targets: bool = False
    may_look_ahead: bool = True

    def __post_init__(self) -> None:
        if (self.vocabulary is None) == (self.n_features is None):
            raise ConfigError("a task has either a vocabulary (tokens) or n_features (real-valued inputs).")
        if self.length < 1:
            raise ConfigError(f"a task of length {self.length}: at least one position is needed.")

    @property
    def output_width(self) -> int:
        """V, the width of what the model gives at each position."""
        width = self.n_outputs if self.n_outputs is not None else self.vocabulary
        if width is None:
            raise ConfigError("a task with real-valued inputs says how many outputs it reads: n_outputs.")
        return width


@dataclass(frozen=True, kw_only=True)
class MixerSize:
    """What a part must know of its place: the stream's width there, the longest input, which block of how many."""

    width: int
    length: int
    causal: bool
    layer: int
    n_layers: int

    def head_width(self, n_heads: int) -> int:
        """K = width / n_heads.

        Raises:
            ConfigError: n_heads is below one or does not divide the width.
        """
        if n_heads < 1 or self.width % n_heads:
            divisors = [h for h in range(1, self.width + 1) if self.width % h == 0]
            near = sorted(sorted(divisors, key=lambda h: abs(h - n_heads))[:2])
            do = "do" if len(near) > 1 else "does"
            raise ConfigError(
                f"width {self.width} does not divide into {n_heads} heads; {' and '.join(map(str, near))} {do}."
            )
        return self.width // n_heads
