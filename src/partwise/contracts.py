"""What every part must hold to, whoever wrote it. The tests call these for each name in the catalogue; so may you.

    check_token_mixer(MyMixer(n_heads=2))       raises AssertionError, in one sentence, or says nothing

Each law is a function of a config, its name a sentence, and `TOKEN_MIXER_LAWS` and its like list them. Mixers are
checked in float64, every parameter moved off its start, so that a bias of zero hides nothing.
"""

import copy
import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from partwise import configs
from partwise.batch import IGNORE, Batch
from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.errors import ConfigError
from partwise.evaluation import measure
from partwise.joins import JOINS
from partwise.layers import take
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.parts import AllBut, census
from partwise.probes import PROBES
from partwise.registry import Registry
from partwise.rows import Row
from partwise.seeds import generator_for
from partwise.shapes import MixerSize, Split, TaskShape
from partwise.taps import Tap, has_tap, record, rewrite, taps
from partwise.tasks import TASKS, Metric
from partwise.tasks.needle import Needle
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.uniform import Uniform

WIDTH, LENGTH, VOCABULARY = 32, 11, 7
SHORTER = (1, 2, 5, 8, LENGTH)  # odd and even, the shortest and the longest
EXACT = 1e-9  # in float64; what two ways of computing one thing may differ by
DRAWN = 1e-6  # the same, where a matrix that was drawn in float32 is centred anew
SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Law = Callable[[Any], None]


def check_token_mixer(config: Any) -> None:
    """Hold a token mixer's config to every law, causal and two-way; a way it refuses with ConfigError is left out."""
    for law in TOKEN_MIXER_LAWS:
        law(config)


def check_channel_mixer(config: Any) -> None:
    """Hold a channel mixer's config to every law."""
    for law in CHANNEL_MIXER_LAWS:
        law(config)


def check_join(config: Any) -> None:
    """Hold a join's config to every law."""
    for law in JOIN_LAWS:
        law(config)


def check_task(config: Any) -> None:
    """Hold a task's config to every law; it is built a few times and a few thousand examples are drawn."""
    for law in TASK_LAWS:
        law(config)


def check_probe(config: Any) -> None:
    """Hold a probe's config to every law, on small models of the lab."""
    for law in PROBE_LAWS:
        law(config)


# Token mixers


def output_has_the_shape_of_the_input(config: Any) -> None:
    """(B, L, D) to (B, L, D), for every length up to the longest."""
    for way, _, mixer in _token_mixers(config):
        for x_BLD, lengths_B in _inputs():
            y_BLD = mixer(x_BLD, lengths_B)
            came, gave = f"{x_BLD.dtype} {tuple(x_BLD.shape)}", f"{y_BLD.dtype} {tuple(y_BLD.shape)}"
            _require(came == gave, f"{way} gives {gave} for {came}.")


def the_future_does_not_reach_the_past(config: Any) -> None:
    """At every cut, what stands before it comes out the same whatever stands behind it, or if nothing does."""
    for way, causal, mixer in _token_mixers(config):
        if not causal:
            continue
        for length in SHORTER[1:]:
            x_LD = _normal(length, WIDTH)
            cuts = torch.arange(1, length)
            behind_CL = torch.arange(length) >= cuts[:, None]
            x_CLD = torch.where(behind_CL[..., None], 10 * _normal(len(cuts), length, WIDTH, of="suffix"), x_LD)
            plain_LD, moved_CLD = mixer(x_LD[None], None)[0], mixer(x_CLD, None)
            for cut, y_LD in zip(cuts.tolist(), moved_CLD, strict=True):
                _require_equal(
                    y_LD[:cut],
                    plain_LD[:cut],
                    f"{way} lets positions from {cut} on reach those before (length {length})",
                )
                _require_equal(
                    mixer(x_LD[None, :cut], None)[0],
                    plain_LD[:cut],
                    f"{way} gives the first {cut} positions another output when the input ends there",
                )


def padding_does_not_matter(config: Any) -> None:
    """A row of a padded batch is that row alone, whatever the padding holds and however long it is."""
    for way, _, mixer in _token_mixers(config):
        for length in SHORTER[1:]:
            lengths_B = _lengths(4, length)
            x_BLD = _normal(4, length, WIDTH)
            padding_BL = torch.arange(length) >= lengths_B[:, None]
            other_BLD = torch.where(padding_BL[..., None], 10 * _normal(4, length, WIDTH, of="padding"), x_BLD)
            y_BLD, other_y_BLD = mixer(x_BLD, lengths_B), mixer(other_BLD, lengths_B)
            for row, used in enumerate(lengths_B.tolist()):
                y_LD, place = y_BLD[row, :used], f"(length {length}, {used} in use)"
                _require_equal(other_y_BLD[row, :used], y_LD, f"{way} reads what the padding holds {place}")
                alone_BLD = mixer(x_BLD[row : row + 1, :used], None)
                _require_equal(
                    alone_BLD[0],
                    y_LD,
                    f"{way} gives a padded row another output than the row alone {place}",
                    within=DRAWN,
                )
                told_BLD = mixer(x_BLD[row : row + 1, :used], lengths_B[row : row + 1])
                _require_equal(
                    told_BLD[0],
                    y_LD,
                    f"{way} gives a full row another output when told its length {place}",
                    within=DRAWN,
                )


