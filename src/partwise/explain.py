"""One page and one figure on one run: what learned, what it reached, how, and by which heads. `partwise explain`."""

import re
from collections.abc import Sequence
from pathlib import Path

from partwise.errors import PartwiseError
from partwise.evaluation import Headline
from partwise.experiment import Experiment
from partwise.parts import census, ever_learning
from partwise.probes.attention_map import AttentionMap
from partwise.probes.head_ablation import HeadAblation
from partwise.probes.induction import Induction
from partwise.probing import Probed, probed, run_folders
from partwise.records import RunRecord, write_text
from partwise.report import formats, readings
from partwise.report.grid import Grid
from partwise.report.heads import draw_portrait, short
from partwise.report.statistics import SOLVED, Score
from partwise.report.table import grid_md

MATTERS = 0.1  # share of what the model gains over its floor, from which on a lost head is spoken of
READS = 0.4  # |mix| from which on a head is said to read a place


def explain(folder: Path) -> str:
    """The page, as Markdown; it is kept beside the run as explain.md, with explain.png.

    Raises:
        PartwiseError: the folder holds no run, or several.
    """
    places = run_folders(folder)
    if len(places) > 1:
        raise PartwiseError(f"{folder} holds {len(places)} runs; name one of them, such as {places[0]}.")
    (place,) = places
    found = probed(place, [Induction(), HeadAblation(), AttentionMap()])
    record = found.record
    note = f"{record.digest}, {record.steps} steps, seed {record.seed}; heads on up to 256 test examples"
    draw_portrait(record, found.trained, place / "explain.png", note=note)
    page = _page(found)
    write_text(place / "explain.md", page)
    return page + f"\nfigure: {place / 'explain.png'}\n"


def _page(found: Probed) -> str:
    record = found.record
    title = f"# {found.experiment.arm} on {record.task}, seed {record.seed}"
    parts = [title, " ".join(_what_learned(found.experiment)), " ".join(_what_it_reached(record))]
    if record.status == "done":
        parts += [text for text in (" ".join(_how(record)), " ".join(_heads(found))) if text]
        parts += _table(found)
        parts.append("One run of one seed: what holds for it may not hold for the next (`partwise table` on five).")
    return "\n\n".join([*parts, "![curve, heads and what they read](explain.png)"]) + "\n"


def _what_learned(experiment: Experiment) -> list[str]:
    """Which parts learned and which stayed as drawn."""
    _, model = experiment.build()
    counted = census(model, experiment.learn)
    learns = ever_learning(model, experiment.learn)
    frozen = [name for name, _ in model.named_parameters() if name not in learns]
    said = [f"{formats.amount(counted.learned)} of {formats.amount(counted.total)} parameters learned."]
    if frozen:
        said.append(f"Frozen as drawn: {formats.listed(_summed(frozen))}.")
    if counted.fixed:
        said.append(f"Fixed, and no parameters: {formats.amount(counted.fixed)} random numbers in buffers.")
    if changes := experiment.learn.changes():
        said.append(f"What learns changes at step {formats.listed([str(step) for step in changes])}.")
    return said


def _summed(names: Sequence[str]) -> list[str]:
    """Parameters by their parts, all blocks at once: `blocks.*.token_mixer.query`."""
    parts = (re.sub(r"\.(weight|bias)$", "", name) for name in names)
    return [f"`{part}`" for part in dict.fromkeys(re.sub(r"\.\d+\.", ".*.", part) for part in parts)]


def _score(record: RunRecord) -> tuple[Score, str | None]:
    name = record.headline["name"]
    of = readings.metric(name, record.headline, [])
    return readings.score(record, name, "test", of), readings.floor(record, name, "test", of)[1]


def _what_it_reached(record: RunRecord) -> list[str]:
    if record.status != "done":
        return [f"It {record.detail or record.status}."]
    name = record.headline["name"].replace("_", " ")
    score, floor = _score(record)
    unit = f" {record.headline['unit']}" if record.headline["unit"] else ""
    said = f"On test it reaches {name} {_number(score.value, record)}{unit}"
    against = [f"the floor is {_number(score.floor, record)}{f' ({floor})' if floor else ''}"]
    against += [f"the ceiling {_number(score.ceiling, record)}"] if score.ceiling == score.ceiling else []
    closed = Headline(value=score.value, floor=score.floor, ceiling=score.ceiling).closed
    sentences = [f"{said}; {', '.join(against)}."]
    if closed == closed:
        if closed >= SOLVED:
            sentences.append(f"That is {formats.percent(closed)} % of the way: solved.")
        elif closed <= 0:
            sentences.append("It does not pass the floor.")
        else:
            sentences.append(f"That is {formats.percent(closed)} % of the way, and not solved.")
    return sentences


