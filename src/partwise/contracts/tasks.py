"""What a task must hold to."""

import dataclasses
import hashlib
import math
from typing import Any

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.contracts.common import WIDTH, Law, it_survives_plain_data, name_of, require
from partwise.evaluation import measure
from partwise.model import ModelConfig, Transformer
from partwise.parts import AllBut, census
from partwise.seeds import generator_for
from partwise.shapes import Split, TaskShape
from partwise.tasks import Metric
from partwise.token_mixers.uniform import Uniform

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def check_task(config: Any) -> None:
    """Hold a task's config to every law; it is built a few times and a few thousand examples are drawn."""
    for law in TASK_LAWS:
        law(config)


def a_batch_is_what_the_shape_says(config: Any) -> None:
    """Types, ranges and lengths of tokens, targets, marks and strata, in every split and in any number."""
    data = config.build(seed=0)
    require(isinstance(data.shape, TaskShape), f"{name_of(config)}: shape is no TaskShape.")
    for split in SPLITS:
        for n in (1, 257):
            batch = _draw(data, n, split)
            require(len(batch) == n, f"{name_of(config)}, {split}: {n} examples were asked for, {len(batch)} came.")
            _require_batch(f"{name_of(config)}, {split}", data.shape, batch)
        if hasattr(data, "all_of"):
            _require_batch(f"{name_of(config)}, all of {split}", data.shape, data.all_of(split))


def the_referee_agrees_with_the_targets(config: Any) -> None:
    """The plain solver and the fast sampler were written apart; here they meet, over 300 examples a split."""
    data = config.build(seed=0)
    if not hasattr(data, "referee"):
        require(
            hasattr(data, "bayes"),
            f"{name_of(config)} has no referee; then it has `bayes(batch)`, or says bayes = None.",
        )
        _require_bayes(config, data)
        return
    for split in SPLITS:
        batch = _draw(data, 300, split)
        for tokens, targets, used in zip(batch.tokens_BL, batch.targets_BL, batch.used_BL.sum(-1), strict=True):
            asked, expected = tokens[:used].tolist(), targets[:used].tolist()
            found = list(data.referee(asked))
            require(
                found == expected, f"{name_of(config)}, {split}: for {asked} the referee says {found}, not {expected}."
            )


def the_splits_share_no_example(config: Any) -> None:
    """Train, validation and test have no input in common, unless `splits_overlap` gives the reason."""
    data = config.build(seed=0)
    if data.splits_overlap is not None:
        require(bool(data.splits_overlap.strip()), f"{name_of(config)}: splits_overlap gives no reason.")
        return
    held: dict[str, set[bytes]] = {}
    for split in SPLITS:
        n = 4000 if split == "train" else 1000
        batch = data.all_of(split) if hasattr(data, "all_of") else _draw(data, n, split)
        held[split] = {tokens.numpy().tobytes() for tokens in batch.tokens_BL}
        require(bool(held[split]), f"{name_of(config)}: the {split} split is empty.")
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = len(held[one] & held[other])
        require(not shared, f"{name_of(config)}: {shared} examples stand both in {one} and in {other}.")


def the_same_seed_gives_the_same_data(config: Any) -> None:
    """The first thousand examples depend on the seed and on nothing that happened before."""
    with torch.random.fork_rng(devices=[]):
        seen = []
        for noise in (1, 2):
            torch.manual_seed(noise)
            if noise == 2:
                Transformer(ModelConfig(width=WIDTH), TaskShape(length=3, vocabulary=5), seed=9)
            before = torch.get_rng_state()
            data = config.build(seed=3)
            seen.append([_fingerprint(_draw(data, 1000, split)) for split in SPLITS])
            require(
                torch.equal(before, torch.get_rng_state()), f"{name_of(config)} draws from the global random generator."
            )
            again = [_fingerprint(_draw(data, 1000, split)) for split in SPLITS]
            require(again == seen[-1], f"{name_of(config)}: the same draw twice from one build differs.")
        require(seen[0] == seen[1], f"{name_of(config)}: two builds with one seed give different examples.")
    other = data.sample(1000, split="train", generator=generator_for(4, "other"))
    require(_fingerprint(other) != seen[0][0], f"{name_of(config)}: another generator gives the same examples.")


