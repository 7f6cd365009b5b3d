"""The marks and words of a table, explained; of each only if it occurs."""

from collections.abc import Iterable

from partwise.report import formats
from partwise.report.cell import Cell

# what a metric counts, where its name does not say it
METRICS = {
    "bits": "facts × (log2 of the number of values − mean cross-entropy in bits), at least 0",
    "bits_accuracy": "facts × log2 of the number of values × accuracy: the paper's count, which overstates",
    "bits_fano": "what accuracy alone proves to be held, by Fano's bound, at least 0",
    "hard_accuracy": "the mean of the accuracies on balanced strings and on those that counting cannot tell from them",
    "squared_error": "the mean squared error",
    "loss": "the mean cross-entropy of a scored token",
    "bits_per_byte": "the same of the whole text, in bits, over its bytes in UTF-8: no choice of tokens changes it",
    "perplexity": "e to the loss",
    "exact_match": "the share of examples of which every scored position is right",
}


COSTS = (
    "costs: trainable, parameters that learn at some time, of all (total); tokens, FLOPs and steps of training; lr, "
    "its peak rate"
)


def legend(cells: Iterable[Cell], *, details: bool = True) -> list[str]:
    """What a reader needs to read the table.

    Args:
        cells: those of the table.
        details: whether strata and counts beside the headline are shown too.
    """
    cells = list(cells)
    heads = [cell for cell in cells if cell.headline]
    costs = [COSTS] if details and heads else []
    return [*_marks(heads), *_limits(cells, heads, details), *_metrics(cells if details else heads), *costs]


def _marks(heads: list[Cell]) -> list[str]:
    scored = [cell for cell in heads if cell.n]
    is_range = any("range" in (cell.interval, cell.retained_interval) for cell in heads)
    marks = {
        "k/n: k of n scored runs solve it, closing 90 % of the way from floor to ceiling" + _wilson(scored): any(
            cell.solved is not None for cell in scored
        ),
        "(+l): l more runs diverged or failed, and have no score": any(cell.n_failed for cell in heads),
        "a–b: 95 % interval of the mean over seeds (Student t)": any(cell.interval == "t" for cell in heads),
        "r: the range of the seeds instead of an interval, as they are two, split into two groups, or lie within .02 "
        "of a bound": is_range,
        "keeps: (arm − floor) / (standard − floor), paired over seeds, with its 95 % interval; given where standard "
        "is solved": any(cell.retained is not None for cell in heads),
        "+d [a, b]: arm − standard, paired over seeds, with its 95 % interval; given where standard is better than the "
        "floor by a margin, as nobody knows the best score": any(cell.difference is not None for cell in heads),
        f"{formats.BELOW}: it keeps less than nothing, its mean lying below the floor": any(
            map(formats.is_below_floor, heads)
        ),
        "↑: still improves by more than 2 % over the last tenth of its steps": any(cell.still_rising for cell in heads),
        "†: trained for another number of steps than the standard arm beside it": any(
            cell.other_steps for cell in scored
        ),
        "diverged@s, failed@s: stopped at step s; no run has a score": any(not cell.n for cell in heads),
    }
    return [text for text, occurs in marks.items() if occurs]


def _wilson(scored: list[Cell]) -> str:
    """The interval of each k/n that occurs, from three runs on."""
    known: dict[str, tuple[float, float]] = {}
    for cell in sorted(scored, key=lambda cell: (cell.n, cell.solved or 0)):
        if cell.n >= 3 and cell.solved_low is not None and cell.solved_high is not None:
            known[f"{cell.solved}/{cell.n}"] = (cell.solved_low, cell.solved_high)
    listed = ", ".join(f"{name} {formats.share(low)}–{formats.share(high)}" for name, (low, high) in known.items())
    return listed and f"; 95 % (Wilson): {listed}"


def _limits(cells: list[Cell], heads: list[Cell], details: bool) -> list[str]:
    strata = [cell for cell in cells if cell.split != "test"] if details else []
    said = []
    if any(cell.floor is not None for cell in heads):
        said.append(
            "floor: the best predictor without the ability in question, on the same test examples; ceiling: the best "
            "that can be reached"
        )
    if strata:
        known = any(cell.floor is not None for cell in strata)
        floors = "its floor is the same predictor's, on these alone" if known else "floors are for the whole test set"
        said.append(f"n: how many scored test answers a column has; {floors}")
    if any(cell.paper is not None for cell in (cells if details else heads)):
        said.append(
            "paper: as published, at the sizes in brackets, which need not be ours; first-hand: read in the paper or "
            "its code; second-hand: in a summary of it"
        )
    return said


def _metrics(cells: list[Cell]) -> list[str]:
    shown = dict.fromkeys(cell.metric for cell in cells if cell.split == "test")
    return [f"{name}: {METRICS[name]}" for name in shown if name in METRICS]