def reading_a_few_rows_equals_reading_all(config: Any) -> None:
    """`forward_at`, where there is one, and the model's `read_BQ` give the rows of the whole."""
    for way, _, mixer in _token_mixers(config):
        forward_at = getattr(mixer, "forward_at", None)
        if forward_at is None:
            continue
        for x_BLD, lengths_B in _inputs(4):
            read_BQ = _reads(4, x_BLD.shape[1], lengths_B)
            few_BQD = forward_at(x_BLD, read_BQ, lengths_B)
            rows_BQD = take(mixer(x_BLD, lengths_B), read_BQ)
            _require_equal(few_BQD, rows_BQD, f"{way}: forward_at differs from the rows of forward")
    for way, _, model in _models(token_mixer=config):
        for batch in (_tokens(4, LENGTH), _tokens(4, LENGTH - 3, lengths=True)):
            length = batch.tokens_BL.shape[1]
            read_BQ = _reads(4, length, batch.lengths_B)
            whole = take(model(batch), read_BQ)
            _require_equal(model(batch, read_BQ), whole, f"{way}: a model asked for a few rows gives others")
            if has_tap(model, "*"):
                with record(model, "*"):
                    heard = model(batch, read_BQ)
                _require_equal(heard, whole, f"{way}: a model asked for a few rows gives others while a tap listens")


def a_listening_tap_changes_nothing(config: Any) -> None:
    """The plain path, on which the taps sit, gives what the fused one gives."""
    for way, _, mixer in _token_mixers(config):
        if not has_tap(mixer, "*"):
            continue
        for x_BLD, lengths_B in _inputs():
            used_BL, silent_BLD = _batch_of(x_BLD, lengths_B).used_BL, mixer(x_BLD, lengths_B)
            with record(mixer, "*") as seen:
                heard_BLD = mixer(x_BLD, lengths_B)
            _require_equal(heard_BLD[used_BL], silent_BLD[used_BL], f"{way} gives another output while a tap listens")
            missing = sorted(taps(mixer).keys() - seen.keys())
            _require(not missing, f"{way} has a tap that nothing passes through: {', '.join(missing)}.")


def the_mix_tap_is_the_mixing(config: Any) -> None:
    """A `mix` tap carries (B or 1, H, L, S), is what mixes the values, and shows no forbidden source."""
    for way, causal, mixer in _token_mixers(config):
        if not has_tap(mixer, "mix"):
            continue
        for x_BLD, lengths_B in _inputs():
            with record(mixer, "mix") as seen:
                y_BLD = mixer(x_BLD, lengths_B)
            used_BL = _batch_of(x_BLD, lengths_B).used_BL
            for address, mix_BHLS in seen.items():
                _require_axes(f"{way}: tap {address}", mix_BHLS, used_BL, causal)
                for again in (mix_BHLS, mix_BHLS.expand(len(x_BLD), -1, -1, -1)):
                    sentence = f"{way}: writing back what tap {address} carried changes the output"
                    _require_equal(_with(mixer, address, again, x_BLD, lengths_B)[used_BL], y_BLD[used_BL], sentence)
                for head in range(mix_BHLS.shape[1]):
                    if not mix_BHLS[:, head].any():  # a lone position whose weights are centred reads nothing
                        continue
                    knocked_BHLS = mix_BHLS.clone()
                    knocked_BHLS[:, head] = 0
                    knocked_BLD = _with(mixer, address, knocked_BHLS, x_BLD, lengths_B)
                    same = torch.allclose(knocked_BLD[used_BL], y_BLD[used_BL])
                    _require(not same, f"{way}: knocking out head {head} at {address} changes nothing.")


def gradients_reach_its_parameters(config: Any) -> None:
    """Each parameter gets a gradient, and each matrix one that is not zero."""
    for way, _, mixer in _token_mixers(config):
        for lengths_B in (None, _lengths(3, LENGTH)):
            _require_gradients(way, mixer, _normal(3, LENGTH, WIDTH), lengths_B)


def nothing_is_kept_between_calls(config: Any) -> None:
    """A call leaves parameters and buffers as they were, and the next call does not know of it."""
    for way, _, mixer in _token_mixers(config):
        _require_pure(way, mixer, None)


def save_and_load_give_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    _require_saved(_models(token_mixer=config), _models(token_mixer=config, seed=1))


