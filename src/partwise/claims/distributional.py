"""What Chen, Bruna, Bietti 2024 (arXiv:2406.03068) claim of noisy in-context recall, and what a reader would ask.

Their numbers are second-hand: a review of the paper's text; the model and task are those of its released code, smaller.
"""

from partwise.claims.claim import NOT_RUN, OPEN, Claim, Finding, Judge, Study
from partwise.claims.judges import answer, number
from partwise.report.cell import Cell
from partwise.report.verdict import ENOUGH

STUDY = "distributional-small"
FIRST, LAST, ATTENTION = (
    "without blocks.0.channel_mixer",
    "without blocks.1.channel_mixer",
    "without blocks.1.token_mixer",
)
NEAR = 0.05  # of alpha: what "about alpha" means here


def _cell(study: Study, quantity: str, under: str, *, arm: str = "standard", noise: float = 0.5) -> Cell | None:
    """One trigger; None where there is no such cell."""
    wanted = {"task.noise": noise, "task.n_triggers": 1}
    found = (
        cell
        for cell in study.cells
        if (cell.metric, cell.split, cell.architecture) == (quantity, f"test/under={under}", arm)
        and all(cell.experiment.get(path) == value for path, value in wanted.items())
        and cell.n
    )
    return next(found, None)


def about_alpha(noise: float) -> Judge:
    """The whole model says noise as often as it comes: the interval lies within .05 of alpha; contradicted where it
    lies outside."""

    def judge(study: Study) -> Finding:
        cell = _cell(study, "p_noise", "whole", noise=noise)
        if cell is None:
            return Finding("–", NOT_RUN, f"no such runs are in {study.name}")
        ours = f"p(noise) {number(cell)} at alpha = {noise:g}"
        if cell.n < ENOUGH or cell.ci_low is None or cell.ci_high is None:
            return Finding(ours, OPEN, "too few seeds")
        if noise - NEAR <= cell.ci_low and cell.ci_high <= noise + NEAR:
            return Finding(ours, "confirmed", f"within {NEAR} of alpha")
        if cell.ci_high < noise - NEAR or cell.ci_low > noise + NEAR:
            return Finding(ours, "contradicted", f"farther than {NEAR} from alpha")
        return Finding(ours, OPEN, f"the interval straddles {NEAR} from alpha")

    return judge


def moves(quantity: str, under: str, way: str) -> Judge:
    """The edit makes the number `less` or `more` than in the whole model, surely: by intervals that do not overlap."""

    def judge(study: Study) -> Finding:
        whole, edited = _cell(study, quantity, "whole"), _cell(study, quantity, under)
        if whole is None or edited is None:
            return Finding("–", NOT_RUN, f"no such runs are in {study.name}")
        ours = f"whole {number(whole)}, {under} {number(edited)}"
        ends = (whole.ci_low, whole.ci_high, edited.ci_low, edited.ci_high)
        if min(whole.n, edited.n) < ENOUGH or None in ends:
            return Finding(ours, OPEN, "too few seeds")
        low, high, edited_low, edited_high = (end or 0.0 for end in ends)
        less, more = edited_high < low, edited_low > high
        if less or more:
            return Finding(ours, "confirmed" if less == (way == "less") else "contradicted", "the intervals are apart")
        return Finding(ours, OPEN, "the intervals overlap")

    return judge


def reaches(quantity: str, under: str, least: float) -> Judge:
    """The number is at least so high under the edit, surely; contradicted where it is surely lower."""

    def judge(study: Study) -> Finding:
        cell = _cell(study, quantity, under)
        if cell is None:
            return Finding("–", NOT_RUN, f"no such runs are in {study.name}")
        ours = f"{under} {number(cell)}"
        if cell.n < ENOUGH or cell.ci_low is None or cell.ci_high is None:
            return Finding(ours, OPEN, "too few seeds")
        if cell.ci_low >= least:
            return Finding(ours, "confirmed", f"at least {least:g}")
        if cell.ci_high < least:
            return Finding(ours, "contradicted", f"below {least:g}")
        return Finding(ours, OPEN, f"the interval straddles {least:g}")

    return judge


def _without_feed_forward(study: Study) -> str:
    """What is said where no feed-forward learns."""
    parts = []
    for arm in ("standard", "frozen_feed_forward", "linear_feed_forward", "parallel", "no_feed_forward"):
        cells = [_cell(study, quantity, "whole", arm=arm) for quantity in ("p_noise", "p_correct")]
        if cells[0] is not None and cells[1] is not None:
            parts.append(f"{arm} p(noise) {number(cells[0])}, p(correct) {number(cells[1])}")
    return "; ".join(parts)


ABOUT = "Noisy in-context recall, alpha = .5, one trigger"
CLAIMS: list[Claim] = [
    Claim(
        about=ABOUT,
        claim="The whole model says noise about as often as it comes",
        paper="about alpha",
        status="second-hand",
        study=STUDY,
        judge=about_alpha(0.5),
    ),
    Claim(
        about=ABOUT,
        claim="Without the last feed-forward it says noise less",
        paper="in words",
        status="second-hand",
        study=STUDY,
        judge=moves("p_noise", LAST, "less"),
    ),
    Claim(
        about=ABOUT,
        claim="Without the last feed-forward it recalls the right token at clean positions",
        paper="accuracy about .98",
        status="second-hand",
        study=STUDY,
        judge=reaches("clean_accuracy", LAST, 0.95),
    ),
    Claim(
        about=ABOUT,
        claim="Feed-forwards hold the noise: without the first one, too, it says noise less",
        paper="in words, of feed-forwards as such",
        status="second-hand",
        study=STUDY,
        judge=moves("p_noise", FIRST, "less"),
    ),
    Claim(
        about=ABOUT,
        claim="Without the last attention it does not recall",
        paper="in words",
        status="second-hand",
        study=STUDY,
        judge=moves("p_correct", ATTENTION, "less"),
    ),
    Claim(
        about="What readers ask of noisy recall",
        claim="Does a model without a feed-forward that learns say less noise?",
        paper="",
        status="not known",
        study=STUDY,
        judge=answer(_without_feed_forward),
    ),
]