def floors_are_predictions(config: Any) -> None:
    """At least one; each of them (B, L), in range, and made without a look at the targets."""
    data = config.build(seed=0)
    batch = _draw(data, 200, "test")
    floors = data.floors(batch)
    require(bool(floors), f"{name_of(config)} has no floor: every score stands beside one.")
    nothing = torch.full_like(batch.targets_BL, math.nan if data.shape.real_targets else IGNORE)
    blind = data.floors(dataclasses.replace(batch, targets_BL=nothing))
    for name, predicted_BL in floors.items():
        where = f"{name_of(config)}, floor {name}"
        require(
            predicted_BL.shape == batch.targets_BL.shape,
            f"{where}: shape {tuple(predicted_BL.shape)}, {tuple(batch.targets_BL.shape)} was expected.",
        )
        require(
            predicted_BL.is_floating_point() == data.shape.real_targets,
            f"{where}: {predicted_BL.dtype}, and real_targets is {data.shape.real_targets}.",
        )
        scored = predicted_BL[batch.scored_BL]
        fit = scored.isfinite() if data.shape.real_targets else (scored >= 0) & (scored < data.shape.output_width)
        require(bool(fit.all()), f"{where}: a prediction is out of range.")
        require(torch.equal(blind[name], predicted_BL), f"{where} reads the targets.")


def floor_losses_are_those_of_distributions(config: Any) -> None:
    """Of a task that has them: (B, L) each, summing to one over the possible targets at every position, no matter what
    else is asked for, and without a look ahead where looking ahead is dishonest."""
    data = config.build(seed=0)
    if not hasattr(data, "floor_losses"):
        return
    batch = _draw(data, 2, "test")
    scored_BL = batch.scored_BL
    total: dict[str, Any] = {}
    for token in range(data.shape.output_width):
        asked = dataclasses.replace(batch, targets_BL=batch.targets_BL.masked_fill(scored_BL, token))
        for name, nats_BL in data.floor_losses(asked).items():
            where = f"{name_of(config)}, floor {name}"
            require(nats_BL.shape == scored_BL.shape, f"{where}: shape {tuple(nats_BL.shape)}.")
            total[name] = total.get(name, 0.0) + torch.exp(-nats_BL.double())
    require(bool(total), f"{name_of(config)} has no floor of its loss: every score stands beside one.")
    for name, total_BL in total.items():
        gap = (total_BL[scored_BL] - 1).abs().max().item()
        require(gap < 1e-4, f"{name_of(config)}, floor {name}: probabilities sum to one within {gap:.2g} only.")
    if not data.shape.may_look_ahead:
        half = batch.tokens_BL.shape[1] // 2
        other_BL = batch.tokens_BL.clone()
        other_BL[:, half:] = batch.tokens_BL.flip(0)[:, half:]
        there = data.floor_losses(dataclasses.replace(batch, tokens_BL=other_BL))
        for name, nats_BL in data.floor_losses(batch).items():
            same = torch.equal(there[name][:, :half], nats_BL[:, :half])
            require(same, f"{name_of(config)}, floor {name} looks ahead.")


def a_model_can_be_trained_and_scored_on_it(config: Any) -> None:
    """A small Transformer takes a batch, gets a gradient, and comes out with finite rows of every kind."""
    data = config.build(seed=0)
    model = Transformer(ModelConfig(n_blocks=1, width=8, token_mixer=Uniform()), data.shape, seed=0)
    counted = census(model, AllBut())
    counts = {"trainable_parameters": float(counted.learned), "total_parameters": float(counted.total)}
    for split in SPLITS:
        found = measure(model, data, _draw(data, 60, split), split=split, step=0, counts=counts)
        names = {row.quantity for row in found}
        metric = getattr(data, "headline", None)
        if metric is not None:
            require(isinstance(metric, Metric), f"{name_of(config)}: headline is no Metric.")
            require(metric.name in names, f"{name_of(config)}: no row is called {metric.name}, its headline.")
        for row in found:
            require(
                math.isfinite(row.value) and row.n >= 1,
                f"{name_of(config)}: {row.quantity} at {row.where} is {row.value} over {row.n}.",
            )
    require(data.ceiling is None or math.isfinite(data.ceiling), f"{name_of(config)}: ceiling {data.ceiling}.")


def no_input_holds_its_own_answer(config: Any) -> None:
    """Where each target is the next token, a two-way model would read it off: then may_look_ahead is False."""
    data = config.build(seed=0)
    if data.shape.real_targets or not data.shape.may_look_ahead:
        return
    batch = _draw(data, 300, "train")
    asked_BL = batch.scored_BL[:, :-1] & batch.used_BL[:, 1:]
    told_BL = batch.targets_BL[:, :-1] == batch.tokens_BL[:, 1:]
    require(
        not asked_BL.any() or not told_BL[asked_BL].all(),
        f"{name_of(config)}: every target is the token that follows, and may_look_ahead is True.",
    )