def the_same_seed_gives_the_same_weights(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    for causal in (True, False):
        _require_seeded(config, _size(causal=causal))


def swapping_it_in_leaves_the_other_parts(config: Any) -> None:
    """Every other part of the model starts bit for bit as it does beside another token mixer."""
    _require_others_unmoved("token_mixer", config, Uniform())


def it_survives_plain_data(config: Any) -> None:
    """The config is a frozen dataclass that its registered name and fields bring back."""
    _require_plain(_registry_of(config), config)


TOKEN_MIXER_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    output_has_the_shape_of_the_input,
    the_future_does_not_reach_the_past,
    padding_does_not_matter,
    reading_a_few_rows_equals_reading_all,
    a_listening_tap_changes_nothing,
    the_mix_tap_is_the_mixing,
    gradients_reach_its_parameters,
    nothing_is_kept_between_calls,
    save_and_load_give_the_same_output,
    the_same_seed_gives_the_same_weights,
    swapping_it_in_leaves_the_other_parts,
)


# Channel mixers


def permuting_positions_permutes_the_output(config: Any) -> None:
    """It does not know where a position stands."""
    for name, mixer in _channel_mixers(config):
        x_BLD, order = _normal(2, LENGTH, WIDTH), torch.randperm(LENGTH, generator=generator_for(0, "order"))
        y_BLD = mixer(x_BLD)
        _require(y_BLD.shape == x_BLD.shape, f"{name} gives {tuple(y_BLD.shape)} for {tuple(x_BLD.shape)}.")
        _require_equal(mixer(x_BLD[:, order]), y_BLD[:, order], f"{name} knows the order of positions")


def each_position_is_on_its_own(config: Any) -> None:
    """A position's output depends on that position alone, in any number and any company."""
    for name, mixer in _channel_mixers(config):
        x_BLD = _normal(2, LENGTH, WIDTH)
        y_BLD = mixer(x_BLD)
        for place in range(LENGTH):
            _require_equal(mixer(x_BLD[:, [place]]), y_BLD[:, [place]], f"{name} gives a position alone another output")
        long_BLD = torch.cat((x_BLD, 10 * _normal(2, 5, WIDTH, of="more")), dim=1)
        _require_equal(mixer(long_BLD)[:, :LENGTH], y_BLD, f"{name} lets one position reach another")
        _require_equal(mixer(x_BLD[:1]), y_BLD[:1], f"{name} lets one example reach another")


def gradients_reach_the_channel_mixer(config: Any) -> None:
    """Each parameter gets a gradient, and each matrix one that is not zero."""
    for name, mixer in _channel_mixers(config):
        _require_gradients(name, mixer, _normal(3, LENGTH, WIDTH))


def the_channel_mixer_keeps_nothing(config: Any) -> None:
    """A call leaves parameters and buffers as they were, and the next call does not know of it."""
    for name, mixer in _channel_mixers(config):
        _require_pure(name, mixer)


def a_saved_channel_mixer_gives_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    _require_saved(_models(channel_mixer=config), _models(channel_mixer=config, seed=1))


def the_same_seed_gives_the_same_channel_mixer(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    _require_seeded(config, _size())


def swapping_the_channel_mixer_leaves_the_other_parts(config: Any) -> None:
    """Every other part of the model starts bit for bit as it does beside another channel mixer."""
    _require_others_unmoved("channel_mixer", config, ModelConfig().channel_mixer)


CHANNEL_MIXER_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    permuting_positions_permutes_the_output,
    each_position_is_on_its_own,
    gradients_reach_the_channel_mixer,
    the_channel_mixer_keeps_nothing,
    a_saved_channel_mixer_gives_the_same_output,
    the_same_seed_gives_the_same_channel_mixer,
    swapping_the_channel_mixer_leaves_the_other_parts,
)


# Joins


def the_stream_is_as_wide_as_out_width_says(config: Any) -> None:
    """(B, L, D) and (B, L, D) to (B, L, out_width(D)), for more than one D."""
    for width in (WIDTH, 3, 1):
        join = _join(config, width)
        out = join(_normal(2, 5, width), _normal(2, 5, width, of="y"))
        _require(
            out.shape == (2, 5, config.out_width(width)),
            f"{_name(config)} gives {tuple(out.shape)}, and out_width({width}) is {config.out_width(width)}.",
        )


def a_join_meets_each_position_on_its_own(config: Any) -> None:
    """Positions and examples do not see each other in it."""
    join, name = _join(config), _name(config)
    x_BLD, y_BLD = _normal(2, LENGTH, WIDTH), _normal(2, LENGTH, WIDTH, of="y")
    whole = join(x_BLD, y_BLD)
    for place in range(LENGTH):
        alone = join(x_BLD[:, [place]], y_BLD[:, [place]])
        _require_equal(alone, whole[:, [place]], f"{name} lets one position reach another")
    _require_equal(join(x_BLD[:1], y_BLD[:1]), whole[:1], f"{name} lets one example reach another")


def both_sides_go_through_a_join(config: Any) -> None:
    """The stream and the sublayer's output each have a say, forwards and backwards."""
    join, name = _join(config), _name(config)
    x_BLD = _normal(2, LENGTH, WIDTH).requires_grad_()
    y_BLD = _normal(2, LENGTH, WIDTH, of="y").requires_grad_()
    (join(x_BLD, y_BLD) ** 2).sum().backward()
    for what, side in (("the stream", x_BLD), ("the sublayer's output", y_BLD)):
        reached = side.grad is not None and bool((side.grad != 0).any())
        _require(reached, f"{name}: no gradient comes back to {what}.")
    _require_gradients(name, join, x_BLD.detach(), y_BLD.detach())


