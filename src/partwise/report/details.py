"""What belongs to one row of a table and does not fit into it: counts per parameter, strata, what probes found."""

from collections.abc import Iterator, Sequence

from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.draws import draw_share
from partwise.report.grid import Grid, named_once, without_empty_columns
from partwise.report.groups import Group
from partwise.report.paper import PaperValue, paper_values

PER = ("_per_trainable_parameter", "_per_total_parameter")
MOST_STRATA = 9  # columns that a terminal holds
STRATA = "by"  # in the title of a grid of strata


def details(group: Group) -> list[Grid]:
    """All there is of them."""
    per = _per_parameter(group)
    draws = _draws(group)
    units = _units(group)
    return [*(grid for grid in (units, per, draws) if grid), *_strata(group), *_probes(group), *_looks(group)]


def published(cell: Cell) -> PaperValue | None:
    """What the paper says of the cell's number."""
    return paper_values().get((cell.task, cell.metric, cell.architecture))


def paper_header(cells: Sequence[Cell], name: str = "paper") -> str:
    """The header of the paper's column, with the sizes at which its numbers hold: ours may be others."""
    known = [one for one in map(published, cells) if one and one.value is not None]
    return f"{name}\n({known[0].sizes})" if known else name


def paper_lines(cells: Sequence[Cell]) -> list[str]:
    """Where the paper's numbers come from, and at which sizes."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        known = published(cell)
        if known is None:
            continue
        lines = found.setdefault(f"paper ({known.status}): {known.setting}; {known.source}", [])
        if known.note and f"{cell.architecture} {known.note}" not in lines:
            lines.append(f"{cell.architecture} {known.note}")
    return ["; ".join([head, *notes]) + "." for head, notes in found.items()]


def _units(group: Group) -> Grid | None:
    """Of a loss, what the task says of it in other units, and every floor below the arms."""
    head = group.any_arm
    if head.margin is None or not head.floors:
        return None
    whole = [cell for cell in [*group.arms.values(), *group.details] if cell.split == "test" and cell.floors]
    known = {cell.metric: cell for cell in whole if set(cell.floors) >= set(head.floors)}
    metrics = [head.metric, *sorted(known.keys() - {head.metric})]
    at = {(cell.architecture, cell.metric): cell for cell in whole}
    rows = []
    for name in (name for name, arm in group.arms.items() if arm.n):
        rows.append([name, *(formats.number(at[name, metric].mean, at[name, metric]) for metric in metrics)])
    for floor in sorted(head.floors, key=head.floors.__getitem__):
        rows.append([floor, *(formats.number(known[metric].floors[floor], known[metric]) for metric in metrics)])
    return Grid(f"{_name(group)}: in other units, and every floor", ["arm or floor", *metrics], rows)


def _per_parameter(group: Group) -> Grid | None:
    """Counts that the task also gives per parameter: whole, per trainable, per total, with the paper's beside."""
    whole = [cell for cell in [*group.arms.values(), *group.details] if cell.split == "test"]
    at = {(cell.architecture, cell.metric): cell for cell in whole}
    counts = sorted({cell.metric.removesuffix(PER[0]) for cell in whole if cell.metric.endswith(PER[0])})
    rows, quoted = [], []
    for name in group.arms:
        for count in counts:
            parts = [at[name, count + ending] for ending in ("", *PER) if (name, count + ending) in at]
            if len(parts) > len(PER):
                paper = parts[1].paper
                quoted += [] if paper is None else [parts[1]]
                texts = [formats.number(part.mean, part) for part in parts]
                rows.append([name, count, *texts, "" if paper is None else formats.amount(paper)])
    if not rows:
        return None
    paper_column = paper_header(quoted, "paper, per trainable")
    header = ["architecture", "count", "whole", "per trainable", "per total parameter", paper_column]
    title = f"{_name(group)}: per parameter"
    return without_empty_columns(Grid(title, header, named_once(rows), paper_lines(quoted)))


def _draws(group: Group) -> Grid | None:
    """Where frozen draws are crossed with seeds: whose the variance is."""
    rows = []
    for name, cell in group.arms.items():
        found = draw_share(dict(zip(cell.draws, cell.values, strict=True)))
        if found is None:
            continue
        parts = (found.draw, found.seed, found.rest)
        shares = ["–" if part is None else f"{formats.percent(part)} %" for part in parts]
        ends = (
            ""
            if found.low is None or found.high is None
            else f"{formats.percent(found.low)}–{formats.percent(found.high)} %"
        )
        rows.append([name, f"{found.draws} x {found.seeds}", formats.number(found.sd, cell), *shares, ends])
    if not rows:
        return None
    header = ["architecture", "draws x seeds", "sd", "frozen draw", "seed of all else", "rest", "draw of draw and rest"]
    below = ["two-way random effects; last column: 95 % interval; –: all runs agree."]
    return Grid(f"{_name(group)}: whose variance is it?", header, rows, below)


