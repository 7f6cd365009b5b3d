"""What a table shows, before it is decided how: plain rows of text, the same for a terminal and for Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from partwise.report import formats
from partwise.report.cell import Cell, canonical
from partwise.report.groups import Group, groups
from partwise.report.matching import warnings
from partwise.report.paper import paper_values
from partwise.report.verdict import sentences

PER = ("_per_trainable_parameter", "_per_total_parameter")
COSTS = ["", "architecture", "depth", "width", "trainable", "total", "tokens", "FLOPs", "steps", "runs"]
MOST_STRATA = 9  # columns that a terminal holds


@dataclass
class Grid:
    """A heading, a header and rows; a newline in a cell is a line break there."""

    title: str
    header: list[str]
    rows: list[list[str]]
    below: list[str] = field(default_factory=list)


@dataclass
class Section:
    """One task: its arms side by side, the same one below the other (for a narrow terminal), and what belongs to it."""

    title: str
    wide: Grid
    tall: Grid
    more: list[Grid]


def sections(cells: Iterable[Cell]) -> list[Section]:
    """One a task."""
    by_task: dict[str, list[Group]] = {}
    for group in groups(cells):
        by_task.setdefault(group.task, []).append(group)
    return [_section(task, members) for task, members in by_task.items()]


def costs(cells: Iterable[Cell]) -> list[Grid]:
    """What every arm cost, one grid a task, and at the end of the last where arms are no equals."""
    cells = list(cells)
    by_task: dict[str, list[tuple[str, Cell]]] = {}
    for group in groups(cells):
        by_task.setdefault(group.task, []).extend((group.label, cell) for cell in group.arms.values())
    made = []
    for task, arms in by_task.items():
        kinds = ", ".join(dict.fromkeys(cell.matching for _, cell in arms))
        title = f"{task}: costs of a run; arms matched by {kinds}"
        rates: dict[str, list[str]] = {}
        for _, cell in arms:
            rates.setdefault(cell.selection, []).append(cell.architecture)
        if len(rates) == 1:
            title += f"; rates {arms[0][1].selection}"
            rates = {}
        below = [f"rates of {', '.join(dict.fromkeys(names))}: {how}." for how, names in rates.items()]
        rows = [[label, *_cost(cell)] for label, cell in arms]
        made.append(_without_empty_columns(Grid(title, COSTS, _named_once(rows), below)))
    if made:
        made[-1].below += warnings(cells)
    return made


def legend(cells: Iterable[Cell]) -> list[str]:
    """The marks that occur, explained."""
    heads = [cell for cell in cells if cell.headline]
    marks = {
        "n/m: n of m scored runs solve it, closing 90 % of the way from floor to ceiling": any(c.n for c in heads),
        "(+l): l more runs diverged or failed, and have no score": any(c.n and c.n_failed for c in heads),
        "keeps: (arm − floor) / (standard − floor), paired over seeds, with its 95 % interval; given where standard "
        "is solved": any(cell.retained is not None for cell in heads),
        "r: the range of the seeds, since they split into two groups or lie within .02 of a bound; other intervals "
        "are 95 %, Student t": any(cell.interval == "range" for cell in heads),
        "↑: still improves by more than 2 % over the last tenth of its steps": any(cell.still_rising for cell in heads),
        "diverged@9, failed@9: at which step it stopped; no run has a score": any(not cell.n for cell in heads),
    }
    return [text for text, occurs in marks.items() if occurs]


def _section(task: str, members: list[Group]) -> Section:
    best = members[0].any_arm
    title = f"{task}: {best.metric}{f' ({best.unit})' if best.unit else ''}, {best.better} is better"
    verdicts = [f"{group.label}: {text}" if group.label else text for group in members for text in sentences(group)]
    verdicts += _paper_lines([cell for group in members for cell in group.arms.values()])
    more = [grid for group in members for grid in (_per_parameter(group), _strata(group)) if grid]
    return Section(title, _wide(title, members, verdicts), _tall(title, members, verdicts), more)


def _wide(title: str, members: list[Group], below: list[str]) -> Grid:
    names = canonical({name for group in members for name in group.arms})
    rows = []
    for group in members:
        arms = [_stacked(group.arms[name]) if name in group.arms else "" for name in names]
        rows.append([_name(group), *arms, *_beside(group)])
    return Grid(title, ["task", *names, "floor", "ceiling", "paper"], rows, below)


def _tall(title: str, members: list[Group], below: list[str]) -> Grid:
    rows = []
    for group in members:
        for cell in group.arms.values():
            paper = "" if cell.paper is None else formats.number(cell.paper, cell)
            limits = [formats.number(limit, cell) for limit in (cell.floor, cell.ceiling)]
            line = [
                formats.mean(cell),
                formats.spread(cell),
                formats.solved(cell),
                formats.kept(cell).replace(" %", ""),
                *limits,
                paper,
            ]
            rows.append([group.label, cell.architecture, *line])
    header = ["", "architecture", "mean", "interval", "solved", "keeps %", "floor", "ceiling", "paper"]
    return _without_empty_columns(Grid(title, header, _named_once(rows), below))


def _stacked(cell: Cell) -> str:
    kept = formats.kept(cell).replace(" [", "\n[", 1)
    lines = [formats.mean(cell), formats.spread(cell), formats.solved(cell), f"keeps {kept}" if kept else ""]
    return "\n".join(line for line in lines if line)


def _beside(group: Group) -> list[str]:
    cell = group.any_arm
    known = [f"{formats.number(arm.paper, arm)} {name}" for name, arm in group.arms.items() if arm.paper is not None]
    return [formats.number(cell.floor, cell), formats.number(cell.ceiling, cell), "\n".join(known) or "not known"]


def _paper_lines(cells: Sequence[Cell]) -> list[str]:
    """Where the paper's numbers come from, and at which sizes: ours may be others."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        known = paper_values().get((cell.task, cell.metric, cell.architecture))
        if known is None:
            continue
        lines = found.setdefault(f"paper ({known.status}): {known.setting}; {known.source}", [])
        if known.note and f"{cell.architecture} {known.note}" not in lines:
            lines.append(f"{cell.architecture} {known.note}")
    return ["; ".join([head, *notes]) + "." for head, notes in found.items()]


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
    header = ["architecture", "count", "whole", "per trainable", "per total parameter", "paper, per trainable"]
    title = f"{_name(group)}: per parameter"
    return _without_empty_columns(Grid(title, header, _named_once(rows), _paper_lines(quoted)))


