"""Several things timed in turn, so that a drift of the machine's speed meets all of them alike."""

import math
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Side = TypeVar("Side", bound=Hashable)


def in_turn(
    sides: Mapping[Side, Callable[[], object]], *, rounds: int, seconds: float = 0.0
) -> dict[Side, list[float]]:
    """Seconds that each side took, round by round; each round begins with another side.

    A machine's speed drifts with its load and its clock. Turns that follow each other meet nearly the same machine, so
    the ratio of two sides stays put where the times of either do not.

    Args:
        sides: called once a round; on a GPU they wait until it is done.
        rounds: that are counted, at least; one more goes before them.
        seconds: that the counted rounds take, at least.
    """
    names = list(sides)
    spent: dict[Side, list[float]] = {name: [] for name in names}
    turn, end = 0, math.inf
    while turn <= rounds or time.perf_counter() < end:
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            sides[name]()
            if turn:
                spent[name].append(time.perf_counter() - start)
        if turn == 0:
            end = time.perf_counter() + seconds
        turn += 1
    return spent