def a_model_can_be_made_with_the_join(config: Any) -> None:
    """Two blocks with it run, read a few rows, and are as wide as it says after every sublayer."""
    for way, _, model in _models(join=config):
        width = WIDTH
        for block in model.blocks:
            for _ in range(2):
                width = config.out_width(width)
            found = getattr(block, "width", None)
            _require(found == width, f"{way}: a block ends {found} wide, {width} was expected.")
        batch = _tokens(4, LENGTH, lengths=True)
        read_BQ = _reads(4, LENGTH, batch.lengths_B)
        _require_equal(model(batch, read_BQ), take(model(batch), read_BQ), f"{way}: a few rows differ from the whole")


def a_saved_join_gives_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    _require_saved(_models(join=config), _models(join=config, seed=1))


def the_same_seed_gives_the_same_join(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    _require_seeded(config, _size())


JOIN_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    the_stream_is_as_wide_as_out_width_says,
    a_join_meets_each_position_on_its_own,
    both_sides_go_through_a_join,
    a_model_can_be_made_with_the_join,
    a_saved_join_gives_the_same_output,
    the_same_seed_gives_the_same_join,
)


# Tasks


def a_batch_is_what_the_shape_says(config: Any) -> None:
    """Types, ranges and lengths of tokens, targets, marks and strata, in every split and in any number."""
    data = config.build(seed=0)
    _require(isinstance(data.shape, TaskShape), f"{_name(config)}: shape is no TaskShape.")
    for split in SPLITS:
        for n in (1, 257):
            batch = _draw(data, n, split)
            _require(len(batch) == n, f"{_name(config)}, {split}: {n} examples were asked for, {len(batch)} came.")
            _require_batch(f"{_name(config)}, {split}", data.shape, batch)
        if hasattr(data, "all_of"):
            _require_batch(f"{_name(config)}, all of {split}", data.shape, data.all_of(split))


def the_referee_agrees_with_the_targets(config: Any) -> None:
    """The plain solver and the fast sampler were written apart; here they meet, over 300 examples a split."""
    data = config.build(seed=0)
    if not hasattr(data, "referee"):
        _require(
            hasattr(data, "bayes"),
            f"{_name(config)} has no referee; then it has `bayes(batch)`, or says bayes = None.",
        )
        _require_bayes(config, data)
        return
    for split in SPLITS:
        batch = _draw(data, 300, split)
        for tokens, targets, used in zip(batch.tokens_BL, batch.targets_BL, batch.used_BL.sum(-1), strict=True):
            asked, expected = tokens[:used].tolist(), targets[:used].tolist()
            found = list(data.referee(asked))
            _require(
                found == expected, f"{_name(config)}, {split}: for {asked} the referee says {found}, not {expected}."
            )


def the_splits_share_no_example(config: Any) -> None:
    """Train, validation and test have no input in common, unless `splits_overlap` gives the reason."""
    data = config.build(seed=0)
    if data.splits_overlap is not None:
        _require(bool(data.splits_overlap.strip()), f"{_name(config)}: splits_overlap gives no reason.")
        return
    held: dict[str, set[bytes]] = {}
    for split in SPLITS:
        n = 4000 if split == "train" else 1000
        batch = data.all_of(split) if hasattr(data, "all_of") else _draw(data, n, split)
        held[split] = {tokens.numpy().tobytes() for tokens in batch.tokens_BL}
        _require(bool(held[split]), f"{_name(config)}: the {split} split is empty.")
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        shared = len(held[one] & held[other])
        _require(not shared, f"{_name(config)}: {shared} examples stand both in {one} and in {other}.")


def the_same_seed_gives_the_same_data(config: Any) -> None:
    """The first thousand examples hang on the seed and on nothing that happened before."""
    with torch.random.fork_rng(devices=[]):
        seen = []
        for noise in (1, 2):
            torch.manual_seed(noise)
            if noise == 2:
                Transformer(ModelConfig(width=WIDTH), TaskShape(length=3, vocabulary=5), seed=9)
            before = torch.get_rng_state()
            data = config.build(seed=3)
            seen.append([_fingerprint(_draw(data, 1000, split)) for split in SPLITS])
            _require(
                torch.equal(before, torch.get_rng_state()), f"{_name(config)} draws from the global random generator."
            )
            again = [_fingerprint(_draw(data, 1000, split)) for split in SPLITS]
            _require(again == seen[-1], f"{_name(config)}: the same draw twice from one build differs.")
        _require(seen[0] == seen[1], f"{_name(config)}: two builds with one seed give different examples.")
    other = data.sample(1000, split="train", generator=generator_for(4, "other"))
    _require(_fingerprint(other) != seen[0][0], f"{_name(config)}: another generator gives the same examples.")


