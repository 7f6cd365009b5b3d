"""Arms are compared as equals; these sentences say where they are not."""

from collections.abc import Iterable

from partwise.report.cell import Cell
from partwise.report.groups import Group, groups

PROMISE = {"parameters": 0.01, "flops": 0.05}  # how far matched arms may be apart
NOTEWORTHY = 0.05  # a difference in cost that a table matched by steps mentions


def warnings(cells: Iterable[Cell]) -> list[str]:
    """What a reader must know before comparing the arms: where the matching's promise is broken, what else differs
    between arms of equal steps, and which runs failed or stopped early."""
    found = []
    for group in groups(cells):
        found += _matched(group)
        for cell in group.arms.values():
            found += [f"{cell.architecture} on {cell.place}: {note}" for note in cell.notes]
    return found


def _matched(group: Group) -> list[str]:
    arms = list(group.arms.values())
    first = group.standard or arms[0]
    others = [cell for cell in arms if cell is not first]
    where = arms[0].place if group.label else group.task
    kinds = list(dict.fromkeys(cell.matching for cell in arms))
    if len(kinds) > 1 or ", " in kinds[0]:
        return [f"{where}: arms matched in different ways ({', '.join(kinds)}) are no equals."]
    found = []
    if kinds[0] == "steps":
        steps = {cell.architecture: cell.experiment.get("train.steps") for cell in arms}
        if len({str(asked) for asked in steps.values()}) > 1:
            listed = ", ".join(f"{name} {asked}" for name, asked in steps.items())
            found.append(f"{where}: matched by steps, yet the steps differ: {listed}.")
        for cell in others:
            if differs := _differences(cell, first):
                found.append(f"{where}: {cell.architecture} has {', '.join(differs)} than {first.architecture}.")
    for cell in others if kinds[0] in PROMISE else []:
        what, have = ("parameters", _totals) if kinds[0] == "parameters" else ("FLOPs", _flops)
        off = _off(have(cell), have(first))
        if abs(off) > PROMISE[kinds[0]]:
            found.append(
                f"{where}: matched by {kinds[0]}, yet {cell.architecture} has {_percent(off)} {what}"
                f" than {first.architecture}."
            )
    return found


def _differences(cell: Cell, first: Cell) -> list[str]:
    pairs = {
        "parameters": (_totals(cell), _totals(first)),
        "tokens": (cell.tokens, first.tokens),
        "FLOPs": (_flops(cell), _flops(first)),
    }
    # runs that failed or stopped early have seen fewer tokens for a reason that a sentence of their own tells
    if cell.steps != first.steps:
        del pairs["tokens"], pairs["FLOPs"]
    off = {what: _off(*pair) for what, pair in pairs.items()}
    return [f"{_percent(share)} {what}" for what, share in off.items() if abs(share) > NOTEWORTHY]


def _totals(cell: Cell) -> float | None:
    return cell.total_parameters


def _flops(cell: Cell) -> float | None:
    return cell.flops


def _off(ours: float | None, theirs: float | None) -> float:
    return ours / theirs - 1 if ours is not None and theirs else 0.0


def _percent(off: float) -> str:
    share = abs(off) * 100
    return f"{share:.2g} % {'more' if off > 0 else 'fewer'}"
