"""What a person sees while runs go on: bars and a table that fills on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from partwise.configs import to_plain
from partwise.experiment import Experiment
from partwise.parts import Census
from partwise.plan import costs, short_time, wall_seconds
from partwise.records import RunRecord
from partwise.registry import name_of
from partwise.report.settings import RATE, axes, flatten, in_words
from partwise.sweep import Event

QUIET_SECONDS = 20.0  # plain lines: between two words on how far the runs are


class Display:
    """Watches `run_all`. A context manager, so that the terminal is itself again whatever happens."""

    def __init__(self, experiments: Sequence[Experiment], censuses: Mapping[str, Census], jobs: int):
        self.experiments, self.censuses = experiments, censuses
        self.places = places(experiments)
        self.total = len({experiment.digest for experiment in experiments})
        self.jobs = min(jobs, self.total)
        self.busy: list[str] = []
        self.console = Console(file=sys.stdout)
        self.records: list[RunRecord] = []
        self.kept = 0
        self.done_of: dict[int, float] = {}  # share done of each run that goes on
        self.bars: dict[int, TaskID] = {}
        self.started = self.spoken = time.monotonic()
        self.introduced: set[str] = set()
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[say]}"),
            console=self.console,
        )
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self._picture)

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self.live.stop()

    def watch(self, event: Event) -> None:
        """Called by `run_all` for everything that happens."""
        experiment = self.experiments[event.index]
        if event.kind == "started":
            self.done_of[event.index] = 0.0
            self._introduce(self.places[event.index], experiment)
            if self.console.is_terminal:
                self.bars[event.index] = self.progress.add_task(self._name(event), total=1.0, say="starts")
        elif event.kind == "progress" and event.progress is not None:
            now = event.progress
            self.done_of[event.index] = now.step / now.steps
            score = "" if now.score is None else f"  {now.metric} {number(now.score)}"
            if event.index in self.bars:
                say = f"step {now.step}/{now.steps}  loss {now.loss:.3f}{score}"
                self.progress.update(self.bars[event.index], completed=now.step / now.steps, say=say)
            elif time.monotonic() - self.spoken > QUIET_SECONDS:
                self._say(
                    f"{self._name(event)}: step {now.step}/{now.steps}, loss {now.loss:.3f}{score}; {self._left()}"
                )
        else:
            self._ended(event, experiment)

    def _ended(self, event: Event, experiment: Experiment) -> None:
        self.done_of.pop(event.index, None)
        if event.index in self.bars:
            self.progress.remove_task(self.bars.pop(event.index))
        if event.kind == "busy":
            self.busy.append(event.message)
            return
        assert event.record is not None
        self.records.append(event.record)
        self.kept += event.kind == "kept"
        if not self.console.is_terminal or event.record.status != "done":
            how = f"{event.record.seconds:.0f} s; {self._left()}"
            if event.kind == "kept":
                how = "done before" + (f", {event.message}" if event.message else "")
            self._say(f"[{len(self.records)}/{self.total}] {self._name(event)}: {outcome(event.record)}, {how}")

    def _name(self, event: Event) -> str:
        """A run in a few words."""
        experiment = self.experiments[event.index]
        draw = "" if experiment.frozen_seed is None else f" draw {experiment.frozen_seed}"
        return f"{self.places[event.index]} {experiment.arm} seed {experiment.seed}{draw}"

    def _introduce(self, place: str, experiment: Experiment) -> None:
        """The head of a run, once for each kind: what of it learns."""
        kind = f"{place} {experiment.arm}"
        if kind not in self.introduced:
            self.introduced.add(kind)
            self._say(f"{kind}: {self.censuses[experiment.kind]} ({sizes_of(experiment)})")
            if experiment.train.warmup > experiment.train.steps:
                self._say(
                    f"  its warmup is longer than its {experiment.train.steps} steps: the rate never gets to its peak."
                )

    def _say(self, text: str) -> None:
        self.spoken = time.monotonic()
        self.console.print(text, highlight=False, soft_wrap=not self.console.is_terminal)

    def _left(self) -> str:
        """Time left, from how fast the runs have gone so far."""
        fresh = len(self.records) - self.kept
        done = fresh + sum(self.done_of.values())
        left = self.total - self.kept - done
        if left <= 0:
            return "last one" if self.done_of else "all done"
        if done < 0.05:
            return "time left: not known yet"
        return f"about {short_time((time.monotonic() - self.started) / done * left)} left"

    def _picture(self) -> Group:
        table = Table(box=None, pad_edge=False)
        arms = list(dict.fromkeys(experiment.arm for experiment in self.experiments))
        for head in ("", *arms):
            table.add_column(head, justify="left" if not head else "right")
        for task in dict.fromkeys(self.places):
            cells = []
            for name in arms:
                here = zip(self.experiments, self.places, strict=True)
                digests = {e.digest for e, place in here if place == task and e.arm == name}
                scores = [r.value(r.headline["name"]) for r in self.records if r.digest in digests and r.headline]
                scores = [score for score in scores if not math.isnan(score)]
                cells.append(f"{number(sum(scores) / len(scores))} ({len(scores)})" if scores else "·")
            table.add_row(task, *cells)
        head = f"{len(self.records)} of {self.total} runs, {self._left()}"
        return Group(table, head, self.progress)


def places(experiments: Sequence[Experiment], *, with_rate: bool = True) -> list[str]:
    """Of each run, its task with what varies: 'needle m=8 token_mixer.qk_scale=2'; a rate that varies only if asked."""
    by_task: dict[str, list[int]] = {}
    for index, experiment in enumerate(experiments):
        by_task.setdefault(name_of(experiment.task), []).append(index)
    found = [""] * len(experiments)
    for name, members in by_task.items():
        flats = [(experiments[i].arm, flatten(to_plain(experiments[i]))) for i in members]
        for i, settings in zip(members, axes(flats), strict=True):
            pairs = getattr(experiments[i].task, "n_pairs", None)
            settings.pop("task.n_pairs", None)
            if not with_rate:
                settings.pop(RATE, None)
            size = "" if pairs is None else f" m={pairs}"
            found[i] = f"{name}{size} {in_words(settings)}".rstrip()
    return found


def sizes_of(experiment: Experiment) -> str:
    """The settings that one looks for first."""
    model, train = experiment.model, experiment.train
    return f"width {model.width}, {model.n_blocks} blocks, {train.steps} steps of {train.batch}, rate {train.lr:g}"


def number(value: float) -> str:
    """Shares with three digits, large numbers in thousands."""
    return f"{value / 1000:.2f} k" if abs(value) >= 1000 else f"{value:.3f}"


def outcome(record: RunRecord) -> str:
    """A finished run's number, or what became of it."""
    if record.status != "done":
        return record.detail
    name = record.headline["name"]
    return f"{name} {number(record.value(name))}{', stopped early' if record.stopped_early else ''}"


