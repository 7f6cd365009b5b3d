"""A part's randomness hangs on (seed, address) and on nothing else."""

import torch

from partwise.seeds import generator_for


def draw(seed, address):
    return torch.rand(4, generator=generator_for(seed, address))


def test_the_same_pair_gives_the_same_stream_whatever_was_drawn_before():
    first = draw(0, "blocks.0.token_mixer")
    torch.rand(100)
    draw(0, "embed")
    assert torch.equal(draw(0, "blocks.0.token_mixer"), first)


def test_another_seed_or_another_address_gives_another_stream():
    streams = [draw(seed, address) for seed in (0, 1, -1, 2**40) for address in ("embed", "unembed", "blocks.1")]
    assert len({tuple(stream.tolist()) for stream in streams}) == 12


def test_the_pair_is_not_a_sum():
    assert not torch.equal(draw(1, "1:x"), draw(11, ":x"))
    assert not torch.equal(draw(0, "train/11"), draw(0, "train/1"))


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    draw(0, "embed")
    assert torch.equal(torch.get_rng_state(), before)


def test_the_stream_is_pinned_so_that_old_runs_can_be_repeated():
    assert generator_for(0, "embed").initial_seed() == 8199810123385975770
    assert torch.randint(1000, (5,), generator=generator_for(0, "embed")).tolist() == [367, 64, 614, 988, 888]