TASK_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    a_batch_is_what_the_shape_says,
    the_referee_agrees_with_the_targets,
    the_splits_share_no_example,
    the_same_seed_gives_the_same_data,
    floors_are_predictions,
    floor_losses_are_those_of_distributions,
    a_model_can_be_trained_and_scored_on_it,
    no_input_holds_its_own_answer,
)


def _draw(data: Any, n: int, split: Split) -> Batch:
    return data.sample(n, split=split, generator=generator_for(0, f"contract {split}"))


def _fingerprint(batch: Batch) -> str:
    held = [batch.tokens_BL, batch.targets_BL, *([] if batch.lengths_B is None else [batch.lengths_B])]
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in held)).hexdigest()


def _require_batch(name: str, shape: TaskShape, batch: Batch) -> None:
    n, length = len(batch), batch.tokens_BL.shape[1]
    require(1 <= length <= shape.length, f"{name}: inputs are {length} long, the shape says {shape.length} at most.")
    if shape.vocabulary is not None:
        require(
            batch.tokens_BL.shape == (n, length) and batch.tokens_BL.dtype == torch.int64,
            f"{name}: tokens are {batch.tokens_BL.dtype} {tuple(batch.tokens_BL.shape)}, not int64 (B, L).",
        )
        low, high = int(batch.tokens_BL.min()), int(batch.tokens_BL.max())
        require(low >= 0 and high < shape.vocabulary, f"{name}: tokens run {low}..{high} of {shape.vocabulary} ids.")
    else:
        require(
            batch.tokens_BL.shape == (n, length, shape.n_features) and batch.tokens_BL.is_floating_point(),
            f"{name}: inputs are {tuple(batch.tokens_BL.shape)}, not float (B, L, {shape.n_features}).",
        )
        require(bool(batch.tokens_BL.isfinite().all()), f"{name}: an input is not finite.")
    used_BL, scored_BL = batch.used_BL, batch.scored_BL
    if batch.lengths_B is not None:
        fit = batch.lengths_B.shape == (n,) and batch.lengths_B.dtype == torch.int64
        fit = fit and bool(((batch.lengths_B >= 1) & (batch.lengths_B <= length)).all())
        require(fit, f"{name}: lengths are not int64 (B,) between 1 and {length}.")
    require(batch.targets_BL.shape == (n, length), f"{name}: targets are {tuple(batch.targets_BL.shape)}.")
    require(not (scored_BL & ~used_BL).any(), f"{name}: a target stands in the padding.")
    require(bool(scored_BL.any(-1).all()), f"{name}: an example has no target.")
    if shape.real_targets:
        require(batch.targets_BL.is_floating_point(), f"{name}: real targets are {batch.targets_BL.dtype}.")
        require(bool(batch.targets_BL[scored_BL].isfinite().all()), f"{name}: a target is not finite.")
    else:
        asked = batch.targets_BL[scored_BL]
        fit = batch.targets_BL.dtype == torch.int64 and bool(((asked >= 0) & (asked < shape.output_width)).all())
        require(fit, f"{name}: targets are not int64 ids below {shape.output_width}.")
    for mark, place in batch.marks.items():
        fit = place.dtype == torch.int64 and place.ndim in (1, 2) and len(place) == n
        require(fit, f"{name}: mark {mark} is {place.dtype} {tuple(place.shape)}, not int64 (B,) or (B, N).")
        end = used_BL.sum(-1).reshape(-1, *([1] * (place.ndim - 1)))
        require(bool(((place >= 0) & (place < end)).all()), f"{name}: mark {mark} points outside the example.")
    for stratum, value in batch.strata.items():
        fit = value.dtype == torch.int64 and value.shape in ((n,), (n, length))
        require(fit, f"{name}: stratum {stratum} is {value.dtype} {tuple(value.shape)}, not int64 (B,) or (B, L).")


def _require_bayes(config: Any, data: Any) -> None:
    """The best predictor is no worse than any floor, on the same examples."""
    if data.bayes is None:
        return
    batch = _draw(data, 1000, "test")
    scored_BL, best_BL = batch.scored_BL, data.bayes(batch)

    def error(predicted_BL: Tensor) -> float:
        predicted, target = predicted_BL[scored_BL], batch.targets_BL[scored_BL]
        wrong = (predicted - target) ** 2 if data.shape.real_targets else predicted != target
        return wrong.double().mean().item()

    require(best_BL.shape == batch.targets_BL.shape, f"{name_of(config)}: bayes gives {tuple(best_BL.shape)}.")
    for name, floor_BL in data.floors(batch).items():
        best, floor = error(best_BL), error(floor_BL)
        require(best <= floor, f"{name_of(config)}: bayes errs {best:.4g}, floor {name} only {floor:.4g}.")
