"""A claim, what is found of it, and the runs that it is judged by."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from partwise.errors import ConfigError
from partwise.records import RunRecord, read_as_drawn, read_json, read_records
from partwise.report.cell import Cell
from partwise.report.cells import cells
from partwise.report.origin import origin

Verdict = Literal["confirmed", "contradicted", "not resolvable at this scale", "not run"]
OPEN: Verdict = "not resolvable at this scale"
NOT_RUN: Verdict = "not run"
THEORY = "theory"  # folder of checks, in a folder of results


@dataclass(frozen=True)
class Finding:
    """What the runs say of a claim.

    Args:
        ours: numbers, with interval and how many seeds solve it.
        verdict: of the claim; None for a question, which has an answer and no verdict.
        why: what the verdict rests on, and what else one must know.
    """

    ours: str
    verdict: Verdict | None
    why: str


@dataclass(frozen=True)
class Study:
    """The runs of one folder of results, as cells; and what was seen without training.

    Args:
        name: of the folder.
        cells: headlines, other metrics and strata.
        about: how many runs, minutes, when, on what machine.
        as_drawn: models that nobody trained.
        lines: of the checks in its folder `theory`, by the check's name.
    """

    name: str
    cells: list[Cell] = field(default_factory=list)
    about: str = "not run yet"
    as_drawn: list[RunRecord] = field(default_factory=list)
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Study":
        """The folder's runs; none where it is not there yet."""
        drawn = read_as_drawn(folder)
        lines = {path.stem: read_json(path) for path in sorted((folder / THEORY).glob("*.json"))}
        if not (folder / "runs").is_dir():
            said = [f"{len(drawn)} models as drawn"] if drawn else []
            said += [f"{len(found)} lines of the check {name}" for name, found in lines.items()]
            return cls(folder.name, about=", ".join(said) or "not run yet", as_drawn=drawn, lines=lines)
        records = read_records(folder)
        return cls(folder.name, cells(records), origin(records), drawn, lines)

    def find(self, task: str, architecture: str, metric: str = "", **settings: Any) -> Cell | None:
        """The one cell on the whole test set with these fields (paths with __ for the dots).

        None where there is none, or none of its runs has a score.

        Raises:
            ConfigError: several agree.
        """
        wanted = {path.replace("__", "."): value for path, value in settings.items()}
        found = [
            cell
            for cell in self.cells
            if (cell.task, cell.architecture, cell.split) == (task, architecture, "test")
            and (cell.metric == metric if metric else cell.headline)
            and all(cell.experiment.get(path) == value for path, value in wanted.items())
            and cell.n
        ]
        if len(found) > 1:
            raise ConfigError(f"{self.name}: {len(found)} cells are {task} {architecture} {metric} {settings}.")
        return found[0] if found else None


Judge = Callable[[Study], Finding]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of a paper, or a question of its readers.

    Args:
        about: the heading that it stands under.
        claim: in our words.
        paper: its value, or "in words"; "" for a question that it leaves open.
        status: how we know that.
        study: the folder of results that it is judged by.
        judge: what is found there.
    """

    about: str
    claim: str
    paper: str
    status: Literal["first-hand", "second-hand", "not known"]
    study: str
    judge: Judge
