"""What a token mixer must hold to."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from partwise.caches import Cache, mixed_next
from partwise.contracts.common import (
    DRAWN,
    LENGTH,
    WIDTH,
    Law,
    batch_of,
    it_survives_plain_data,
    lengths_down,
    models_with,
    name_of,
    normal,
    reads,
    require,
    require_equal,
    require_gradients,
    require_others_unmoved,
    require_pure,
    require_saved,
    require_seeded,
    size_of,
    stirred,
    token_batch,
)
from partwise.decoding import Decoder
from partwise.errors import ConfigError
from partwise.layers import take
from partwise.seeds import generator_for
from partwise.taps import has_tap, record, rewrite, taps
from partwise.token_mixers.uniform import Uniform

SHORTER = (1, 2, 5, 8, LENGTH)  # odd and even, the shortest and the longest


def check_token_mixer(config: Any) -> None:
    """Hold a token mixer's config to every law, causal and two-way; a way it refuses with ConfigError is left out."""
    for law in TOKEN_MIXER_LAWS:
        law(config)


def output_has_the_shape_of_the_input(config: Any) -> None:
    """(B, L, D) to (B, L, D), for every length up to the longest."""
    for way, _, mixer in _token_mixers(config):
        for x_BLD, lengths_B in _inputs():
            y_BLD = mixer(x_BLD, lengths_B)
            came, gave = f"{x_BLD.dtype} {tuple(x_BLD.shape)}", f"{y_BLD.dtype} {tuple(y_BLD.shape)}"
            require(came == gave, f"{way} gives {gave} for {came}.")


def the_future_does_not_reach_the_past(config: Any) -> None:
    """At every cut, what stands before it comes out the same whatever stands behind it, or if nothing does."""
    for way, causal, mixer in _token_mixers(config):
        if not causal:
            continue
        for length in SHORTER[1:]:
            x_LD = normal(length, WIDTH)
            cuts = torch.arange(1, length)
            behind_CL = torch.arange(length) >= cuts[:, None]
            x_CLD = torch.where(behind_CL[..., None], 10 * normal(len(cuts), length, WIDTH, of="suffix"), x_LD)
            plain_LD, moved_CLD = mixer(x_LD[None], None)[0], mixer(x_CLD, None)
            for cut, y_LD in zip(cuts.tolist(), moved_CLD, strict=True):
                require_equal(
                    y_LD[:cut],
                    plain_LD[:cut],
                    f"{way} lets positions from {cut} on reach those before (length {length})",
                )
                require_equal(
                    mixer(x_LD[None, :cut], None)[0],
                    plain_LD[:cut],
                    f"{way} gives the first {cut} positions another output when the input ends there",
                )


