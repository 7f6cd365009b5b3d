"""What each arm costs: a training step, memory, what is kept on disk, and decoding with a cache."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.memory import peak_bytes
from benchmarks.rounds import ratio, rounds
from benchmarks.text import RandomText
from benchmarks.work import Work
from partwise.checkpoint import save_tensors, weights
from partwise.course import Fit
from partwise.decoding import Decoder
from partwise.parts import census
from partwise.resuming import save_checkpoint

ARMS = ("standard", "frozen_qk", "frozen_mlp", "mixit")
DECODED = ("standard", "mixit")  # what is frozen decodes as what learned does: the two frozen arms are standard here
# "Training time per sample" beside the standard model, Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, appendix D
PAPER = {"frozen_qk": -0.239, "mixit": -0.320}


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How much is measured.

    Args:
        rounds: timings of each arm's step.
        work: the step; its task gives T.
        lengths: T of the decoding.
        decoded: positions that are decoded after the prompt.
    """

    rounds: int = 7
    work: Work = Work(n_blocks=4, width=256, batch=16, task=RandomText(length=256, vocabulary=8192))
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    decoded: int = 32


QUICK = Extent(
    rounds=2,
    work=Work(n_blocks=2, width=64, batch=8, task=RandomText(length=64, vocabulary=512)),
    lengths=(64, 128, 256),
    decoded=8,
)


def measure(extent: Extent) -> dict[str, Any]:
    """Everything, as it stands in arms.json."""
    work = extent.work
    size = {"depth": work.n_blocks, "width": work.width, "batch": work.batch}
    text = {"length": work.task.length, "vocabulary": work.task.vocabulary}
    return {
        "work": size | text,
        "rounds": extent.rounds,
        "decoded": extent.decoded,
        "training": list(_training(extent)),
        "decoding": [row for length in extent.lengths for row in _decoding(extent, length)],
    }


def _training(extent: Extent) -> Iterator[dict[str, Any]]:
    """A row an arm; the steps are timed in turn."""
    works = {arm: replace(extent.work, arm=arm) for arm in ARMS}
    spent = rounds({arm: work.step() for arm, work in works.items()}, extent.rounds)
    for arm, work in works.items():
        middle, low, high = ratio(spent[arm], spent["standard"])
        yield {
            "arm": arm,
            "seconds": median(spent[arm]),
            "change": middle - 1,
            "change_low": low - 1,
            "change_high": high - 1,
            "paper_change": PAPER.get(arm),
            "flops": work.flops,
            "peak_bytes": peak_bytes(work),
            **_kept(work),
        }


def _kept(work: Work) -> dict[str, int]:
    """Numbers of the model, and bytes of what a run keeps in memory and on disk."""
    model = work.model()
    optimizer, counted = work.optimizer(model), census(model, work.learn)
    for group in optimizer.param_groups:  # a step of no gradient is enough to make the moments
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    moments = [tensor for state in optimizer.state.values() for tensor in state.values()]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, final = Path(folder, "checkpoint.safetensors"), Path(folder, "model.safetensors")
        save_checkpoint(checkpoint, model, optimizer, Fit(), {})
        save_tensors(final, weights(model), {})
        return {
            "trainable": counted.learned,
            "total": counted.total,
            "fixed": counted.fixed,
            "optimizer_bytes": sum(moment.nbytes for moment in moments if isinstance(moment, Tensor)),
            "checkpoint_bytes": checkpoint.stat().st_size,
            "model_bytes": final.stat().st_size,
        }


def _decoding(extent: Extent, length: int) -> Iterator[dict[str, Any]]:
    """Positions a second once all but the last few are read, one sequence; the arms take turns by position."""
    text = replace(extent.work.task, length=length)
    works = {arm: replace(extent.work, arm=arm, batch=1, task=text) for arm in DECODED}
    models = {arm: work.model() for arm, work in works.items()}
    decoders = {arm: Decoder(model) for arm, model in models.items()}
    tokens_1L = works["standard"].draw().tokens_BL
    prompt = length - extent.decoded - 1  # one position more is the round that does not count
    for decoder in decoders.values():
        decoder.read(tokens_1L[:, :prompt])

    def reader(decoder: Decoder) -> Any:
        return lambda: decoder.read(tokens_1L[:, decoder.seen : decoder.seen + 1])

    spent = rounds({arm: reader(decoder) for arm, decoder in decoders.items()}, extent.decoded)
    for arm in DECODED:
        yield {
            "arm": arm,
            "length": length,
            "tokens_per_second": 1 / median(spent[arm]),
            "cache_bytes": decoders[arm].cache_bytes(),
            "fixed_bytes": _fixed_bytes(models[arm]),
        }


def _fixed_bytes(model: nn.Module) -> int:
    """Of the buffers: mixing matrices, which all sequences share."""
    return sum(buffer.nbytes for buffer in model.buffers())
