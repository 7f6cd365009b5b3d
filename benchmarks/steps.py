"""One training step on batches drawn beforehand, ours against the plain loop."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks import ours, peer
from benchmarks.pairs import Bench, Measured, Setting, Turn, interleaved
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.execution import Execution
from partwise.tasks.addition import Addition
from partwise.tasks.needle import Needle
from partwise.updates import Precision

N_BATCHES = 4  # used in turn, so that no side lives on one batch in its caches
# Relative, of the two sides' losses at any step: after 128 steps they were seen to part by 6e-4 and 2e-2.
AGREE: dict[Precision, float] = {"float32": 5e-3, "bfloat16": 5e-2}


@dataclass(frozen=True, kw_only=True)
class Step:
    """A row of the table, for each of its arms by our fastest setting and like for like.

    Args:
        name: in the table.
        work: of one step.
        each: steps a turn takes, so that a turn is long beside the clock's grain and short beside the load's drift.
        goals: by arm, the ratios to reach: by our fastest setting, and like for like.
    """

    name: str
    work: Work
    each: int = 1
    goals: dict[str, tuple[float, float]]


STEPS = (
    Step(
        name="needle m=30, n=512, batch 64",
        work=Work(task=Needle(n_pairs=30), width=512, batch=64),
        goals={"standard": (8, 3), "mixit": (12, 4)},
    ),
    Step(
        name="needle m=30, n=128, batch 128",
        work=Work(task=Needle(n_pairs=30), width=128, batch=128),
        each=4,
        goals={"standard": (4, 2.5), "mixit": (6, 3.5)},
    ),
    Step(
        name="needle m=8, n=64, batch 128",
        work=Work(task=Needle(n_pairs=8), width=64, batch=128),
        each=16,
        goals={"standard": (3, 2.5)},
    ),
    Step(
        name="addition, n=64, batch 128",
        work=Work(task=Addition(n_digits=5), width=64, batch=128),  # quick's size
        each=16,
        goals={"standard": (2, 1.6)},
    ),
    Step(
        name="language model, 4 blocks, n=256, T=256, batch 16",
        work=Work(task=RandomText(length=256, vocabulary=8192), width=256, batch=16, n_blocks=4),
        goals={"standard": (2.5, 1.3), "mixit": (3, 1.6)},
    ),
)


def benches() -> Iterator[Bench]:
    """Each step of each arm, by our fastest setting and like for like."""
    for step in STEPS:
        for arm, (fastest, alike) in step.goals.items():
            name = f"{step.name}: {arm}"
            work = replace(step.work, arm=arm)
            yield Bench(name=name, kind="defaults", goal=fastest, measure=_against_loop(work, step.each, None))
            yield Bench(name=name, kind="like for like", goal=alike, measure=_against_loop(work, step.each, "float32"))


def _against_loop(work: Work, each: int, precision: Precision | None) -> Callable[[Setting], Measured]:
    def measure(setting: Setting) -> Measured:
        model, batches = work.model(), [work.draw(step) for step in range(N_BATCHES)]
        chosen = precision or ours.fastest(model, batches[0], threads=setting.threads)
        llama = peer.twin(model, attention=setting.attention)
        theirs = [(peer.inputs(batch), batch.targets_BL) for batch in batches]
        our_step, their_step = ours.stepper(model, chosen), peer.stepper(llama)
        our_losses: list[float] = []
        their_losses: list[float] = []
        with Execution(threads=setting.threads).in_force():
            found = interleaved(
                _turn(lambda at: our_step(batches[at]), each, our_losses),
                _turn(lambda at: their_step(*theirs[at]), each, their_losses),
                pairs=setting.pairs,
                each=each,
                precision=chosen,
            )
        check_agreement(our_losses, their_losses, rel_tol=AGREE[chosen])
        return found

    return measure


def check_agreement(ours: Sequence[float], theirs: Sequence[float], *, rel_tol: float) -> None:
    """Both sides took the same batches in the same order, so they lose the same at each step, warm-up and all.

    Raises:
        RuntimeError: at some step they do not.
    """
    for step, (our_loss, their_loss) in enumerate(zip(ours, theirs, strict=True)):
        if not math.isclose(our_loss, their_loss, rel_tol=rel_tol):
            raise RuntimeError(f"the two sides do not train the same: at step {step} {our_loss} against {their_loss}.")


def _turn(step: Callable[[int], float], each: int, losses: list[float]) -> Turn:
    """One side: in pair i both sides take the same `each` batches, those after pair i - 1's."""

    def turn(pair: int) -> None:
        losses.extend(step((pair * each + at) % N_BATCHES) for at in range(each))

    return turn