def _number(value: float, record: RunRecord) -> str:
    share = record.headline.get("high") == 1.0 and not record.headline["unit"]
    return formats.share(value) if share else formats.amount(value)


def _how(record: RunRecord) -> list[str]:
    """When it got there, on validation; nothing where it is at its floor."""
    name = record.headline["name"]
    score, _ = _score(record)
    if not Headline(value=score.value, floor=score.floor, ceiling=score.ceiling).closed > MATTERS:
        return []
    scored = [(entry["step"], entry["validation"][name]) for entry in record.history if "validation" in entry]
    way = {step: (value - score.floor) / (score.ceiling - score.floor) for step, value in scored if value is not None}
    half = next((step for step, closed in way.items() if closed >= 0.5), None)
    nearly = next((step for step, closed in way.items() if closed >= SOLVED), None)
    said = [f"Half of the way from floor to ceiling is closed at step {half}"] if half is not None else []
    if said and nearly is not None:
        said[0] += f", {formats.percent(SOLVED)} % at step {nearly}"
    said = [f"{text} (of those at which validation was scored)." for text in said]
    gain = record.value(f"{name}.gain_last_tenth", where="validation")
    if gain > 0.02:
        said.append(f"It still rises, by {formats.percent(gain)} % over the last tenth: more steps would give more.")
    return said


def _heads(found: Probed) -> list[str]:
    """What the heads read and what is lost without them; nothing where the model is at its floor."""
    record = found.record
    score, _ = _score(record)
    trained = {(row.where, row.quantity): row.value for row in found.trained}
    start = {(row.where, row.quantity): row.value for row in found.at_start}
    falls = {where: value for (where, name), value in trained.items() if name == "head_ablation.mean"}
    closed = Headline(value=score.value, floor=score.floor, ceiling=score.ceiling).closed
    if not falls or not closed > MATTERS:
        return []
    gain = abs(score.value - score.floor)
    said = []
    matters = [where for where, fall in sorted(falls.items(), key=lambda item: -item[1]) if fall > MATTERS * gain]
    for where in matters[:4]:
        parts = [f"{short(where).capitalize()} matters: without it (its mean in its place) the score falls by "
                 f"{_number(falls[where], record)}"]  # fmt: skip
        for name, what in (("retrieval", "the place of the answer"), ("reads_key", "the key, from where the answer is"),
                           ("repeated", "what followed the last copy of a repeated token")):  # fmt: skip
            key = (where, f"induction.{name}")
            if trained.get(key, 0.0) >= READS:
                parts.append(f"it reads {what} with {formats.share(trained[key])}, "
                             f"{formats.share(start[key])} before training")  # fmt: skip
        said.append("; ".join(parts) + ".")
    if not matters:
        said.append("No single head matters: without any one of them most of the score is kept.")
    group = trained.get(("model", "head_ablation.retrieving.heads"))
    fall = trained.get(("model", "head_ablation.mean.retrieving"))
    if group is not None and fall is not None:
        beside = trained.get(("model", "head_ablation.mean.beside"))
        rest = "" if beside is None else f"; without the others of their blocks by {_number(beside, record)}"
        heads = "the one head that reads" if group == 1 else f"the {group:.0f} heads that read"
        said.append(f"Without {heads} the place of the answer it falls by {_number(fall, record)}{rest}.")
    if any(name.endswith(".input_free") for _, name in trained):
        said.append("A mixer here is input-free: it reads the same places whatever stands there.")
    return said


def _table(found: Probed) -> list[str]:
    """Head by head, what was said above in numbers."""
    names = ("induction.retrieval", "induction.reads_key", "induction.repeated", "induction.copying",
             "head_ablation.zero", "head_ablation.mean")  # fmt: skip
    trained = {(row.where, row.quantity): row.value for row in found.trained}
    start = {(row.where, row.quantity): row.value for row in found.at_start}
    heads = list(dict.fromkeys(where for where, _ in trained if readings.HEAD.fullmatch(where)))
    known = [name for name in names if any((head, name) in trained for head in heads)]
    if not heads or not known:
        return []

    def cell(head: str, name: str) -> str:
        value, before = trained.get((head, name)), start.get((head, name))
        if value is None:
            return ""
        return formats.share(value) + ("" if before is None else f" ({formats.share(before)})")

    rows = [[short(head), *(cell(head, name) for name in known)] for head in heads]
    grid = Grid("", ["head", *known], rows, ["In brackets: the same model as it was drawn."])
    return grid_md(grid)