def _strata(group: Group) -> Grid | None:
    """The headline on parts of the test set."""
    metric = group.any_arm.metric
    inside = [cell for cell in group.details if cell.metric == metric and cell.split != "test"]
    splits = list(dict.fromkeys(cell.split for cell in inside))
    if len(splits) < 2:
        return None
    step = max(1, -(-(len(splits) - 1) // (MOST_STRATA - 1)))
    shown = splits if len(splits) <= MOST_STRATA else [*splits[:-1:step], splits[-1]]
    at = {(cell.architecture, cell.split): cell for cell in inside}
    rows = [
        [name, *(formats.number(at[name, s].mean, at[name, s]) if (name, s) in at else "–" for s in shown)]
        for name, cell in group.arms.items()
        if cell.n
    ]
    by = shown[0].removeprefix("test/").split("=")[0]
    some = f", {len(shown)} of {len(splits)} shown" if len(shown) < len(splits) else ""
    return Grid(f"{_name(group)}: {metric} by {by}{some}", [by, *(split.split("=", 1)[-1] for split in shown)], rows)


def _cost(cell: Cell) -> list[str]:
    blocks, experiment = cell.experiment.get("model.blocks") or [], cell.experiment
    counts = (cell.trainable_parameters, cell.total_parameters, cell.tokens, cell.flops)
    tries = f"{cell.n + cell.n_failed}" + (f" ({cell.n_failed} lost)" if cell.n_failed else "")
    return [
        cell.architecture,
        str(experiment.get("model.n_blocks") or len(blocks) or "–"),
        str(experiment.get("model.width", "–")),
        *("–" if count is None else formats.amount(count) for count in counts),
        "–" if cell.steps is None else str(cell.steps),
        tries,
    ]


def _named_once(rows: list[list[str]]) -> list[list[str]]:
    """Rows whose first cell repeats the one above leave it empty."""
    return [[*([""] if i and row[0] == rows[i - 1][0] else row[:1]), *row[1:]] for i, row in enumerate(rows)]


def _name(group: Group) -> str:
    return f"{group.task} {group.label}" if group.label else group.task


def _without_empty_columns(grid: Grid) -> Grid:
    used = [i for i in range(len(grid.header)) if any(row[i] for row in grid.rows)]
    return Grid(grid.title, [grid.header[i] for i in used], [[row[i] for i in used] for row in grid.rows], grid.below)
