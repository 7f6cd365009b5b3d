"""The page of claims, in Markdown."""

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from partwise.claims import distributional, mixit
from partwise.claims.claim import Claim, Finding, Study
from partwise.errors import DamagedFile

PAPERS: dict[str, list[Claim]] = {
    "Attention Retrieves, MLP Memorizes (Dong, Noci, Khodak, Li 2025, arXiv:2506.01115)": mixit.CLAIMS,
    "Distributional Associations vs In-Context Reasoning (Chen, Bruna, Bietti 2024, arXiv:2406.03068)": (
        distributional.CLAIMS
    ),
}
RULES = """\
Generated from the records beside it by `partwise claims`; nothing is written by hand.

- *confirmed*, *contradicted*: what was measured here surely agrees with the claim, or surely does not, by the 95 %
  interval over seeds of what an arm keeps of standard's gain over the floor. "As well as standard" asks for 90 %; "does
  not" for at most 25 % and no seed that solves the task (90 % of the way from floor to ceiling).
- *not resolvable at this scale*: the interval straddles that border, the seeds split, an arm does it in part, standard
  itself fails, an arm still rises fast enough to change the verdict in as many steps again, or an arm that fails is
  narrower than the claim says. A verdict holds at the sizes of its study, and these are smaller than the paper's.
- In square brackets stands the interval (r: the range of the seeds); the paper's numbers come with how they are known.
"""


def page(results: Path) -> str:
    """Every claim of every paper, judged by the folders of runs below `results`.

    Raises:
        DamagedFile: there is no such folder, no study is in it, or a record cannot be read.
    """
    if not results.is_dir():
        raise DamagedFile(f"there is no folder {results}.")
    named = dict.fromkeys(claim.study for claims in PAPERS.values() for claim in claims)
    if not any((results / name / "runs").is_dir() for name in named):
        raise DamagedFile(
            f"no study is in {results}: claims are judged by runs in folders named {', '.join(sorted(named))}, as "
            "`partwise reproduce ... --out` makes them (small: `reproduce mixit --scale small`)."
        )
    studies = {name: Study.read(results / name) for name in named}
    lines = ["# Claims, and what was found", "", RULES]
    for paper, claims in PAPERS.items():
        own = dict.fromkeys(claim.study for claim in claims)
        judged = [(claim, claim.judge(studies[claim.study])) for claim in claims]
        lines += [f"## {paper}", "", _summary(judged), ""]
        lines += ["### The runs", "", *(f"- {name}: {studies[name].about}." for name in own), ""]
        for about, members in itertools.groupby(judged, key=lambda pair: pair[0].about):
            lines += _section(about, list(members), {name for name, study in studies.items() if study.cells})
    return "\n".join(lines).rstrip() + "\n"


def _summary(judged: Iterable[tuple[Claim, Finding]]) -> str:
    """'20 claims: 9 confirmed, ...'."""
    counts = Counter(finding.verdict for _, finding in judged if finding.verdict)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return f"{sum(counts.values())} claims: {told}."


def _section(about: str, members: list[tuple[Claim, Finding]], there: set[str]) -> list[str]:
    questions = not any(claim.paper for claim, _ in members)
    head = ["question", "answer", "runs"] if questions else ["claim", "paper", "ours", "verdict", "why", "runs"]
    lines = [f"### {about}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for claim, found in members:
        runs = f"[{claim.study}]({claim.study}/table.md)" if claim.study in there else claim.study
        paper = f"{claim.paper} ({claim.status})"
        row = [claim.claim, found.ours, runs]
        if not questions:
            row = [claim.claim, paper, found.ours, f"**{found.verdict}**", found.why, runs]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |")
    return [*lines, ""]
