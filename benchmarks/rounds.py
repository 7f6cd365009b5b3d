"""Several sides timed in turn, so that a drift of the machine's speed meets all of them alike."""

import time
from collections.abc import Callable, Hashable, Sequence
from statistics import median
from typing import TypeVar

Side = TypeVar("Side", bound=Hashable)


def rounds(sides: dict[Side, Callable[[], object]], n: int) -> dict[Side, list[float]]:
    """Seconds that each side took, n times; a round more goes before, and each round begins with another side."""
    names, spent = list(sides), {name: [] for name in sides}
    for turn in range(n + 1):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            sides[name]()
            if turn:
                spent[name].append(time.perf_counter() - start)
    return spent


def ratio(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """(median, least, largest) of over / under, round by round."""
    each = [one / other for one, other in zip(over, under, strict=True)]
    return median(each), min(each), max(each)
