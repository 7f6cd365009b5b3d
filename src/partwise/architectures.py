"""Architectures are data: which parts a model has, and what of it learns.

`mixit` is `standard` with the token mixer swapped and nothing else (mixit.md 1.6); a frozen mixing matrix cannot tell
positions by content or by rotation, so it comes with learned positions, an axis of their own (`model.positions`).
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from partwise.configs import from_plain, hints
from partwise.errors import ConfigError, UnknownName, did_you_mean
from partwise.model import ModelConfig
from partwise.parts import AllBut, LearnRule, Only
from partwise.token_mixers import TOKEN_MIXERS


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A named change to a base model, and a learn rule.

    Args:
        summary: one line for `partwise list`.
        parts: fields of ModelConfig to set. A token or channel mixer given by name takes over the base's settings of
            the same name (n_heads, bias, hidden), so that nothing but the mixer differs.
        learn: what learns.
    """

    summary: str
    parts: dict[str, Any] = field(default_factory=dict)
    learn: LearnRule = AllBut()

    def model(self, base: ModelConfig) -> ModelConfig:
        """The base with this architecture's parts put in."""
        made = {}
        for slot, part in self.parts.items():
            kind = hints(ModelConfig)[slot]
            new = from_plain(kind, part, at=f"model.{slot}")
            made[slot] = _taking_over(new, getattr(base, slot)) if isinstance(part, str) else new
        if "token_mixer" in made and any(block.token_mixer is not None for block in base.blocks):
            raise ConfigError("this architecture sets the token mixer, and the base model's blocks set their own.")
        return dataclasses.replace(base, **made)


def _taking_over(new: Any, old: Any) -> Any:
    """The new part with the old one's settings of the same name; a leaf (positions) as it is."""
    if not hasattr(new, "registered_name"):
        return new
    names = [field.name for field in dataclasses.fields(new)]
    return dataclasses.replace(new, **{name: getattr(old, name) for name in names if hasattr(old, name)})


_CATALOGUE: dict[str, Architecture] = {}


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

    Raises:
        UnknownName: there is none; with the nearest.
    """
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    if name in TOKEN_MIXERS.names():
        return Architecture(summary=TOKEN_MIXERS.summary(name), parts={"token_mixer": name})
    known = [*_CATALOGUE, *TOKEN_MIXERS.names()]
    raise UnknownName(
        f"no architecture is called {name!r}.{did_you_mean(name, known)} There are: {', '.join(_CATALOGUE)};"
        f" and each token mixer's name: {', '.join(TOKEN_MIXERS.names())}."
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
