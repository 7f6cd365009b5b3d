"""Architectures are data: which parts a model has, and what of it learns.

`mixit` is `standard` with the token mixer swapped and nothing else (mixit.md 1.6); a frozen mixing matrix cannot tell
positions by content or by rotation, so it comes with learned positions, an axis of their own (`model.positions`).

Blocks that differ are a pattern, repeated to the model's depth. As data, with whatever else goes into a block:

    Architecture(summary="...", parts={"blocks": [{"token_mixer": "random_mixing"}, {"token_mixer": "attention"}]})

and by name, the token mixers joined by a plus: attention only in block 2 of four is
`random_mixing+random_mixing+attention+random_mixing`.

The `published` ones keep what only the published code has (princeton-pli/MixiT 22ce029; mixit.md 1.1-1.5), each a
setting that can be turned back by itself:

    linear_std, embed_std     .02 at every width
    base_width                sqrt(512 / width) on each linear map's output, bias included
    shaped_mlp base_hidden    1.0, a feed-forward that starts nearly dead
    random_mixing sink        head 0 reads itself and the first position
    join s, r                 sqrt(.5) each; .5 and .866 in its language models
    shaped_attention tau      sqrt(head width) * width / 512

Its second regime, depth_alpha != 0, is `--set model.join=depth_scaled`, and in mixit_published also
`--set model.token_mixer.identity=false --set model.token_mixer.std=row`.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from partwise.configs import from_plain, hints
from partwise.errors import ConfigError, UnknownName, did_you_mean
from partwise.model import BlockConfig, ModelConfig
from partwise.parts import AllBut, LearnRule, Only
from partwise.registry import name_of
from partwise.token_mixers import TOKEN_MIXERS


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A named change to a base model, and a learn rule.

    Args:
        summary: one line for `partwise list`.
        parts: fields of ModelConfig to set. A part given as plain data, by name or as {"name": ..., a few settings},
            takes over the base's settings of the same name (n_heads, bias, hidden) where it says nothing of them, so
            that nothing but the mixer differs; so do the parts of `blocks`. A config is put in as it is.
        learn: what learns.
    """

    summary: str
    parts: dict[str, Any] = field(default_factory=dict)
    learn: LearnRule = AllBut()

    def model(self, base: ModelConfig) -> ModelConfig:
        """The base with this architecture's parts put in, and at least as deep as the `blocks` that it names.

        Raises:
            ConfigError: it sets what the base's own blocks set.
        """
        for slot in self.parts:
            if slot == "blocks" and base.blocks:
                raise ConfigError("this architecture sets the blocks, and the base model has its own.")
            if any(getattr(block, slot, None) is not None for block in base.blocks):
                what = slot.replace("_", " ")
                raise ConfigError(f"this architecture sets the {what}, and the base model's blocks set their own.")
        made = _made(ModelConfig, self.parts, base, at="model")
        if "blocks" in made:
            made["n_blocks"] = max(made.get("n_blocks", base.n_blocks), len(made["blocks"]))
        return dataclasses.replace(base, **made)


def _made(cls: type, parts: dict[str, Any], base: ModelConfig, at: str) -> dict[str, Any]:
    """Fields of a ModelConfig, or of one of its BlockConfigs, from plain data and from what the base has there."""
    made = {}
    for slot, part in parts.items():
        new = from_plain(hints(cls)[slot], part, at=f"{at}.{slot}")
        if slot == "blocks":
            made[slot] = tuple(
                BlockConfig(**_made(BlockConfig, block, base, at=f"{at}.blocks.{index}"))
                if isinstance(block, dict)
                else block
                for index, block in enumerate(part)
            )
        else:
            made[slot] = _taking_over(new, part, getattr(base, slot))
    return made


def _taking_over(new: Any, part: Any, old: Any) -> Any:
    """The new part with the old one's settings of the same name, but those that its plain data `part` gives."""
    if not hasattr(new, "registered_name") or not isinstance(part, (str, dict)):
        return new
    given = part.keys() if isinstance(part, dict) else ()
    names = [field.name for field in dataclasses.fields(new) if field.name not in given]
    return dataclasses.replace(new, **{name: getattr(old, name) for name in names if hasattr(old, name)})


_CATALOGUE: dict[str, Architecture] = {}


def label_of(model: ModelConfig, learn: LearnRule) -> str:
    """What a table calls a model and a rule that have no name: the architecture that they amount to, or words."""
    mixers = [name_of(model.block(index).token_mixer) for index in range(model.n_blocks)]
    for name, known in _CATALOGUE.items():
        swaps = {"token_mixer", "blocks"} & known.parts.keys()
        if known.learn == learn and (swaps or set(mixers) == {"attention"}) and _amounts_to(model, known):
            return name
    mixer = mixers[0] if len(set(mixers)) == 1 else "+".join(mixers)
    return mixer if learn == AllBut() else f"{mixer}, {_rule_in_words(learn)}"


def _amounts_to(model: ModelConfig, known: Architecture) -> bool:
    """Whether the architecture's parts are all there already."""
    try:
        return known.model(model) == model
    except ConfigError:
        return False


def _rule_in_words(learn: LearnRule) -> str:
    if not isinstance(learn, (Only, AllBut)):
        return repr(learn)
    kind = "only" if isinstance(learn, Only) else "frozen"
    return " ".join([kind, *(pattern.rsplit(".", 1)[-1] for pattern in learn.patterns)])


