"""Arms that stand side by side: a table's row, a figure's panel, a verdict's subject."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from partwise.report.cell import STANDARD, Cell, canonical
from partwise.report.cells import reference
from partwise.report.settings import disagreements, identity, in_words, sizes


@dataclass
class Group:
    """The arms of one task at one setting.

    Args:
        task: registered name.
        settings: what varies, as the group's first arm has it (standard, if it is there).
        arms: architecture to its headline cell.
        details: every other cell of these arms.
    """

    task: str
    settings: dict[str, Any]
    arms: dict[str, Cell] = field(default_factory=dict)
    details: list[Cell] = field(default_factory=list)

    @property
    def label(self) -> str:
        """'n_pairs=8': what tells it from the task's other groups; '' if it is the only one."""
        return in_words(self.settings)

    @property
    def sizes(self) -> dict[str, Any]:
        """The task's own fields, as far as all arms have them in common."""
        return sizes([cell.experiment for cell in self.arms.values()])

    @property
    def scope(self) -> str:
        """'n_pairs=8, width 64': the sizes without which a sentence on this group says too much, in short: the task's
        first field, what it has a number of, and what varies in it."""
        found = self.sizes
        named = {key: found[key] for i, key in enumerate(found) if not i or ".n_" in key or key in self.settings}
        width = next((cell.experiment.get("model.width") for cell in self.arms.values()), None)
        return ", ".join([*([in_words(named)] if named else []), *([f"width {width}"] if width else [])])

    @property
    def standard(self) -> Cell | None:
        """The arm in which everything learns."""
        return self.arms.get(STANDARD)

    @property
    def any_arm(self) -> Cell:
        """An arm to read the metric from: the first that has a score, if one has."""
        return next((cell for cell in self.arms.values() if cell.n), next(iter(self.arms.values())))


def groups(cells: Iterable[Cell]) -> list[Group]:
    """Put cells side by side. An arm stands with the standard arm that agrees with it in all that varies in either
    (the learn rule aside, which is the arm's own); one that agrees with none has a row of its own."""
    cells = list(cells)
    headlines = [cell for cell in cells if cell.headline]
    found: dict[str, Group] = {}
    home: dict[str, str] = {}
    for cell in headlines:
        settings = _row(cell, reference(cell, headlines))
        key = identity([cell.task, settings])
        if key in found and cell.architecture in found[key].arms:
            settings, key = cell.settings, identity([cell.task, cell.settings])
        found.setdefault(key, Group(cell.task, settings)).arms[cell.architecture] = cell
        home[_arm(cell)] = key
    for cell in cells:
        if not cell.headline:
            found[home[_arm(cell)]].details.append(cell)
    for group in found.values():
        group.settings = _settings(group)
        group.arms = {name: group.arms[name] for name in canonical(group.arms)}
    return list(found.values())


def _row(cell: Cell, beside: Cell | None) -> dict[str, Any]:
    if beside is None:
        return cell.settings
    differ = disagreements(cell.settings, cell.experiment, beside.settings, beside.experiment)
    return beside.settings if all(key.startswith("learn.") for key in differ) else cell.settings


def _settings(group: Group) -> dict[str, Any]:
    """What varies: of the group's first arm, and of the others what all have alike, such as the heads of the one mixit
    that stands beside the only standard arm."""
    arms = list(group.arms.values())
    shared = {
        key: value
        for cell in arms
        for key, value in cell.settings.items()
        if all(identity(other.experiment.get(key)) == identity(value) for other in arms)
    }
    return group.settings | shared


def _arm(cell: Cell) -> str:
    return identity([cell.task, cell.architecture, cell.settings])
