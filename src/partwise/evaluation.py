"""One loss and one score, for every task and any module that maps tokens to logits."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from partwise import fast
from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.layers import take
from partwise.model import Transformer
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.shapes import Split
from partwise.taps import listening
from partwise.tasks import ACCURACY, REAL_ERROR, Metric

CHUNK = 128  # examples scored at once; more leave the caches and take a third longer (docs/lab, 2026-12-01)
LOGITS = 2**27  # of them at once, at most


def predict(model: nn.Module, batch: Batch, read_BQ: Tensor | None = None) -> Tensor:
    """Logits (B, L, V), or (B, Q, V) at `read_BQ`: of the lab's own models and of anybody's module.

    A module without `takes_batch` is called with the tokens alone; an output with `.logits` is unpacked.
    """
    if getattr(model, "takes_batch", False):
        return model(batch, read_BQ)
    out = model(batch.tokens_BL)
    logits_BLV = getattr(out, "logits", out)
    if not isinstance(logits_BLV, Tensor) or logits_BLV.ndim != 3 or logits_BLV.shape[:2] != batch.targets_BL.shape:
        shape = tuple(logits_BLV.shape) if isinstance(logits_BLV, Tensor) else type(out).__name__
        raise ConfigError(
            f"{type(model).__name__} gave {shape}: logits of shape (batch, length, vocabulary) were expected, "
            f"here ({batch.targets_BL.shape[0]}, {batch.targets_BL.shape[1]}, V)."
        )
    return logits_BLV if read_BQ is None else take(logits_BLV, read_BQ)


def loss_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed over scored positions: cross-entropy in nats, or squared error of the first output for real targets.

    Shapes: logits (B, Q, V), targets (B, Q). Divide by the number of scored positions for the mean.
    """
    if targets.is_floating_point():
        scored = ~targets.isnan()
        return ((logits[..., 0] - targets.nan_to_num()).float() ** 2 * scored).sum()
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def loss_of(model: nn.Module, batch: Batch, read_BQ: Tensor | None, targets_BQ: Tensor) -> Tensor:
    """`loss_sum` of what the model predicts; where its logits would be many, they are not all made at once."""
    if not _has_many_logits(model, targets_BQ):
        return loss_sum(predict(model, batch, read_BQ), targets_BQ)
    own: Any = model
    if batch.packing is not None and read_BQ is None:
        targets_BQ = batch.packing.pack(targets_BQ)
    x_BQD, scored_BQ = own.stream(batch, read_BQ), targets_BQ != IGNORE
    return fast.cross_entropy_sum(x_BQD[scored_BQ], own.unembed.weight, targets_BQ[scored_BQ])


def _has_many_logits(model: Any, targets_BQ: Tensor) -> bool:
    if type(model) is not Transformer or fast.hooked(model) or targets_BQ.is_floating_point():
        return False  # somebody's own forward, or a hook on it, must be called
    unembed = model.unembed
    if not fast.bare(unembed) or unembed.bias is not None or not fast.applies(unembed.weight):
        return False
    return targets_BQ.numel() * unembed.out_features >= fast.LOGITS


def headline_of(data: Any) -> Metric:
    """The task's one number."""
    return getattr(data, "headline", REAL_ERROR if data.shape.real_targets else ACCURACY)


def evaluation_batch(data: Any, split: Split, *, n: int, seed: int) -> Batch:
    """The split's own examples, the same for every model with this seed; a finite task's whole split."""
    if hasattr(data, "all_of"):
        return data.all_of(split)
    return data.sample(n, split=split, generator=generator_for(seed, f"{split} set"))


