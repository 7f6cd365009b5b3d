"""Two sides timed in turn: A B, B A, A B, ...; what counts is the ratio within each pair."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from partwise.timing import in_turn

Kind = Literal["defaults", "like for like", "end to end", "many runs", "share", "start-up"]
Turn = Callable[[int], object]  # one side's share of pair 0, 1, ...; pair 0 is the warm-up


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the command line decides for all rows.

    Args:
        pairs: counted pairs of a row; rows of whole runs take at most 3.
        threads: of torch, for both sides.
        attention: of the peer, one of transformers' implementations.
    """

    pairs: int = 7
    threads: int = 1
    attention: str = "eager"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Medians over the pairs.

    Args:
        ours_ms: of one step, or of one run.
        peer_ms: the same of the peer; None where there is none.
        ratio: peer / ours; for a share, ours / peer.
        ratio_low: the least of any pair.
        ratio_high: the largest.
        precision: of our side; the peer's is float32. Empty where nothing is computed.
        pairs: how many counted.
        detail: what else was seen.
    """

    ours_ms: float
    peer_ms: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    precision: str
    pairs: int
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One row of the table, before it is measured.

    Args:
        name: what both sides do.
        kind: under which conditions, and which way the goal lies (`met`).
        goal: a ratio to reach; for a share, one to stay under; for a start-up, milliseconds to stay under.
        measure: does it.
    """

    name: str
    kind: Kind
    goal: float
    measure: Callable[[Setting], Measured]

    def met(self, found: Measured) -> bool:
        """Whether the goal is reached."""
        if self.kind == "start-up":
            return found.ours_ms < self.goal
        assert found.ratio is not None
        return found.ratio < self.goal if self.kind == "share" else found.ratio >= self.goal

    def row(self, found: Measured) -> dict[str, Any]:
        """As it stands in latest.json."""
        plain = {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(found).items()}
        return {"name": self.name, "kind": self.kind, "goal": self.goal, "met": self.met(found)} | plain


def interleaved(ours: Turn, peer: Turn, *, pairs: int, each: int = 1, precision: str = "float32") -> Measured:
    """Time both sides in turn, the first of a pair being the second of the next.

        ratio = median over pairs of peer / ours

    Args:
        ours: called with the number of the pair.
        peer: likewise.
        pairs: that count; one more goes before them.
        each: steps a turn takes; times are of one.
        precision: for the row.
    """
    our_turns, peer_turns = map(ours, itertools.count()), map(peer, itertools.count())
    spent = in_turn({"peer": lambda: next(peer_turns), "ours": lambda: next(our_turns)}, rounds=pairs)
    middle, low, high = ratio(spent["peer"], spent["ours"])
    return Measured(
        ours_ms=1e3 * median(spent["ours"]) / each,
        peer_ms=1e3 * median(spent["peer"]) / each,
        ratio=middle,
        ratio_low=low,
        ratio_high=high,
        precision=precision,
        pairs=pairs,
    )


def ratio(over: Sequence[float], under: Sequence[float]) -> tuple[float, float, float]:
    """(median, least, largest) of over / under, round by round."""
    each = [one / other for one, other in zip(over, under, strict=True)]
    return median(each), min(each), max(each)
