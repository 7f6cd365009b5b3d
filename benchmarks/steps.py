"""One training step on batches drawn beforehand, ours against the plain loop."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import ours, peer
from benchmarks.pairs import Bench, Measured, Setting, Turn, interleaved
from benchmarks.text import RandomText
from partwise.architectures import architecture
from partwise.batch import Batch
from partwise.execution import Execution
from partwise.model import ModelConfig, Transformer
from partwise.seeds import generator_for
from partwise.tasks.addition import Addition
from partwise.tasks.needle import Needle
from partwise.updates import Precision

N_BATCHES = 4  # used in turn, so that no side lives on one batch in its caches
AGREE: dict[Precision, float] = {"float32": 1e-5, "bfloat16": 2e-2}  # relative, of the two sides' first losses


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is trained.

    Args:
        name: in the table.
        task: a task's config.
        width: n.
        batch: examples a step.
        n_blocks: depth.
        each: steps a turn takes, so that a turn is long beside the clock's grain and short beside the load's drift.
        goals: by arm, the ratios to reach: by our defaults, and like for like.
    """

    name: str
    task: Any
    width: int
    batch: int
    n_blocks: int = 2
    each: int = 1
    goals: dict[str, tuple[float, float]]

    def build(self, arm: str) -> tuple[Transformer, list[Batch]]:
        """The arm's model as it starts, and the batches."""
        data = self.task.build(seed=0)
        config = architecture(arm).model(ModelConfig(width=self.width, n_blocks=self.n_blocks))
        draws = [generator_for(0, f"train/{step}") for step in range(N_BATCHES)]
        batches = [data.sample(self.batch, split="train", generator=draw) for draw in draws]
        return Transformer(config, data.shape, seed=0), batches


STEPS = (
    Step(
        name="needle m=30, n=512, batch 64",
        task=Needle(n_pairs=30),
        width=512,
        batch=64,
        goals={"standard": (8, 3), "mixit": (12, 4)},
    ),
    Step(
        name="needle m=30, n=128, batch 128",
        task=Needle(n_pairs=30),
        width=128,
        batch=128,
        each=4,
        goals={"standard": (4, 2.5), "mixit": (6, 3.5)},
    ),
    Step(
        name="needle m=8, n=64, batch 128",
        task=Needle(n_pairs=8),
        width=64,
        batch=128,
        each=16,
        goals={"standard": (3, 2.5)},
    ),
    Step(
        name="addition, n=64, batch 128",
        task=Addition(n_digits=5),  # quick's size
        width=64,
        batch=128,
        each=16,
        goals={"standard": (2, 1.6)},
    ),
    Step(
        name="language model, 4 blocks, n=256, T=256, batch 16",
        task=RandomText(length=256, vocabulary=8192),
        width=256,
        batch=16,
        n_blocks=4,
        goals={"standard": (2.5, 1.3), "mixit": (3, 1.6)},
    ),
)


def benches() -> Iterator[Bench]:
    """Each step of each arm, by our defaults and like for like."""
    for step in STEPS:
        for arm, (by_default, alike) in step.goals.items():
            name = f"{step.name}: {arm}"
            yield Bench(name=name, kind="defaults", goal=by_default, measure=_against_loop(step, arm, None))
            yield Bench(name=name, kind="like for like", goal=alike, measure=_against_loop(step, arm, "float32"))


def _against_loop(step: Step, arm: str, precision: Precision | None) -> Callable[[Setting], Measured]:
    def measure(setting: Setting) -> Measured:
        model, batches = step.build(arm)
        chosen = precision or ours.fastest(model, batches[0], threads=setting.threads)
        llama = peer.twin(model, attention=setting.attention)
        theirs = [(peer.inputs(batch), batch.targets_BL) for batch in batches]
        our_step, their_step = ours.stepper(model, chosen), peer.stepper(llama)
        our_losses: list[float] = []
        their_losses: list[float] = []
        with Execution(threads=setting.threads).in_force():
            found = interleaved(
                _turn(lambda at: our_step(batches[at]), step.each, our_losses),
                _turn(lambda at: their_step(*theirs[at]), step.each, their_losses),
                pairs=setting.pairs,
                each=step.each,
                precision=chosen,
            )
        if not math.isclose(our_losses[0], their_losses[0], rel_tol=AGREE[chosen]):
            raise RuntimeError(f"the two sides do not train the same: losses {our_losses[0]} and {their_losses[0]}.")
        return found

    return measure


def _turn(step: Callable[[int], float], each: int, losses: list[float]) -> Turn:
    """One side: in pair i both sides take the same `each` batches, those after pair i - 1's."""

    def turn(pair: int) -> None:
        losses.extend(step((pair * each + at) % N_BATCHES) for at in range(each))

    return turn