@contextlib.contextmanager
def mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Train or eval mode; afterwards each submodule has its own mode back."""
    before = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, was in before.items():
            module.training = was


@dataclass(frozen=True)
class Scored:
    """What a model did on one batch, position by position."""

    hits: Tensor  # (B, Q) bool; for real targets the squared errors
    scored: Tensor  # (B, Q) bool
    loss: float  # mean over scored positions, nats or squared error


@torch.no_grad()
def score(model: nn.Module, batch: Batch, *, outputs: int = 1) -> Scored:
    """Run the model over the batch in chunks, of rows of like length where that saves their padding; with many
    `outputs` a position, in smaller ones."""
    device = next(model.parameters(), torch.empty(0)).device
    hits, scored, total = [], [], 0.0
    read_BQ, targets_BQ = batch.read()
    chunk = max(1, min(CHUNK, LOGITS // (targets_BQ.shape[1] * outputs)))
    packs = read_BQ is not None and takes_packed(model, device)
    order_B = batch.used_BL.sum(-1).argsort(stable=True) if packs else torch.arange(len(batch))
    with mode(model, training=False):
        for index_N in order_B.split(chunk):
            part = batch.at(index_N).packed() if packs else batch.at(index_N)
            longest, targets = part.tokens_BL.shape[1], targets_BQ[index_N].to(device)
            read = None if read_BQ is None else read_BQ[index_N].clamp(max=longest - 1).to(device)  # what is not scored
            logits = predict(model, part if packs else part.to(device), read)
            total += loss_sum(logits, targets).item()
            right, counted = _hits(_predictions(logits, targets), targets)
            hits.append(right.cpu())
            scored.append(counted.cpu())
    back_B = order_B.argsort()
    counted = torch.cat(scored)[back_B]
    return Scored(torch.cat(hits)[back_B], counted, total / max(1, int(counted.sum())))


def takes_packed(model: nn.Module, device: torch.device) -> bool:
    """Whether the model computes no padding: the lab's own on a CPU do.

    Anybody's module may want the rows that it was given, all of one length; to a GPU a shape that changes from step to
    step costs more than some padding; and a tap that listens is shown whole batches.
    """
    of_the_lab = device.type == "cpu" and getattr(model, "takes_batch", False)
    return of_the_lab and not listening(model) and not fast.asked_plain()


def _predictions(logits: Tensor, targets: Tensor) -> Tensor:
    return logits[..., 0].to(targets.dtype) if targets.is_floating_point() else logits.argmax(-1)


def _hits(predicted: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if targets.is_floating_point():
        scored = ~targets.isnan()
        return (predicted - targets.nan_to_num()) ** 2 * scored, scored
    scored = targets != IGNORE
    return (predicted == targets) & scored, scored


def rows(data: Any, batch: Batch, result: Scored, *, split: Split, step: int) -> Iterator[Row]:
    """The scores as rows: mean, loss, each stratum, and the floors and ceiling, each on the very same examples."""
    base = REAL_ERROR if data.shape.real_targets else ACCURACY
    n = int(result.scored.sum())
    yield Row(where=split, quantity=base.name, value=_mean(result.hits, result.scored), n=n, step=step)
    if base is ACCURACY:
        yield Row(where=split, quantity="loss", value=result.loss, unit="nat", n=n, step=step)
        if result.scored.shape[1] > 1:
            exact, rows_scored = _exact(result.hits, result.scored)
            yield Row(where=split, quantity="exact_match", value=exact, n=rows_scored, step=step)
    floors = list(_floors(data, batch))
    for label, member in _strata(batch, result.scored):
        hits = {base.name: result.hits} | {f"{base.name}.floor.{name}": right for name, right, _ in floors}
        for quantity, right in hits.items():
            value, count = _mean(right, member), int(member.sum())
            yield Row(where=f"{split}/{label}", quantity=quantity, value=value, n=count, step=step)
    for name, right, scored in floors:
        yield Row(where=split, quantity=f"{base.name}.floor.{name}", value=_mean(right, scored), n=n, step=step)
        if base is ACCURACY and scored.shape[1] > 1:
            exact, rows_scored = _exact(right, scored)
            yield Row(where=split, quantity=f"exact_match.floor.{name}", value=exact, n=rows_scored, step=step)
    for name, nats in _floor_losses(data, batch, result.scored):
        yield Row(where=split, quantity=f"loss.floor.{name}", value=nats, unit="nat", n=n, step=step)
    metric = headline_of(data)
    ceiling = metric.perfect if data.ceiling is None else data.ceiling
    if ceiling is not None:
        yield Row(where=split, quantity=f"{metric.name}.ceiling", value=ceiling, unit=metric.unit, n=n, step=step)


def _strata(batch: Batch, scored: Tensor) -> Iterator[tuple[str, Tensor]]:
    """('n_pairs=3', which scored positions are in it, (B, Q)) for each value that occurs."""
    read_BQ, _ = batch.read()
    for name, stratum in batch.strata.items():
        if stratum.ndim == 1:
            stratum_BQ = stratum[:, None].expand_as(scored)
        else:
            stratum_BQ = stratum if read_BQ is None else stratum.gather(1, read_BQ)
        for value in stratum_BQ[scored].unique().tolist():
            yield f"{name}={value}", scored & (stratum_BQ == value)


def _floors(data: Any, batch: Batch) -> Iterator[tuple[str, Tensor, Tensor]]:
    """A floor's name, its hits and the positions that are scored, (B, Q) each."""
    read_BQ, targets_BQ = batch.read()
    for name, predicted_BL in data.floors(batch).items():
        yield name, *_hits(predicted_BL if read_BQ is None else predicted_BL.gather(1, read_BQ), targets_BQ)


