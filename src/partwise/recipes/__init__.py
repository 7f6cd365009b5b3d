"""Named sets of experiments, one file each: a question, where it comes from, and what to expect.

A recipe has `scales` and `tasks`, and may have tasks `on_request`, which run only when they are named (`--only`): they
take long, or need what the base install does not bring. `experiments(scale, only=..., n_seeds=...)` gives plain
experiments, `grids(scale)` the rates to choose from where a scale chooses them first (selection.py), and
`base(task, arch)` what `partwise run` starts from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from partwise.errors import UnknownName, did_you_mean
from partwise.registry import Registry


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One size of a recipe.

    Args:
        summary: for whom, and how long.
        seeds: how many are reported.
        cannot_tell: what nobody should read out of it.
    """

    summary: str
    seeds: int
    cannot_tell: tuple[str, ...] = field(default=())


@runtime_checkable
class Recipe(Protocol):
    """What `partwise reproduce` needs of a recipe."""

    scales: ClassVar[dict[str, Scale]]
    tasks: ClassVar[tuple[str, ...]]

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Any]: ...

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Any]: ...

    def base(self, task: str, arch: str = "standard") -> Any: ...


def tasks_of(recipe: Recipe) -> tuple[str, ...]:
    """Every task that the recipe has, those on request last."""
    return (*recipe.tasks, *getattr(recipe, "on_request", ()))


RECIPES = Registry("recipe", package=__name__)


def chosen(kind: str, asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """What was asked for, or all of it.

    Raises:
        UnknownName: one of them is not known.
    """
    for name in asked:
        if name not in known:
            raise UnknownName(
                f"no {kind} here is called {name!r}.{did_you_mean(name, known)} There are: {', '.join(known)}."
            )
    return [name for name in known if not asked or name in asked]
