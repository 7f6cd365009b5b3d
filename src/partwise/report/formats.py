"""How a number is written in a table."""

from collections.abc import Sequence

from partwise.report.cell import Cell

BELOW = "below floor"
SUFFIXES = ((1e24, "Y"), (1e21, "Z"), (1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def share(value: float) -> str:
    """.998, and 1.00 for one: three digits either way."""
    text = f"{value:.3f}"
    return text[:-1] if abs(float(text)) >= 1 else text.replace("0.", ".", 1)


def amount(value: float) -> str:
    """Three digits with a suffix: 61.2 k, 1.64 G; 2.98; 0."""
    scale, suffix = _scale(value)
    return f"{_digits(value / scale)}{suffix and ' ' + suffix}"


def number(value: float | None, cell: Cell) -> str:
    """A value in the way of the cell's metric; '–' if there is none."""
    return "–" if value is None else share(value) if cell.is_share else amount(value)


def mean(cell: Cell) -> str:
    """The mean, with an arrow where it still rises and a dagger where its steps are not standard's; 'diverged@120'
    where no run has a score."""
    if not cell.n:
        said = (("no score" if status == "done" else status, step) for status, step in cell.outcomes)
        return ", ".join(dict.fromkeys(f"{status}@{step}" if step else status for status, step in said))
    return number(cell.mean, cell) + ("↑" if cell.still_rising else "") + ("†" if cell.other_steps else "")


def spread(cell: Cell) -> str:
    """The interval, in the unit of the mean, with an r where it is the range; '' without."""
    if cell.ci_low is None or cell.ci_high is None or cell.mean is None:
        return ""
    mark = "r" if cell.interval == "range" else ""
    if cell.is_share:
        return f"{share(cell.ci_low)}–{share(cell.ci_high)}{mark}"
    scale, _ = _scale(cell.mean)  # one scale for all three, so that the suffix stands once, beside the mean
    return f"{_digits(cell.ci_low / scale)}–{_digits(cell.ci_high / scale)}{mark}"


def solved(cell: Cell) -> str:
    """'3/5', and with '(+1)' how many runs beside them have no score."""
    lost = f" (+{cell.n_failed})" if cell.n_failed and cell.n else ""
    return f"{cell.solved}/{cell.n}{lost}" if cell.n and cell.solved is not None else ""


def kept(cell: Cell) -> str:
    """'98 % [95, 99]': the retained share with its interval, r where that is the range; '' where it is not given."""
    if cell.retained is None:
        return ""
    if is_below_floor(cell):
        return BELOW
    low, high = cell.retained_low, cell.retained_high
    mark = "r" if cell.retained_interval == "range" else ""
    ends = "" if low is None or high is None else f" [{percent(low)}, {percent(high)}]{mark}"
    return f"{percent(cell.retained)} %{ends}"


def apart(cell: Cell) -> str:
    """'+.050 [.031, .069]': how far the score lies from standard's, with its interval; '' where it is not given."""
    if cell.difference is None:
        return ""
    low, high = cell.difference_low, cell.difference_high
    mark = "r" if cell.difference_interval == "range" else ""
    ends = "" if low is None or high is None else f" [{signed(low, plus='')}, {signed(high, plus='')}]{mark}"
    return f"{signed(cell.difference)}{ends}"


def signed(value: float, *, plus: str = "+") -> str:
    """'+.050', '−.012', three digits behind the point."""
    return f"{plus if value >= 0 else '−'}{share(abs(value))}"


def is_below_floor(cell: Cell) -> bool:
    """Whether an arm that is measured against standard keeps less than nothing, by its interval where it has one."""
    if cell.retained is None:
        return False
    return round(100 * (cell.retained if cell.retained_high is None else cell.retained_high)) < 0


def percent(value: float) -> str:
    """A share as whole percents, without a minus before zero."""
    return f"{round(value * 100)}".replace("-", "−")


def listed(names: Sequence[str], *, quoted: bool = True) -> str:
    """'a, b and c'; a name with a comma of its own in quotes."""
    names = [f"'{name}'" if quoted and "," in name else name for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _scale(value: float) -> tuple[float, str]:
    return next(((scale, suffix) for scale, suffix in SUFFIXES if abs(value) >= scale * 0.9995), (1.0, ""))


def _digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return "0" if value == 0 else f"{value:#.3g}".rstrip(".")