def register_architecture(name: str, architecture: Architecture) -> Architecture:
    """List an architecture under a name; a plug-in may call it.

    Raises:
        ValueError: the name is taken.
    """
    if name in _CATALOGUE:
        raise ValueError(f"two architectures are called {name!r}.")
    _CATALOGUE[name] = architecture
    return architecture


def architecture(name: str) -> Architecture:
    """The architecture of that name; a token mixer's name stands for `standard` with that mixer, everything learning.

    Names of token mixers joined by a plus stand for blocks with these in turn, repeated to the model's depth.

    Raises:
        UnknownName: there is none; with the nearest.
    """
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    mixers, known = name.split("+"), TOKEN_MIXERS.names()
    if name in known:
        return Architecture(summary=TOKEN_MIXERS.summary(name), parts={"token_mixer": name})
    if all(mixer in known for mixer in mixers):
        return Architecture(
            summary=f"Blocks with {', '.join(mixers)}, repeated; all learns.",
            parts={"blocks": [{"token_mixer": mixer} for mixer in mixers]},
        )
    if len(mixers) > 1:
        TOKEN_MIXERS[next(mixer for mixer in mixers if mixer not in known)]  # raises, with the nearest mixer
    raise UnknownName(
        f"no architecture is called {name!r}.{did_you_mean(name, [*_CATALOGUE, *known])}"
        f" There are: {', '.join(_CATALOGUE)}; and each token mixer's name: {', '.join(known)}."
    )


def architectures() -> Iterator[tuple[str, Architecture]]:
    """All, in the order of the paper's table."""
    yield from _CATALOGUE.items()


QK = ("blocks.*.token_mixer.query", "blocks.*.token_mixer.key")
VO = ("blocks.*.token_mixer.value", "blocks.*.token_mixer.out")

register_architecture("standard", Architecture(summary="Everything learns."))
register_architecture(
    "frozen_qk", Architecture(summary="Queries and keys stay as drawn; all else learns.", learn=AllBut(*QK))
)
register_architecture(
    "frozen_mlp",
    Architecture(summary="The feed-forward stays as drawn; all else learns.", learn=AllBut("blocks.*.channel_mixer")),
)
register_architecture(
    "mixit",
    Architecture(
        summary="A random fixed mixing matrix in place of attention, with learned positions; all else learns.",
        parts={"token_mixer": "random_mixing", "positions": "learned"},
    ),
)
register_architecture(
    "embeddings_only",
    Architecture(
        summary="Only embedding, positions and unembedding learn (Zhong & Andreas 2024, arXiv:2410.04368).",
        learn=Only("embed", "positions?", "unembed"),
    ),
)
register_architecture(
    "norms_only",
    Architecture(
        summary="Only the gains of the norms learn (after Frankle et al. 2021, arXiv:2003.00152).",
        learn=Only("blocks.*.norm_1", "blocks.*.norm_2", "final_norm"),
    ),
)
register_architecture(
    "frozen_vo", Architecture(summary="Values and outputs stay as drawn; all else learns.", learn=AllBut(*VO))
)
register_architecture(
    "interleaved",
    Architecture(
        summary="Random fixed mixing and attention by turns, with learned positions; all learns.",
        parts={
            "blocks": [{"token_mixer": "random_mixing"}, {"token_mixer": "attention"}],
            "positions": "learned",
        },
    ),
)

# Sizes (heads, hidden width, depth, width) are the base's; all else is as published.
PUBLISHED = {
    "norm": "rms",
    "order": "sequential",
    "final_norm": "rms",
    "tied": False,
    "embed_std": 0.02,
    "unembed_std": 0.02,
    "linear_std": 0.02,
}
PUBLISHED_SHAPED = {
    **PUBLISHED,
    "channel_mixer": {
        "name": "shaped_mlp",
        "c_plus": 0.0,
        "c_minus": -1.0,
        "gated": True,
        "base_hidden": 1.0,
        "bias": True,
    },
    "join": {"name": "scaled", "s": 0.5**0.5, "r": 0.5**0.5},
    "base_width": 512,
}
PUBLISHED_HEADS = {"n_kv_heads": None, "rope": True, "rope_base": 10_000.0, "qk_scale": 1.0, "bias": True}

register_architecture(
    "standard_published",
    Architecture(
        summary="The standard model as MixiT's code has it: all weights start at sd .02; all learns.",
        parts={
            **PUBLISHED,
            "token_mixer": {"name": "attention", **PUBLISHED_HEADS},
            "channel_mixer": {"name": "gated_mlp", "activation": "silu", "bias": True},
            "join": "add",
            "positions": "none",
            "base_width": None,
        },
    ),
)
register_architecture(
    "mixit_published",
    Architecture(
        summary="MixiT as its code has it, with sink head, shaped feed-forward and weighted residual; all learns.",
        parts={
            **PUBLISHED_SHAPED,
            "token_mixer": {"name": "random_mixing", "std": None, "identity": True, "sink": True, "bias": True},
            "positions": "learned",
        },
    ),
)
register_architecture(
    "shaped_published",
    Architecture(
        summary="Shaped attention and feed-forward as MixiT's code has them, with weighted residual; all learns.",
        parts={
            **PUBLISHED_SHAPED,
            "token_mixer": {
                "name": "shaped_attention",
                "tau0": 1.0,
                "tau": "published",
                "base_width": 512,
                **PUBLISHED_HEADS,
            },
            "positions": "none",
        },
    ),
)