def floors_are_predictions(config: Any) -> None:
    """At least one; each of them (B, L), in range, and made without a look at the targets."""
    data = config.build(seed=0)
    batch = _draw(data, 200, "test")
    floors = data.floors(batch)
    _require(bool(floors), f"{_name(config)} has no floor: every score stands beside one.")
    nothing = torch.full_like(batch.targets_BL, math.nan if data.shape.real_targets else IGNORE)
    blind = data.floors(dataclasses.replace(batch, targets_BL=nothing))
    for name, predicted_BL in floors.items():
        where = f"{_name(config)}, floor {name}"
        _require(
            predicted_BL.shape == batch.targets_BL.shape,
            f"{where}: shape {tuple(predicted_BL.shape)}, {tuple(batch.targets_BL.shape)} was expected.",
        )
        _require(
            predicted_BL.is_floating_point() == data.shape.real_targets,
            f"{where}: {predicted_BL.dtype}, and real_targets is {data.shape.real_targets}.",
        )
        scored = predicted_BL[batch.scored_BL]
        fit = scored.isfinite() if data.shape.real_targets else (scored >= 0) & (scored < data.shape.output_width)
        _require(bool(fit.all()), f"{where}: a prediction is out of range.")
        _require(torch.equal(blind[name], predicted_BL), f"{where} reads the targets.")


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
            _require(isinstance(metric, Metric), f"{_name(config)}: headline is no Metric.")
            _require(metric.name in names, f"{_name(config)}: no row is called {metric.name}, its headline.")
        for row in found:
            _require(
                math.isfinite(row.value) and row.n >= 1,
                f"{_name(config)}: {row.quantity} at {row.where} is {row.value} over {row.n}.",
            )
    _require(data.ceiling is None or math.isfinite(data.ceiling), f"{_name(config)}: ceiling {data.ceiling}.")


def no_input_holds_its_own_answer(config: Any) -> None:
    """Where each target is the next token, a two-way model would read it off: then may_look_ahead is False."""
    data = config.build(seed=0)
    if data.shape.real_targets or not data.shape.may_look_ahead:
        return
    batch = _draw(data, 300, "train")
    asked_BL = batch.scored_BL[:, :-1] & batch.used_BL[:, 1:]
    told_BL = batch.targets_BL[:, :-1] == batch.tokens_BL[:, 1:]
    _require(
        not asked_BL.any() or not told_BL[asked_BL].all(),
        f"{_name(config)}: every target is the token that follows, and may_look_ahead is True.",
    )


TASK_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    a_batch_is_what_the_shape_says,
    the_referee_agrees_with_the_targets,
    the_splits_share_no_example,
    the_same_seed_gives_the_same_data,
    floors_are_predictions,
    a_model_can_be_trained_and_scored_on_it,
    no_input_holds_its_own_answer,
)


# Probes


def a_probe_only_looks(config: Any) -> None:
    """Afterwards the model has the same bits, mode, flags and gradients, and nobody listens."""
    for name, model, batch in _probed(config):
        for training in (True, False):
            model.train(training)
            model.blocks[0].train(not training)
            next(model.parameters()).requires_grad_(False)
            before, random = _looks(model), torch.get_rng_state()
            list(config.measure(model, batch))
            for what, value in _looks(model).items():
                _require(_same(value, before[what]), f"{name} changes {what}.")
            _require(torch.equal(random, torch.get_rng_state()), f"{name} draws from the global random generator.")


def a_probe_yields_rows(config: Any) -> None:
    """Finite rows with a name, a place and a count; nothing at all where the probe does not apply."""
    found = 0
    for name, model, batch in _probed(config):
        for row in config.measure(model, batch):
            found += 1
            _require(isinstance(row, Row), f"{name} yields {type(row).__name__}, not a Row.")
            _require(bool(row.quantity and row.where), f"{name} yields a row without a name or a place: {row}.")
            _require(math.isfinite(row.value) and row.n >= 1, f"{name} yields {row.value} over {row.n}.")
    _require(found > 0, f"{_name(config)} yields no row on any model of the lab.")


def other_probes_do_not_change_its_values(config: Any) -> None:
    """Any probes, in any order, before it: the same rows."""
    others = [cls() for cls in map(PROBES.__getitem__, PROBES.names())]
    for name, model, batch in _probed(config):
        alone = list(config.measure(model, batch))
        for other in others:
            list(other.measure(model, batch))
        _require(list(config.measure(model, batch)) == alone, f"{name} gives other values after other probes.")


def padding_does_not_change_its_values(config: Any) -> None:
    """What stands in the padding is not measured."""
    for name, model, batch in _probed(config):
        other = dataclasses.replace(batch, tokens_BL=batch.tokens_BL.masked_fill(~batch.used_BL, 1))
        for one, two in zip(config.measure(model, batch), config.measure(model, other), strict=True):
            same = math.isclose(one.value, two.value, rel_tol=1e-5, abs_tol=1e-6) and one.n == two.n
            _require(same, f"{name} measures padding: {one.quantity} is {one.value}, then {two.value}.")


PROBE_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    a_probe_only_looks,
    a_probe_yields_rows,
    other_probes_do_not_change_its_values,
    padding_does_not_change_its_values,
)


