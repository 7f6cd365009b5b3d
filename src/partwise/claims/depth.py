"""Claims on models as drawn, judged by what the probe `propagation` saw, and on theory, judged by its checks."""

from partwise.claims.claim import NOT_RUN, OPEN, Finding, Judge, Study
from partwise.report import formats
from partwise.report.depth import curves
from partwise.report.verdict import ENOUGH

SHALLOW, DEEP = 2, 32  # blocks, those of the paper's table
ALIKE = 0.1  # a correlation that rises by so much is a beginning of collapse


def becomes_alike(arm: str) -> Judge:
    """From 2 to 32 blocks the mean correlation of tokens rises by .1 at least, in each draw."""
    return _compared(arm, rises=True)


def stays_apart(arm: str) -> Judge:
    """From 2 to 32 blocks the mean correlation of tokens rises by less than .1, in each draw."""
    return _compared(arm, rises=False)


def _compared(arm: str, *, rises: bool) -> Judge:
    def judge(study: Study) -> Finding:
        drawn = [record for record in study.as_drawn if record.architecture == arm]
        if not drawn:
            return _missing(study)
        ends = []
        for record in drawn:
            (curve,) = curves([record], "correlation").values()
            ends.append((curve[SHALLOW], curve[DEEP]))
        ours = "; ".join(f"{formats.share(a)} with {SHALLOW} blocks, {formats.share(b)} with {DEEP}" for a, b in ends)
        ours = f"mean correlation of two tokens: {ours}"
        if len(drawn) < ENOUGH:
            return Finding(ours, OPEN, f"{len(drawn)} draws are too few")
        risen = [deep - shallow >= ALIKE for shallow, deep in ends]
        said = f"it rises by {formats.share(ALIKE)} at least in {sum(risen)} of {len(risen)} draws"
        if any(risen) != all(risen):
            return Finding(ours, OPEN, said)
        return Finding(ours, "confirmed" if all(risen) == rises else "contradicted", said)

    return judge


def lines_hold(check: str, about: str) -> Judge:
    """All lines of a check whose heading begins so hold."""

    def judge(study: Study) -> Finding:
        lines = [line for line in study.lines.get(check, []) if line["about"].startswith(about)]
        if not lines:
            return _missing(study)
        held = sum(line["holds"] for line in lines)
        ours = f"{held} of {len(lines)} lines of `partwise check theory --only {check}` hold"
        failed = "; ".join(f"{line['about']}: {line['what']}" for line in lines if not line["holds"])
        why = f"beyond tolerance: {failed}" if failed else "within the tolerances that the check states"
        return Finding(ours, "contradicted" if failed else "confirmed", why)

    return judge


def border(study: Study) -> str:
    """What an MLP that learns gets out of random mixing, by tokens and width."""
    lines = [line for line in study.lines.get("expressivity", []) if line["about"].startswith("MixiT's mixing")]
    said = {line["what"].removesuffix(", no more than before"): line["measured"] for line in lines}
    parts = ", ".join(f"{what} {formats.share(value)}" for what, value in said.items())
    return parts and f"Its error over that of the plain mean of the values: {parts}"


def _missing(study: Study) -> Finding:
    return Finding("–", NOT_RUN, f"no such runs are in {study.name}")
