"""What a channel mixer must hold to."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from partwise.contracts.common import (
    LENGTH,
    WIDTH,
    Law,
    it_survives_plain_data,
    models_with,
    name_of,
    normal,
    require,
    require_equal,
    require_gradients,
    require_others_unmoved,
    require_pure,
    require_saved,
    require_seeded,
    size_of,
    stirred,
)
from partwise.model import ModelConfig
from partwise.seeds import generator_for


def check_channel_mixer(config: Any) -> None:
    """Hold a channel mixer's config to every law."""
    for law in CHANNEL_MIXER_LAWS:
        law(config)


def permuting_positions_permutes_the_output(config: Any) -> None:
    """It does not know where a position stands."""
    for name, mixer in _channel_mixers(config):
        x_BLD, order = normal(2, LENGTH, WIDTH), torch.randperm(LENGTH, generator=generator_for(0, "order"))
        y_BLD = mixer(x_BLD)
        require(y_BLD.shape == x_BLD.shape, f"{name} gives {tuple(y_BLD.shape)} for {tuple(x_BLD.shape)}.")
        require_equal(mixer(x_BLD[:, order]), y_BLD[:, order], f"{name} knows the order of positions")


def each_position_is_on_its_own(config: Any) -> None:
    """A position's output depends on that position alone, in any number and any company."""
    for name, mixer in _channel_mixers(config):
        x_BLD = normal(2, LENGTH, WIDTH)
        y_BLD = mixer(x_BLD)
        for place in range(LENGTH):
            require_equal(mixer(x_BLD[:, [place]]), y_BLD[:, [place]], f"{name} gives a position alone another output")
        long_BLD = torch.cat((x_BLD, 10 * normal(2, 5, WIDTH, of="more")), dim=1)
        require_equal(mixer(long_BLD)[:, :LENGTH], y_BLD, f"{name} lets one position reach another")
        require_equal(mixer(x_BLD[:1]), y_BLD[:1], f"{name} lets one example reach another")


def gradients_reach_the_channel_mixer(config: Any) -> None:
    """Each parameter gets a gradient, and each matrix one that is not zero."""
    for name, mixer in _channel_mixers(config):
        require_gradients(name, mixer, normal(3, LENGTH, WIDTH))


def the_channel_mixer_keeps_nothing(config: Any) -> None:
    """A call leaves parameters and buffers as they were, and the next call does not know of it."""
    for name, mixer in _channel_mixers(config):
        require_pure(name, mixer)


def a_saved_channel_mixer_gives_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    require_saved(models_with(channel_mixer=config), models_with(channel_mixer=config, seed=1))


def the_same_seed_gives_the_same_channel_mixer(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    require_seeded(config, size_of())


def swapping_the_channel_mixer_leaves_the_other_parts(config: Any) -> None:
    """Every other part of the model starts bit for bit as it does beside another channel mixer."""
    require_others_unmoved("channel_mixer", config, ModelConfig().channel_mixer)


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


def _channel_mixers(config: Any) -> Iterator[tuple[str, nn.Module]]:
    mixer = config.build(size_of(), generator=generator_for(0, "contract"))
    if mixer is not None:
        yield name_of(config), stirred(mixer)
