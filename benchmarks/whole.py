"""Whole runs: against Trainer, sixteen side by side; and what a run pays beside its steps: sampling, start-up."""

import dataclasses
import functools
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks import ours, peer
from benchmarks.pairs import Bench, Measured, Setting, interleaved
from partwise.configs import replaced
from partwise.evaluation import evaluation_batch
from partwise.execution import Execution
from partwise.experiment import Experiment, run, vary
from partwise.recipes.mixit import Mixit
from partwise.registry import name_of
from partwise.seeds import generator_for
from partwise.sweep import Options, run_all
from partwise.timing import in_turn
from partwise.training import AHEAD, train_batches

MOST_PAIRS = 3  # of whole runs, which are long
HELP = "import sys; from partwise.cli import main; sys.argv = ['partwise', '--help']; main()"  # as the script does


def benches() -> Iterator[Bench]:
    """All that is not a single step."""
    yield Bench(name="needle quick, 400 steps, against Trainer", kind="end to end", goal=5, measure=_against_trainer)
    yield Bench(name="16 runs of n=64 on 2 cores", kind="many runs", goal=1.8, measure=_many_runs)
    yield Bench(name="sampling, worst task", kind="share", goal=0.03, measure=_sampling)
    yield Bench(name="partwise --help", kind="start-up", goal=350, measure=_starting(HELP))
    yield Bench(name="import partwise", kind="start-up", goal=150, measure=_starting("import partwise"))


def _against_trainer(setting: Setting) -> Measured:
    """`run` with its sampling, validations, test and record, against Trainer on examples drawn beforehand."""
    whole = replaced(Mixit().base("needle"), "train.steps", 400)
    short = replaced(whole, "train.steps", 20)  # the warm-up, which is not counted
    data, model = whole.build()
    execution = Execution(
        precision=ours.fastest(model, _batch(data, whole, 0), threads=setting.threads), threads=setting.threads
    )
    examples = {
        "train": peer.Examples([_batch(data, whole, step) for step in range(whole.train.steps)]),
        "validation": peer.Examples([evaluation_batch(data, "validation", n=whole.train.validation_size, seed=0)]),
        "test": peer.Examples([evaluation_batch(data, "test", n=whole.test_size, seed=0)]),
    }
    scores = {"our": 0.0, "Trainer's": 0.0}

    def our_turn(pair: int) -> None:
        scores["our"] = run(whole if pair else short, execution=execution).value("accuracy")

    def their_turn(pair: int) -> None:
        llama = peer.twin(model, attention=setting.attention)
        scores["Trainer's"] = peer.train(llama, (whole if pair else short).train, **examples)

    with execution.in_force():
        pairs = min(setting.pairs, MOST_PAIRS)
        found = interleaved(our_turn, their_turn, pairs=pairs, precision=execution.precision)
    detail = ", ".join(f"{side} accuracy {score:.3f}" for side, score in scores.items())
    return dataclasses.replace(found, detail=detail)


def _batch(data, experiment: Experiment, step: int):
    """The batch of a step, as `fit` draws it."""
    return data.sample(experiment.train.batch, split="train", generator=generator_for(0, f"train/{step}"))


def _many_runs(setting: Setting) -> Measured:
    """A process of one thread for each run, two at a time, against one process of two threads. Both keep their runs."""
    base = replaced(Mixit().base("needle"), "train.steps", 60)
    runs = vary(base, seed=range(16))

    def side_by_side(pair: int) -> None:
        with tempfile.TemporaryDirectory() as out:
            run_all(runs if pair else runs[:2], out, jobs=2, options=Options(threads=1))

    def one_after_another(pair: int) -> None:
        with tempfile.TemporaryDirectory() as out:
            for one in runs if pair else runs[:2]:
                run(one, out, execution=Execution(threads=2))

    return interleaved(side_by_side, one_after_another, pairs=min(setting.pairs, MOST_PAIRS))


def _sampling(setting: Setting) -> Measured:
    """Drawing a batch as a share of the step on it, by our fastest setting; of all tasks the worst."""
    shares = [_share(Mixit().base(task), setting) for task in Mixit.tasks]
    worst = max(shares, key=lambda share: share.ratio)
    return dataclasses.replace(worst, detail="; ".join(f"{share.detail} {share.ratio:.3f}" for share in shares))


def _share(experiment: Experiment, setting: Setting) -> Measured:
    data, model = experiment.build()
    precision = ours.fastest(model, _batch(data, experiment, 0), threads=setting.threads)
    step = ours.stepper(model, precision)
    each = AHEAD
    draws = train_batches(data, dataclasses.replace(experiment.train, steps=10**6), seed=0)
    batches = list(itertools.islice(draws, each))
    with Execution(threads=setting.threads).in_force():
        found = interleaved(
            lambda pair: list(itertools.islice(draws, each)),
            lambda pair: [step(batch) for batch in batches],
            pairs=setting.pairs,
            each=each,
            precision=precision,
        )
    low, share, high = (1 / ratio for ratio in (found.ratio_high, found.ratio, found.ratio_low))
    return dataclasses.replace(found, ratio=share, ratio_low=low, ratio_high=high, detail=name_of(experiment.task))


def _starting(code: str) -> Callable[[Setting], Measured]:
    """Wall time of a fresh interpreter that does this and leaves."""

    def measure(setting: Setting) -> Measured:
        start = functools.partial(subprocess.run, [sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        spent = in_turn({"start": start}, rounds=setting.pairs)["start"]  # the first fills the disk's caches
        return Measured(ours_ms=1e3 * median(spent), precision="", pairs=setting.pairs)

    return measure