def _strata(group: Group) -> Iterator[Grid]:
    """Scores on parts of the test set, or under names; with the floor on the same part where it is known."""
    inside = [cell for cell in group.details if cell.split != "test" and not cell.metric.endswith("loss")]
    kinds = dict.fromkeys((cell.metric, _stratum(cell)[0]) for cell in inside)
    for metric, by in kinds:
        cells = [cell for cell in inside if (cell.metric, _stratum(cell)[0]) == (metric, by)]
        splits = list(dict.fromkeys(cell.split for cell in cells))
        if len(splits) < 2:
            continue
        if all(_stratum(cell)[1].isdigit() for cell in cells):
            yield _across(group, f"{_name(group)}: {metric} {STRATA} {by}", by, cells, splits)
        else:
            yield _down(group, f"{_name(group)}: {metric}, {by}", by, cells, splits)


def _across(group: Group, title: str, by: str, cells: list[Cell], splits: list[str]) -> Grid:
    """A column a stratum."""
    step = max(1, -(-(len(splits) - 1) // (MOST_STRATA - 1)))
    shown = splits if len(splits) <= MOST_STRATA else [*splits[:-1:step], splits[-1]]
    at = {(cell.architecture, cell.split): cell for cell in cells}
    rows = [
        [name, *(formats.number(at[name, s].mean, at[name, s]) if (name, s) in at else "–" for s in shown)]
        for name, arm in group.arms.items()
        if arm.n
    ]
    first = [next((cell for cell in cells if cell.split == split and cell.n), None) for split in shown]
    if any(cell and cell.floor is not None for cell in first):
        rows.append(["floor", *(formats.number(cell.floor, cell) if cell else "–" for cell in first)])
    rows.append(["n", *(f"{cell.n_examples}" if cell and cell.n_examples else "–" for cell in first)])
    some = f", {len(shown)} of {len(splits)} shown" if len(shown) < len(splits) else ""
    return Grid(f"{title}{some}", [by, *(split.split("=", 1)[-1] for split in shown)], rows)


def _down(group: Group, title: str, by: str, cells: list[Cell], splits: list[str]) -> Grid:
    """A row a name, with intervals: names are long, and may be many."""
    at = {(cell.architecture, cell.split): cell for cell in cells if cell.n}
    arms = [name for name in group.arms if any((name, split) in at for split in splits)]
    rows = [
        [split.split("=", 1)[-1], *(_with_spread(at[name, split]) if (name, split) in at else "–" for name in arms)]
        for split in splits
    ]
    return Grid(title, [by, *arms], rows)


def _with_spread(cell: Cell) -> str:
    spread = formats.spread(cell)
    return formats.mean(cell) + (f" [{spread}]" if spread else "")


def _stratum(cell: Cell) -> tuple[str, str]:
    name, _, level = cell.split.removeprefix("test/").partition("=")
    return name, level


def _probes(group: Group) -> Iterator[Grid]:
    """What probes found in the trained models, place by place."""
    arms = {name: cell for name, cell in group.arms.items() if cell.probes}
    keys = list(dict.fromkeys(key for cell in arms.values() for key in cell.probes))
    rows = [
        [
            f"{quantity} ({unit})" if unit else quantity,
            where,
            *(formats.amount(cell.probes[key]) if key in cell.probes else "–" for cell in arms.values()),
        ]
        for key in sorted(keys, key=lambda key: key[:2])
        for quantity, unit, where in [key]
    ]
    if rows:
        yield Grid(f"{_name(group)}: probes, the mean over seeds", ["probe", "where", *arms], named_once(rows))


def _looks(group: Group) -> Iterator[Grid]:
    """What probes found on the way, step by step; neither what stays as it is, nor the losses beside scores."""
    arms = {name: cell for name, cell in group.arms.items() if cell.looks}
    steps = sorted({step for cell in arms.values() for at in cell.looks.values() for step in at})
    rows = [
        [f"{quantity} ({unit})" if unit else quantity, where, name, *(_at(cell.looks[key], step) for step in steps)]
        for key in sorted({key for cell in arms.values() for key in cell.looks})
        for quantity, unit, where in [key]
        for name, cell in arms.items()
        if key in cell.looks and len(set(cell.looks[key].values())) > 1 and not quantity.endswith(".loss")
    ]
    if rows:
        header = ["probe", "where", "after step", *map(str, steps)]
        yield Grid(f"{_name(group)}: probes while it trains, the mean over seeds", header, named_once(rows))


def _at(found: dict[int, float], step: int) -> str:
    return formats.amount(found[step]) if step in found else "–"


def _name(group: Group) -> str:
    return f"{group.task} {group.label}" if group.label else group.task