# What the laws are made of


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _require_equal(found: Tensor, expected: Tensor, sentence: str, *, within: float = EXACT) -> None:
    """Equal up to rounding; the text ends in the largest difference."""
    difference = (found - expected).abs().max().item() if found.numel() else 0.0
    _require(difference <= within * max(1.0, expected.abs().max().item()), f"{sentence}, by up to {difference:.2g}.")


def _name(config: Any) -> str:
    return vars(type(config)).get("registered_name") or type(config).__name__


def _registry_of(config: Any) -> Registry | None:
    """The catalogue that the config is registered in, if any."""
    every = (TOKEN_MIXERS, CHANNEL_MIXERS, JOINS, TASKS, PROBES)
    return next((registry for registry in every if type(config) in registry), None)


def _normal(*shape: int, of: str = "x") -> Tensor:
    return torch.randn(*shape, generator=generator_for(0, f"{of} {shape}"), dtype=torch.float64)


def _lengths(n: int, length: int) -> Tensor:
    """n lengths from full down to 1."""
    return torch.linspace(length, 1, n).round().long()


def _reads(n: int, length: int, lengths_B: Tensor | None) -> Tensor:
    """Five positions in use for each row, out of order and some of them twice."""
    used_B1 = torch.full((n, 1), length) if lengths_B is None else lengths_B[:, None]
    place_B5 = (torch.rand(n, 5, generator=generator_for(0, "read")) * used_B1).long()
    place_B5[:, 0], place_B5[:, 1], place_B5[:, 2] = used_B1[:, 0] - 1, 0, used_B1[:, 0] - 1
    return place_B5


def _tokens(n: int, length: int, *, lengths: bool = False) -> Batch:
    tokens_BL = torch.randint(VOCABULARY, (n, length), generator=generator_for(0, "tokens"))
    return _batch_of(tokens_BL, _lengths(n, length) if lengths else None)


def _batch_of(tokens_BL: Tensor, lengths_B: Tensor | None) -> Batch:
    nothing_BL = torch.full(tokens_BL.shape[:2], IGNORE)
    return Batch(tokens_BL=tokens_BL, targets_BL=nothing_BL, lengths_B=lengths_B)


