"""What all figures have in common: colours, style, and how one becomes a file."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.errors import ConfigError
from partwise.records import write_file
from partwise.report import formats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = ("png", "pdf", "svg")
ENOUGH = 3  # seeds, from which on an interval is drawn
NOTE = 6.5  # points
LETTERS_AN_INCH = 20  # of a note
MARKERS = "os^DvP*X"  # with the colours, by line
# Okabe & Ito 2008, told apart by colour-blind readers; black last
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.axisbelow": True,
    "svg.hashsalt": "partwise",  # the same runs give the same file
    "svg.fonttype": "path",
}
DATELESS: dict[str, dict[str, Any]] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}


def kind_of(path: Path) -> str:
    """png, pdf or svg.

    Raises:
        ConfigError: the suffix is another.
    """
    kind = path.suffix.removeprefix(".").lower()
    if kind not in SUFFIXES:
        raise ConfigError(f"a figure ends in {', '.join(f'.{one}' for one in SUFFIXES)}, and {path.name} does not.")
    return kind


def save(make: Callable[[], Any], path: Path, note: str) -> Path:
    """Make a figure in our style, with a note below it, and write it; the same figure gives the same bytes."""
    kind = kind_of(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(STYLE):
        figure = make()
        if note:
            letters = int(figure.get_figwidth() * LETTERS_AN_INCH)
            figure.supxlabel("\n".join(textwrap.wrap(note, letters)), fontsize=NOTE, color="#666666", x=0.01, ha="left")
        FigureCanvasAgg(figure)
        write_file(path, lambda at: figure.savefig(at, format=kind, dpi=150, metadata=DATELESS[kind]))
    return path


def scaled(axes: "Axes", *, is_share: bool, from_zero: bool) -> None:
    """Shares from 0 to 1, other numbers from 0 to what was met; a little air above and below."""
    from matplotlib.ticker import FuncFormatter

    text = (lambda value, _: f"{value:.3g}") if is_share else (lambda value, _: formats.amount(value))
    axes.yaxis.set_major_formatter(FuncFormatter(text))
    if is_share:
        axes.set_ylim(-0.04, 1.06)
    elif from_zero:
        axes.set_ylim(bottom=-0.04 * axes.get_ylim()[1], top=1.04 * axes.get_ylim()[1])
    axes.grid(axis="y", color="#EEEEEE")