def _floor_losses(data: Any, batch: Batch, scored: Tensor) -> Iterator[tuple[str, float]]:
    """A floor's name and its mean loss over the scored positions."""
    read_BQ, _ = batch.read()
    for name, nats_BL in data.floor_losses(batch).items() if hasattr(data, "floor_losses") else ():
        yield name, _mean(nats_BL if read_BQ is None else nats_BL.gather(1, read_BQ), scored)


def _measured(found: list[Row], split: Split) -> dict[str, float]:
    """What `derived` is made of, by name: the split's own numbers, and those of a stratum as 'n_pairs=3/accuracy'."""
    names = {split: ""} | {row.where: f"{row.where.removeprefix(f'{split}/')}/" for row in found if row.where != split}
    return {names[row.where] + row.quantity: row.value for row in found}


def measure(
    model: nn.Module, data: Any, batch: Batch, *, split: Split, step: int, counts: Mapping[str, float]
) -> list[Row]:
    """Score the model on the batch: all rows of it, with what the task derives from them.

    Args:
        model: any module that `predict` can call.
        data: the built task.
        batch: from `evaluation_batch`.
        split: which split that is.
        step: training steps done.
        counts: {"trainable_parameters": ..., "total_parameters": ...}, for tasks that divide by them.
    """
    found = list(rows(data, batch, score(model, batch, outputs=data.shape.output_width), split=split, step=step))
    if hasattr(data, "derived"):
        of_examples = data.counts(batch) if hasattr(data, "counts") else {}
        measured = _measured(found, split) | dict(counts) | of_examples
        found += [replace(row, where=split, step=step) for row in data.derived(measured)]
    return found


def _exact(hits: Tensor, scored: Tensor) -> tuple[float, int]:
    """The share of examples whose every scored position is right, and how many examples score any."""
    scores_B = scored.any(-1)
    right_B = (hits | ~scored).all(-1) & scores_B
    count = int(scores_B.sum())
    return (right_B.sum().item() / count if count else math.nan), count


def _mean(values: Tensor, member: Tensor) -> float:
    count = int(member.sum())
    return (values.double() * member).sum().item() / count if count else math.nan


@dataclass(frozen=True)
class Headline:
    """The headline number with what it must be read against."""

    value: float
    floor: float
    ceiling: float

    @property
    def closed(self) -> float:
        """Share of the way from floor to ceiling: 0 is the floor, 1 the ceiling; nan where they coincide."""
        span = self.ceiling - self.floor
        return (self.value - self.floor) / span if span else math.nan

    @property
    def solved(self) -> bool:
        """At least 90 % of the way."""
        return self.closed >= 0.9


def headline(metric: Metric, measured: dict[str, float]) -> Headline:
    """Read the headline out of {quantity: value} of one split; the floor is the best of the task's floors."""
    floors = [value for name, value in measured.items() if name.startswith(f"{metric.name}.floor.")]
    best = max if metric.better == "higher" else min
    default = 0.0 if metric.better == "higher" else math.nan
    return Headline(
        value=measured[metric.name],
        floor=best(floors) if floors else default,
        ceiling=measured.get(f"{metric.name}.ceiling", math.nan),
    )
