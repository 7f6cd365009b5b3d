"""What the paper reports: shown beside ours with its setting and its status, never a score to pass or fail."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from partwise.report.settings import in_words


@dataclass(frozen=True, kw_only=True)
class PaperValue:
    """One published number.

    Args:
        task: our name of the task.
        metric: our name of the metric.
        architecture: our name of the architecture.
        value: None where the paper is known to speak in words only.
        status: first-hand (read in the paper or its code) or second-hand (a summary of it).
        setting: at which sizes.
        source: which table, and who tells.
        note: what else one must know.
        comparable: fields of an experiment at the paper's sizes, by their flattened names.
    """

    task: str
    metric: str
    architecture: str
    value: float | None
    status: Literal["first-hand", "second-hand"]
    setting: str
    source: str
    note: str
    comparable: Mapping[str, Any]

    @property
    def sizes(self) -> str:
        """'n_pairs=30': what the number must not be read without."""
        return in_words(self.comparable)

    def fits(self, experiment: Mapping[str, Any]) -> bool:
        """Whether a flattened experiment is at the paper's sizes."""
        return all(experiment.get(key) == value for key, value in self.comparable.items())


@functools.cache
def paper_values() -> dict[tuple[str, str, str], PaperValue]:
    """All that is known, by (task, metric, architecture); what is not there is 'not known'."""
    plain = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    known = {}
    for entry in plain["values"]:
        at = plain["settings"][entry["task"]]
        known[entry["task"], entry["metric"], entry["architecture"]] = PaperValue(
            task=entry["task"],
            metric=entry["metric"],
            architecture=entry["architecture"],
            value=entry["value"],
            status=entry["status"],
            setting=at["text"],
            source=f"{plain['paper']}, {at['source']}",
            note=entry.get("note", ""),
            comparable=at["comparable"],
        )
    return known
