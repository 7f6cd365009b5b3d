"""Predictions beside measurements, one file a theory; `partwise check theory` runs them.

A check's `run()` yields what it finds as soon as it is found: `Line`s, each a prediction, a measurement and how far
apart they may be, and `Chart`s. Everything random comes from `generator_for(seed, ...)`: a check says the same each time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from partwise.registry import Registry

Relation = Literal["=", "<=", ">="]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One prediction beside one measurement.

    Args:
        about: what several lines have in common, such as the network; printed once, above them.
        what: the quantity.
        predicted: by the theory, or the bound of a relation.
        measured: on the finite model.
        tolerance: how far `measured` may lie from `predicted`, or beyond the bound.
        because: where the tolerance is from, such as "3 standard errors".
        relation: what `measured` is to `predicted`.
    """

    about: str
    what: str
    predicted: float
    measured: float
    tolerance: float
    because: str = ""
    relation: Relation = "="

    @property
    def holds(self) -> bool:
        """False as well where something is not a number."""
        beyond = self.measured - self.predicted
        beyond = abs(beyond) if self.relation == "=" else beyond if self.relation == "<=" else -beyond
        return beyond <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure that a check has made: the stem of its file, and what draws it (with matplotlib, when it is called)."""

    name: str
    draw: Callable[[], Any]


@runtime_checkable
class Check(Protocol):
    """The config of a check: a frozen dataclass."""

    def run(self) -> Iterator[Line | Chart]: ...


CHECKS = Registry("check", package=__name__)
