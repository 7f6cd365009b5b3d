"""One cell of a table: what one architecture reached in one number at one setting, over its seeds."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from partwise.report.settings import in_words
from partwise.report.statistics import Kind, Score

STANDARD = "standard"  # the arm in which everything learns, against which the others are measured
ORDER = (
    *(STANDARD, "frozen_qk", "frozen_mlp", "mixit", "embeddings_only", "norms_only", "frozen_vo"),
    *("interleaved", "standard_published", "mixit_published", "shaped_published"),
)
RISING = 0.02  # of the final score, gained over the last tenth of the steps
INSIDE: dict[str, Any] = {"inside": True}  # a field that serves the report and is not exported


def rank(name: str) -> tuple[int, str]:
    """As in the paper's table, with 'standard, frozen blocks.0' behind standard; others last, by name."""
    known = name.split(",")[0]
    return (ORDER.index(known) if known in ORDER else len(ORDER), name)


def canonical(names: Iterable[str]) -> list[str]:
    """Architectures in the order of their rank."""
    return sorted(names, key=rank)


@dataclass(kw_only=True)
class Cell:
    """The scored runs of one (task, settings, architecture, metric, split), as plain data.

    A run that diverged or failed is counted in `n_failed` and told of in `notes`: it is never a score and never a gap.

    Args:
        task: registered name.
        architecture: name of the arm.
        settings: the experiment's fields that vary within the task, flattened.
        metric: what was measured.
        headline: whether it is the task's one number, on the whole test set.
        unit: "" for a share.
        split: "test", or a stratum of it such as "test/n_pairs=3".
        mean: over the scored runs; None if there are none.
        ci_low: lower end of the 95 % interval.
        ci_high: upper end.
        interval: how that interval was made (statistics.py).
        n: scored runs.
        n_failed: diverged and failed runs.
        solved: runs that close 90 % of the way from floor to ceiling; of headlines only.
        retained: (arm - floor) / (standard - floor), paired over seeds; of headlines only.
        retained_low: lower end of its 95 % interval.
        retained_high: upper end.
        floor: the best predictor without the ability, on the same examples, averaged over seeds.
        ceiling: the best that can be reached.
        paper: the paper's number.
        paper_status: how we know it.
        trainable_parameters: that learn at some time.
        total_parameters: learned and frozen.
        tokens: trained on, a run.
        flops: spent on training, a run.
        matching: in what the arms are equal.
        selection: how the rates were chosen.
        runs: digests, also of those that failed.
        lr: the peak learning rate.
        n_examples: scored answers of the test set that a run's score is made of.
        retained_interval: how the interval of `retained` was made.
        floor_name: which predictor is the floor.
        closed: mean share of the way from floor to ceiling.
        values: the scores, one a run.
        seeds: their seeds.
        solved_low: lower end of the Wilson interval of solved / n.
        solved_high: upper end.
        retained_reason: why `retained` is not given, else "".
        paper_setting: at which sizes the paper's number holds, and who tells.
        still_rising: the headline improves by more than 2 % over the last tenth of the steps; None if not known.
        gain_last_tenth: that change, on validation, as a share of the final score.
        steps: training steps done, a run.
        notes: what happened to single runs, in sentences.
        better: which way is better.
        low: the metric's lower bound.
        high: its upper bound.
        scores: by seed, for pairing; runs of one seed are averaged.
        draws: of each score, (the seed of what never learns, the seed of all else).
        retained_n: seeds that the arm shares with the standard arm.
        experiment: the flattened experiment of the first run.
        outcomes: status and steps of the runs that have no score.
        other_steps: matched by steps, yet asked for another number of them than the standard arm beside it.
        probes: of a headline: (quantity, unit, address) to what a probe found there, the mean over runs.
        looks: the same by step, where probes looked on the way.
    """

    task: str
    architecture: str
    settings: dict[str, Any]
    metric: str
    headline: bool
    unit: str
    split: str
    mean: float | None
    ci_low: float | None
    ci_high: float | None
    interval: Kind | None
    n: int
    n_failed: int
    solved: int | None
    retained: float | None = None
    retained_low: float | None = None
    retained_high: float | None = None
    floor: float | None
    ceiling: float | None
    paper: float | None
    paper_status: Literal["first-hand", "second-hand", "not known"]
    trainable_parameters: int | None
    total_parameters: int | None
    tokens: int | None
    flops: float | None
    matching: str
    selection: str
    runs: list[str]
    lr: float | None
    n_examples: int | None
    retained_interval: Kind | None = None
    floor_name: str | None
    closed: float | None
    values: list[float]
    seeds: list[int]
    solved_low: float | None
    solved_high: float | None
    retained_reason: str = ""
    paper_setting: str | None
    still_rising: bool | None
    gain_last_tenth: float | None
    steps: int | None
    notes: list[str]
    better: Literal["higher", "lower"] = field(metadata=INSIDE)
    low: float | None = field(metadata=INSIDE)
    high: float | None = field(metadata=INSIDE)
    scores: dict[Any, Score] = field(metadata=INSIDE)
    draws: list[tuple[int, int]] = field(metadata=INSIDE)
    retained_n: int = field(default=0, metadata=INSIDE)
    experiment: dict[str, Any] = field(metadata=INSIDE)
    outcomes: list[tuple[str, int]] = field(metadata=INSIDE)
    other_steps: bool = field(default=False, metadata=INSIDE)
    probes: dict[tuple[str, str, str], float] = field(default_factory=dict, metadata=INSIDE)
    looks: dict[tuple[str, str, str], dict[int, float]] = field(default_factory=dict, metadata=INSIDE)

    def to_plain(self) -> dict[str, Any]:
        """The exported fields, in the order in which they stand above; the JSON and CSV of a table are made of it."""
        return {key: getattr(self, key) for key in self.exported()}

    @classmethod
    def exported(cls) -> list[str]:
        """The names of the exported fields, in order."""
        return [each.name for each in dataclasses.fields(cls) if not each.metadata.get("inside")]

    @property
    def is_share(self) -> bool:
        """Whether the number is a share of one, and is written as one."""
        return self.unit == "" and self.low == 0.0 and self.high == 1.0

    @property
    def place(self) -> str:
        """The task with what varies in it, as one reads it."""
        words = in_words(self.settings)
        return f"{self.task} ({words})" if words else self.task
