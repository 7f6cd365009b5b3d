"""Does bfloat16 arithmetic learn what float32 learns? `python -m benchmarks.learning`, about five minutes on two cores.

Three tasks at their quick size, standard arm, five seeds in each precision; the same seeds, so the same weights at the
start and the same batches. What counts: as many seeds solve the task, and the loss on the test set ends within the
range that the float32 seeds span. Writes benchmarks/learning.json.
"""

import argparse
import datetime
import json
import math
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import load, machine
from partwise.configs import replaced
from partwise.evaluation import headline
from partwise.experiment import vary
from partwise.recipes.mixit import Mixit
from partwise.records import RunRecord
from partwise.sweep import Options, run_all
from partwise.tasks import Metric
from partwise.updates import Precision

TASKS = ("needle", "addition", "brackets")
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")


def compared(task: str, *, seeds: int, steps: int | None, out: Path) -> dict[str, Any]:
    """One task's line: solved seeds, scores and test losses in both precisions."""
    base = Mixit().base(task)
    runs = vary(base if steps is None else replaced(base, "train.steps", steps), seed=range(seeds))
    line: dict[str, Any] = {"task": task, "steps": runs[0].train.steps, "seeds": seeds}
    for precision in PRECISIONS:
        records = run_all(runs, out / precision, options=Options(precision=precision))
        ends = [_end(record) for record in records]
        line[precision] = {
            "solved": sum(end.solved for end in ends),
            "scores": [round(end.value, 4) for end in ends],
            "losses": [round(record.value("loss"), 6) for record in records],
        }
    exact = line["float32"]["losses"]
    line["same_solved"] = line["float32"]["solved"] == line["bfloat16"]["solved"]
    line["mean_loss_in_range"] = min(exact) <= math.fsum(line["bfloat16"]["losses"]) / seeds <= max(exact)
    line["losses_in_range"] = sum(min(exact) <= loss <= max(exact) for loss in line["bfloat16"]["losses"])
    return line


def _end(record: RunRecord):
    """The headline on the test set."""
    return headline(Metric(**record.headline), {row.quantity: row.value for row in record.rows if row.where == "test"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="fewer than the quick size's, for a try; nothing is then written")
    asked = parser.parse_args()
    about, lines = machine(), []
    for task in TASKS:
        with tempfile.TemporaryDirectory() as out:
            lines.append(compared(task, seeds=asked.seeds, steps=asked.steps, out=Path(out)))
        print(json.dumps(lines[-1]), flush=True)
    if asked.steps is None:
        about["load_at_end"] = load()
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        found = {"machine": about, "date": date, "command": "python -m benchmarks.learning", "tasks": lines}
        place = Path(__file__).with_name("learning.json")
        place.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
