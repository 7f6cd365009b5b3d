"""The model card of a run: task, what learned, seeds, scores and floors, all from its record."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from partwise.parts import Census
from partwise.records import RunRecord
from partwise.report.readings import is_score

CARD = """\
---
library_name: transformers
tags: {tags}
---

# {architecture} on {task}

A run of partwise, a laboratory for the question which parts of a Transformer must learn. It {counted}.

    from partwise import {kind}

    model = {kind}.from_pretrained("the folder of this file")

## Task

{task_fields}

## What learned

- rule: {learn}
- {learned:,} numbers learned, {frozen:,} stayed as they were drawn, {fixed:,} are fixed in buffers

## Training

- {train}
- rates: {selection}
- {status} after {steps} steps, {seconds:.0f} s, on {machine}
- seeds: {seeds}

## Scores

{scores}

One run is one seed: small trainings tend to solve their task or to stay at its floor, and the seed decides which.
"""


def card(record: RunRecord, counted: Census, kind: str) -> str:
    """Markdown, with the header that the hub reads.

    Args:
        record: of the run.
        counted: what of the model learned.
        kind: the class that loads it.
    """
    asked = record.experiment
    return CARD.format(
        tags=json.dumps(["partwise", record.architecture, record.task]),
        architecture=record.architecture,
        task=record.task,
        counted=counted,
        kind=kind,
        task_fields=_fields(asked["task"]),
        learn=_fields(asked["learn"]),
        learned=counted.learned,
        frozen=counted.frozen,
        fixed=counted.fixed,
        train=_fields(asked["train"]),
        selection=record.selection,
        status=record.status,
        steps=record.steps,
        seconds=record.seconds,
        machine=record.execution["environment"]["machine"],
        seeds=", ".join(f"{name} {asked[name]}" for name in asked if name.endswith("seed") and asked[name] is not None),
        scores="\n".join(_scores(record)),
    )


def _fields(plain: Mapping[str, Any]) -> str:
    """`name`: field value, field value."""
    set_fields = [f"{key} {json.dumps(value)}" for key, value in plain.items() if key != "name" and value is not None]
    named = [f"`{plain['name']}`"] if "name" in plain else []
    return ": ".join([*named, *([", ".join(set_fields)] if set_fields else [])])


def _scores(record: RunRecord) -> Iterator[str]:
    """A table: each score on the test set and its strata, with the floors and the ceiling on the same examples."""
    yield "| on | what | score | floors | ceiling |"
    yield "|---|---|---|---|---|"
    for row in record.rows:
        if is_score(row.quantity, row.where):
            start = f"{row.quantity}.floor."
            beside = [other for other in record.rows if other.where == row.where]
            floors = [f"{o.quantity.removeprefix(start)} {o.value:.4g}" for o in beside if o.quantity.startswith(start)]
            ceilings = [f"{o.value:.4g}" for o in beside if o.quantity == f"{row.quantity}.ceiling"]
            value = f"{row.value:.4g} {row.unit}".strip()
            yield f"| {row.where} | {row.quantity} | {value} | {', '.join(floors)} | {', '.join(ceilings)} |"
