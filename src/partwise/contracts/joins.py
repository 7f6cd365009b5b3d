"""What a join must hold to."""

from typing import Any

from torch import nn

from partwise.contracts.common import (
    LENGTH,
    WIDTH,
    Law,
    it_survives_plain_data,
    models_with,
    name_of,
    normal,
    reads,
    require,
    require_equal,
    require_gradients,
    require_saved,
    require_seeded,
    size_of,
    stirred,
    token_batch,
)
from partwise.layers import take
from partwise.seeds import generator_for


def check_join(config: Any) -> None:
    """Hold a join's config to every law."""
    for law in JOIN_LAWS:
        law(config)


def the_stream_is_as_wide_as_out_width_says(config: Any) -> None:
    """(B, L, D) and (B, L, D) to (B, L, out_width(D)), for more than one D."""
    for width in (WIDTH, 3, 1):
        join = built_join(config, width)
        out = join(normal(2, 5, width), normal(2, 5, width, of="y"))
        require(
            out.shape == (2, 5, config.out_width(width)),
            f"{name_of(config)} gives {tuple(out.shape)}, and out_width({width}) is {config.out_width(width)}.",
        )


def a_join_meets_each_position_on_its_own(config: Any) -> None:
    """Positions and examples do not see each other in it."""
    join, name = built_join(config), name_of(config)
    x_BLD, y_BLD = normal(2, LENGTH, WIDTH), normal(2, LENGTH, WIDTH, of="y")
    whole = join(x_BLD, y_BLD)
    for place in range(LENGTH):
        alone = join(x_BLD[:, [place]], y_BLD[:, [place]])
        require_equal(alone, whole[:, [place]], f"{name} lets one position reach another")
    require_equal(join(x_BLD[:1], y_BLD[:1]), whole[:1], f"{name} lets one example reach another")


def both_sides_go_through_a_join(config: Any) -> None:
    """The stream and the sublayer's output each have a say, forwards and backwards."""
    join, name = built_join(config), name_of(config)
    x_BLD = normal(2, LENGTH, WIDTH).requires_grad_()
    y_BLD = normal(2, LENGTH, WIDTH, of="y").requires_grad_()
    (join(x_BLD, y_BLD) ** 2).sum().backward()
    for what, side in (("the stream", x_BLD), ("the sublayer's output", y_BLD)):
        reached = side.grad is not None and bool((side.grad != 0).any())
        require(reached, f"{name}: no gradient comes back to {what}.")
    require_gradients(name, join, x_BLD.detach(), y_BLD.detach())


def a_model_can_be_made_with_the_join(config: Any) -> None:
    """Two blocks with it run, read a few rows, and are as wide as it says after every sublayer."""
    for way, _, model in models_with(join=config):
        width = WIDTH
        for block in model.blocks:
            for _ in range(2):
                width = config.out_width(width)
            found = getattr(block, "width", None)
            require(found == width, f"{way}: a block ends {found} wide, {width} was expected.")
        batch = token_batch(4, LENGTH, lengths=True)
        read_BQ = reads(4, LENGTH, batch.lengths_B)
        require_equal(model(batch, read_BQ), take(model(batch), read_BQ), f"{way}: a few rows differ from the whole")


def a_saved_join_gives_the_same_output(config: Any) -> None:
    """A model of another seed that loads the state gives the same bits, and so does a deep copy."""
    require_saved(models_with(join=config), models_with(join=config, seed=1))


def the_same_seed_gives_the_same_join(config: Any) -> None:
    """The generator handed over is the only source of randomness."""
    require_seeded(config, size_of())


JOIN_LAWS: tuple[Law, ...] = (
    it_survives_plain_data,
    the_stream_is_as_wide_as_out_width_says,
    a_join_meets_each_position_on_its_own,
    both_sides_go_through_a_join,
    a_model_can_be_made_with_the_join,
    a_saved_join_gives_the_same_output,
    the_same_seed_gives_the_same_join,
)


def built_join(config: Any, width: int = WIDTH) -> nn.Module:
    return stirred(config.build(size_of(width=width), generator=generator_for(0, "contract")))