def _inputs(n: int = 3) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Random inputs of each length, full and padded."""
    for length in SHORTER:
        for lengths_B in (None, _lengths(n, length)):
            yield _normal(n, length, WIDTH), lengths_B


def _size(*, causal: bool = True, width: int = WIDTH) -> MixerSize:
    return MixerSize(width=width, length=LENGTH, causal=causal, layer=1, n_layers=3)


@torch.no_grad()
def _stirred(module: nn.Module) -> nn.Module:
    """In float64, ready to be evaluated, and every parameter moved, so that a start at zero hides nothing."""
    module.double().eval()
    for name, parameter in module.named_parameters():
        parameter.add_(torch.randn(parameter.shape, generator=generator_for(1, name), dtype=torch.float64), alpha=0.1)
    return module


def _token_mixers(config: Any) -> Iterator[tuple[str, bool, nn.Module]]:
    """(in words, causal, the mixer) for each way that the config can be built; nothing if it builds no sublayer."""
    refused = []
    for causal in (True, False):
        try:
            mixer = config.build(_size(causal=causal), generator=generator_for(0, "contract"))
        except ConfigError as error:
            refused.append(error)
            continue
        if mixer is not None:
            yield f"{_name(config)} ({'causal' if causal else 'two-way'})", causal, _stirred(mixer)
    if len(refused) == 2:
        raise AssertionError(f"{_name(config)} can be built neither causal nor two-way: {refused[0]}")


def _channel_mixers(config: Any) -> Iterator[tuple[str, nn.Module]]:
    mixer = config.build(_size(), generator=generator_for(0, "contract"))
    if mixer is not None:
        yield _name(config), _stirred(mixer)


def _join(config: Any, width: int = WIDTH) -> nn.Module:
    return _stirred(config.build(_size(width=width), generator=generator_for(0, "contract")))


def _models(*, seed: int = 0, **slot: Any) -> Iterator[tuple[str, bool, Transformer]]:
    """Two-block models, causal and two-way, with the slot filled."""
    shape = TaskShape(length=LENGTH, vocabulary=VOCABULARY)
    for two_way in (False, True):
        try:
            model = Transformer(ModelConfig(width=WIDTH, two_way=two_way, **slot), shape, seed=seed)
        except ConfigError:  # a way it cannot be built; `_token_mixers` sees that there is one
            continue
        name = _name(next(iter(slot.values())))
        _stirred(model)
        yield f"{name} ({'two-way' if two_way else 'causal'})", not two_way, model


def _with(mixer: nn.Module, address: str, mix_BHLS: Tensor, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
    with rewrite(mixer, address, lambda _: mix_BHLS.clone()):
        return mixer(x_BLD, lengths_B)


def _require_axes(tap: str, mix_BHLS: Tensor, used_BL: Tensor, causal: bool) -> None:
    """Four axes, and nothing where a position may not look."""
    n, length = used_BL.shape
    _require(
        mix_BHLS.ndim == 4 and mix_BHLS.shape[0] in (1, n) and mix_BHLS.shape[2:] == (length, length),
        f"{tap} carries {tuple(mix_BHLS.shape)}, not ({n} or 1, heads, {length}, {length}).",
    )
    may_see_BLS = used_BL[:, None, :].expand(-1, length, -1)
    may_see_BLS = may_see_BLS.tril() if causal else may_see_BLS
    forbidden_BHLS = (used_BL[..., None] & ~may_see_BLS)[:, None].expand(-1, mix_BHLS.shape[1], -1, -1)
    hidden = mix_BHLS.expand(n, -1, -1, -1)[forbidden_BHLS]
    _require(not bool(hidden.any()), f"{tap} shows weight on a source that its position may not see.")


def _require_gradients(name: str, module: nn.Module, *inputs: Tensor | None) -> None:
    module.zero_grad()
    out = module(*inputs)
    if out.requires_grad:
        (out**2).sum().backward()
    for address, parameter in module.named_parameters():
        grad = parameter.grad
        if grad is None or not grad.isfinite().all():
            raise AssertionError(f"{name}: no finite gradient reaches {address}.")
        # a key's bias shifts every score of a row alike, so only matrices must feel something
        felt = parameter.ndim < 2 or bool(grad.any())
        _require(felt, f"{name}: the gradient of {address} is zero throughout.")


def _require_pure(name: str, module: nn.Module, *also: None) -> None:
    before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    with torch.no_grad():
        first = module(_normal(2, LENGTH, WIDTH), *also)
        module(_normal(3, LENGTH - 4, WIDTH, of="between"), *also)
        again = module(_normal(2, LENGTH, WIDTH), *also)
    _require(torch.equal(first, again), f"{name} remembers an earlier call.")
    changed = [key for key, tensor in module.state_dict().items() if not torch.equal(tensor, before[key])]
    _require(not changed, f"{name}: a call changes {', '.join(changed)}.")


def _require_saved(models: Iterator, others: Iterator) -> None:
    for (way, _, model), (_, _, other) in zip(models, others, strict=True):
        other.load_state_dict(model.state_dict())
        for batch in (_tokens(3, LENGTH), _tokens(3, LENGTH - 4), _tokens(3, LENGTH, lengths=True)):
            with torch.no_grad():
                logits = model(batch)
                _require(torch.equal(other(batch), logits), f"{way}: what was saved and loaded gives another output.")
                _require(torch.equal(copy.deepcopy(model)(batch), logits), f"{way}: a deep copy gives another output.")


def _require_seeded(config: Any, size: MixerSize) -> None:
    states = []
    with torch.random.fork_rng(devices=[]):
        for noise, seed in ((1, 5), (2, 5), (1, 6)):
            torch.manual_seed(noise)
            before = torch.get_rng_state()
            try:
                module = config.build(size, generator=generator_for(seed, "contract"))
            except ConfigError:
                return
            untouched = torch.equal(before, torch.get_rng_state())
            _require(untouched, f"{_name(config)} draws from the global random generator.")
            states.append({} if module is None else module.state_dict())
    one, same, other = states
    _require(_same(one, same), f"{_name(config)}: one seed gives two sets of weights.")
    drawn = [name for name, tensor in one.items() if tensor.ndim >= 2]
    _require(not drawn or not _same(one, other), f"{_name(config)}: two seeds give one set of weights.")


def _require_others_unmoved(slot: str, config: Any, usual: Any) -> None:
    """Swap the part in block 0; the rest of the model, block 1 included, starts as it did."""
    shape = TaskShape(length=LENGTH, vocabulary=VOCABULARY)
    states = []
    for part in (config, usual):
        blocks = (BlockConfig(**{slot: part}), BlockConfig())
        for two_way in (False, True):
            try:
                states.append(Transformer(ModelConfig(width=WIDTH, blocks=blocks, two_way=two_way), shape, seed=0))
                break
            except ConfigError:
                continue
    swapped, plain = (model.state_dict() for model in states)
    for address, tensor in swapped.items():
        if not address.startswith(f"blocks.0.{slot}."):
            same = address in plain and torch.equal(tensor, plain[address])
            _require(same, f"{_name(config)}: with it, {address} starts otherwise.")


def _require_plain(registry: Registry | None, config: Any) -> None:
    name = type(config).__name__
    if registry is None:
        raise AssertionError(f"{name} is registered nowhere: give it a name with the catalogue's register().")
    parameters = getattr(type(config), "__dataclass_params__", None)
    _require(parameters is not None and parameters.frozen, f"{name} is no frozen dataclass.")
    _require(bool(registry.summary(_name(config))), f"{name} has no docstring to list it by.")
    back = configs.from_plain(Annotated[Any, registry], configs.to_plain(config))
    _require(back == config, f"{config} comes back from plain data as {back}.")


def _draw(data: Any, n: int, split: Split) -> Batch:
    return data.sample(n, split=split, generator=generator_for(0, f"contract {split}"))


def _fingerprint(batch: Batch) -> str:
    held = [batch.tokens_BL, batch.targets_BL, *([] if batch.lengths_B is None else [batch.lengths_B])]
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in held)).hexdigest()


def _require_batch(name: str, shape: TaskShape, batch: Batch) -> None:
    n, length = len(batch), batch.tokens_BL.shape[1]
    _require(1 <= length <= shape.length, f"{name}: inputs are {length} long, the shape says {shape.length} at most.")
    if shape.vocabulary is not None:
        _require(
            batch.tokens_BL.shape == (n, length) and batch.tokens_BL.dtype == torch.int64,
            f"{name}: tokens are {batch.tokens_BL.dtype} {tuple(batch.tokens_BL.shape)}, not int64 (B, L).",
        )
        low, high = int(batch.tokens_BL.min()), int(batch.tokens_BL.max())
        _require(low >= 0 and high < shape.vocabulary, f"{name}: tokens run {low}..{high} of {shape.vocabulary} ids.")
    else:
        _require(
            batch.tokens_BL.shape == (n, length, shape.n_features) and batch.tokens_BL.is_floating_point(),
            f"{name}: inputs are {tuple(batch.tokens_BL.shape)}, not float (B, L, {shape.n_features}).",
        )
        _require(bool(batch.tokens_BL.isfinite().all()), f"{name}: an input is not finite.")
    used_BL, scored_BL = batch.used_BL, batch.scored_BL
    if batch.lengths_B is not None:
        fit = batch.lengths_B.shape == (n,) and batch.lengths_B.dtype == torch.int64
        fit = fit and bool(((batch.lengths_B >= 1) & (batch.lengths_B <= length)).all())
        _require(fit, f"{name}: lengths are not int64 (B,) between 1 and {length}.")
    _require(batch.targets_BL.shape == (n, length), f"{name}: targets are {tuple(batch.targets_BL.shape)}.")
    _require(not (scored_BL & ~used_BL).any(), f"{name}: a target stands in the padding.")
    _require(bool(scored_BL.any(-1).all()), f"{name}: an example has no target.")
    if shape.real_targets:
        _require(batch.targets_BL.is_floating_point(), f"{name}: real targets are {batch.targets_BL.dtype}.")
        _require(bool(batch.targets_BL[scored_BL].isfinite().all()), f"{name}: a target is not finite.")
    else:
        asked = batch.targets_BL[scored_BL]
        fit = batch.targets_BL.dtype == torch.int64 and bool(((asked >= 0) & (asked < shape.output_width)).all())
        _require(fit, f"{name}: targets are not int64 ids below {shape.output_width}.")
    for mark, place in batch.marks.items():
        fit = place.dtype == torch.int64 and place.ndim in (1, 2) and len(place) == n
        _require(fit, f"{name}: mark {mark} is {place.dtype} {tuple(place.shape)}, not int64 (B,) or (B, N).")
        end = used_BL.sum(-1).reshape(-1, *([1] * (place.ndim - 1)))
        _require(bool(((place >= 0) & (place < end)).all()), f"{name}: mark {mark} points outside the example.")
    for stratum, value in batch.strata.items():
        fit = value.dtype == torch.int64 and value.shape in ((n,), (n, length))
        _require(fit, f"{name}: stratum {stratum} is {value.dtype} {tuple(value.shape)}, not int64 (B,) or (B, L).")


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

    _require(best_BL.shape == batch.targets_BL.shape, f"{_name(config)}: bayes gives {tuple(best_BL.shape)}.")
    for name, floor_BL in data.floors(batch).items():
        best, floor = error(best_BL), error(floor_BL)
        _require(best <= floor, f"{_name(config)}: bayes errs {best:.4g}, floor {name} only {floor:.4g}.")


def _probed(config: Any) -> Iterator[tuple[str, Transformer, Batch]]:
    """A probe's name in words, a model, and examples with padding and marks: for every token mixer, and for none."""
    data = Needle(n_pairs=4, n_values=9).build(seed=0)
    batch = data.sample(12, split="test", generator=generator_for(0, "probed"))
    for mixer in map(TOKEN_MIXERS.__getitem__, TOKEN_MIXERS.names()):
        for two_way in (False, True):
            try:
                model = Transformer(ModelConfig(width=16, token_mixer=mixer(), two_way=two_way), data.shape, seed=0)
            except ConfigError:
                continue
            yield f"{_name(config)} on {_name(model.config.token_mixer)}", model, batch


def _looks(model: nn.Module) -> dict[str, Any]:
    """All that could be seen of a model from outside."""
    return {
        "a weight or buffer": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "the mode": [module.training for module in model.modules()],
        "what needs a gradient": [parameter.requires_grad for parameter in model.parameters()],
        "a gradient": [parameter.grad is None for parameter in model.parameters()],
        "the listeners": [list(module.listeners) for module in model.modules() if isinstance(module, Tap)],
        "the hooks": [
            (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()
        ],
    }


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    return one == other