def plan_text(experiments: Sequence[Experiment], jobs: int) -> str:
    """What `--dry-run` prints: each kind of run with its size and time, and the whole."""
    found, named = costs(experiments), places(experiments, with_rate=False)
    tasks, arms = max(map(len, ["task", *named])), max(len(one.arm) for one in experiments)
    arms = max(arms, len("architecture"))
    lines = [
        f"{'runs':>4}  {'task':<{tasks}}  {'architecture':<{arms}} {'steps':>7} {'learns / total':>21}"
        f" {'tokens':>8} {'FLOPs':>8} {'each':>8}"
    ]
    groups: dict[tuple[str, str], list[int]] = {}
    for index, experiment in enumerate(experiments):
        groups.setdefault((named[index], experiment.arm), []).append(index)
    for (task, name), members in groups.items():
        cost = found[members[0]]
        share = f"{cost.census.learned:,} / {cost.census.total:,}"
        lines.append(
            f"{len(members):>4}  {task:<{tasks}}  {name:<{arms}} {cost.steps:>7,} {share:>21} {cost.tokens:>8.1e}"
            f" {cost.flops:>8.1e} {short_time(cost.seconds):>8}"
        )
    tokens, flops = sum(cost.tokens for cost in found), sum(cost.flops for cost in found)
    lines.append(
        f"{len(experiments)} runs, at most {tokens:.1e} tokens (padding included), {flops:.1e} FLOPs; about "
        f"{short_time(wall_seconds(found, jobs))} here with {jobs} at a time (timed for a second on this machine, CPU)."
    )
    return "\n".join(lines) + "\n"