def padding_does_not_matter(config: Any) -> None:
    """A row of a padded batch is that row alone, whatever the padding holds and however long it is."""
    for way, _, mixer in _token_mixers(config):
        for length in SHORTER[1:]:
            lengths_B = lengths_down(4, length)
            x_BLD = normal(4, length, WIDTH)
            padding_BL = torch.arange(length) >= lengths_B[:, None]
            other_BLD = torch.where(padding_BL[..., None], 10 * normal(4, length, WIDTH, of="padding"), x_BLD)
            y_BLD, other_y_BLD = mixer(x_BLD, lengths_B), mixer(other_BLD, lengths_B)
            for row, used in enumerate(lengths_B.tolist()):
                y_LD, place = y_BLD[row, :used], f"(length {length}, {used} in use)"
                require_equal(other_y_BLD[row, :used], y_LD, f"{way} reads what the padding holds {place}")
                alone_BLD = mixer(x_BLD[row : row + 1, :used], None)
                require_equal(
                    alone_BLD[0],
                    y_LD,
                    f"{way} gives a padded row another output than the row alone {place}",
                    within=DRAWN,
                )
                told_BLD = mixer(x_BLD[row : row + 1, :used], lengths_B[row : row + 1])
                require_equal(
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
            read_BQ = reads(4, x_BLD.shape[1], lengths_B)
            few_BQD = forward_at(x_BLD, read_BQ, lengths_B)
            rows_BQD = take(mixer(x_BLD, lengths_B), read_BQ)
            require_equal(few_BQD, rows_BQD, f"{way}: forward_at differs from the rows of forward")
    for way, _, model in models_with(token_mixer=config):
        for batch in (token_batch(4, LENGTH), token_batch(4, LENGTH - 3, lengths=True)):
            length = batch.tokens_BL.shape[1]
            read_BQ = reads(4, length, batch.lengths_B)
            whole = take(model(batch), read_BQ)
            require_equal(model(batch, read_BQ), whole, f"{way}: a model asked for a few rows gives others")
            if has_tap(model, "*"):
                with record(model, "*"):
                    heard = model(batch, read_BQ)
                require_equal(heard, whole, f"{way}: a model asked for a few rows gives others while a tap listens")


def reading_on_equals_reading_at_once(config: Any) -> None:
    """`forward_next`, where there is one, and a decoder give position by position, or a few at a time, the whole; also
    for rows taken out of a cache, as beam search does."""
    for way, causal, mixer in _token_mixers(config):
        if causal and hasattr(mixer, "forward_next"):
            x_BLD = normal(3, LENGTH, WIDTH)
            for pieces in (LENGTH * (1,), (4, 1, LENGTH - 5)):
                cache, parts = Cache(LENGTH), []
                for x_BND in x_BLD.split(pieces, dim=1):
                    parts.append(mixed_next(mixer, x_BND, cache))
                    cache.seen += x_BND.shape[1]
                sentence = f"{way}: forward_next in pieces of {pieces[0]} differs from forward"
                require_equal(torch.cat(parts, dim=1), mixer(x_BLD, None), sentence)
            order_R = torch.tensor([2, 0, 2, 1])
            cache = Cache(LENGTH)
            mixed_next(mixer, x_BLD[:, :4], cache)
            cache.seen = 4
            next_RND = mixed_next(mixer, x_BLD[order_R, 4:], cache.rows(order_R))
            sentence = f"{way}: forward_next from rows of a cache, in another order, differs from forward"
            require_equal(next_RND, mixer(x_BLD[order_R], None)[:, 4:], sentence)
    for way, causal, model in models_with(token_mixer=config):
        if causal:
            tokens_BL = token_batch(3, LENGTH).tokens_BL
            decoder, whole_BLV = Decoder(model), model(tokens_BL)
            for place in range(LENGTH):
                logits_BV = decoder.read(tokens_BL[:, place : place + 1])
                require_equal(logits_BV, whole_BLV[:, place], f"{way}: a decoder at position {place} differs")


def a_listening_tap_changes_nothing(config: Any) -> None:
    """The plain path, on which the taps sit, gives what the fused one gives."""
    for way, _, mixer in _token_mixers(config):
        if not has_tap(mixer, "*"):
            continue
        for x_BLD, lengths_B in _inputs():
            used_BL, silent_BLD = batch_of(x_BLD, lengths_B).used_BL, mixer(x_BLD, lengths_B)
            with record(mixer, "*") as seen:
                heard_BLD = mixer(x_BLD, lengths_B)
            require_equal(heard_BLD[used_BL], silent_BLD[used_BL], f"{way} gives another output while a tap listens")
            missing = sorted(taps(mixer).keys() - seen.keys())
            require(not missing, f"{way} has a tap that nothing passes through: {', '.join(missing)}.")


def the_mix_tap_is_the_mixing(config: Any) -> None:
    """A `mix` tap carries (B or 1, H, L, S), is what mixes the values, and shows no forbidden source."""
    for way, causal, mixer in _token_mixers(config):
        if not has_tap(mixer, "mix"):
            continue
        for x_BLD, lengths_B in _inputs():
            with record(mixer, "mix") as seen:
                y_BLD = mixer(x_BLD, lengths_B)
            used_BL = batch_of(x_BLD, lengths_B).used_BL
            for address, mix_BHLS in seen.items():
                _require_axes(f"{way}: tap {address}", mix_BHLS, used_BL, causal)
                for again in (mix_BHLS, mix_BHLS.expand(len(x_BLD), -1, -1, -1)):
                    sentence = f"{way}: writing back what tap {address} carried changes the output"
                    require_equal(_with(mixer, address, again, x_BLD, lengths_B)[used_BL], y_BLD[used_BL], sentence)
                for head in range(mix_BHLS.shape[1]):
                    if not mix_BHLS[:, head].any():  # a lone position whose weights are centred reads nothing
                        continue
                    knocked_BHLS = mix_BHLS.clone()
                    knocked_BHLS[:, head] = 0
                    knocked_BLD = _with(mixer, address, knocked_BHLS, x_BLD, lengths_B)
                    same = torch.allclose(knocked_BLD[used_BL], y_BLD[used_BL])
                    require(not same, f"{way}: knocking out head {head} at {address} changes nothing.")


def gradients_reach_its_parameters(config: Any) -> None:
    """Each parameter gets a gradient, and each matrix one that is not zero."""
    for way, _, mixer in _token_mixers(config):
        for lengths_B in (None, lengths_down(3, LENGTH)):
            require_gradients(way, mixer, normal(3, LENGTH, WIDTH), lengths_B)


def nothing_is_kept_between_calls(config: Any) -> None:
    """A call leaves parameters and buffers as they were, and the next call does not know of it."""
    for way, _, mixer in _token_mixers(config):
        require_pure(way, mixer, None)


def save_and_load_give_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    require_saved(models_with(token_mixer=config), models_with(token_mixer=config, seed=1))


def the_same_seed_gives_the_same_weights(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    for causal in (True, False):
        require_seeded(config, size_of(causal=causal))


def swapping_it_in_leaves_the_other_parts(config: Any) -> None:
    """Every other part of the model starts bit for bit as it does beside another token mixer."""
    require_others_unmoved("token_mixer", config, Uniform())


TOKEN_MIXER_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    output_has_the_shape_of_the_input,
    the_future_does_not_reach_the_past,
    padding_does_not_matter,
    reading_a_few_rows_equals_reading_all,
    reading_on_equals_reading_at_once,
    a_listening_tap_changes_nothing,
    the_mix_tap_is_the_mixing,
    gradients_reach_its_parameters,
    nothing_is_kept_between_calls,
    save_and_load_give_the_same_output,
    the_same_seed_gives_the_same_weights,
    swapping_it_in_leaves_the_other_parts,
)


def _token_mixers(config: Any) -> Iterator[tuple[str, bool, nn.Module]]:
    """(in words, causal, the mixer) for each way that the config can be built; nothing if it builds no sublayer."""
    refused = []
    for causal in (True, False):
        try:
            mixer = config.build(size_of(causal=causal), generator=generator_for(0, "contract"))
        except ConfigError as error:
            refused.append(error)
            continue
        if mixer is not None:
            yield f"{name_of(config)} ({'causal' if causal else 'two-way'})", causal, stirred(mixer)
    if len(refused) == 2:
        raise AssertionError(f"{name_of(config)} can be built neither causal nor two-way: {refused[0]}")


def _inputs(n: int = 3) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Random inputs of each length, full and padded."""
    for length in SHORTER:
        for lengths_B in (None, lengths_down(n, length)):
            yield normal(n, length, WIDTH), lengths_B


def _with(mixer: nn.Module, address: str, mix_BHLS: Tensor, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
    with rewrite(mixer, address, lambda _: mix_BHLS.clone()):
        return mixer(x_BLD, lengths_B)


def _require_axes(tap: str, mix_BHLS: Tensor, used_BL: Tensor, causal: bool) -> None:
    """Four axes, and nothing where a position may not look."""
    n, length = used_BL.shape
    require(
        mix_BHLS.ndim == 4 and mix_BHLS.shape[0] in (1, n) and mix_BHLS.shape[2:] == (length, length),
        f"{tap} carries {tuple(mix_BHLS.shape)}, not ({n} or 1, heads, {length}, {length}).",
    )
    may_see_BLS = used_BL[:, None, :].expand(-1, length, -1)
    may_see_BLS = may_see_BLS.tril() if causal else may_see_BLS
    forbidden_BHLS = (used_BL[..., None] & ~may_see_BLS)[:, None].expand(-1, mix_BHLS.shape[1], -1, -1)
    hidden = mix_BHLS.expand(n, -1, -1, -1)[forbidden_BHLS]
    require(not bool(hidden.any()), f"{tap} shows weight on a source that its position may not see.")
