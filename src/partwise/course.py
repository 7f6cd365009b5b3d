"""Where a training stands and how it goes: its learning curve, its scores on validation, whether it goes on."""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from partwise.batch import Batch
from partwise.evaluation import evaluation_batch, headline, headline_of, measure
from partwise.looking import Looking
from partwise.parts import LearnRule, census
from partwise.train_config import TrainConfig


@dataclass
class Fit:
    """Where a training stands; all of it travels in the checkpoint."""

    step: int = 0
    tokens: int = 0  # positions in use that were trained on
    history: list[dict[str, Any]] = field(default_factory=list)
    window: list[float] = field(default_factory=list)  # losses since the last entry of the history
    looks: list[dict[str, Any]] = field(default_factory=list)  # rows of probes that looked before the end
    first_loss: float | None = None
    diverged: str = ""
    stopped_early: bool = False
    seconds: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether it goes no further, however many steps are left."""
        return bool(self.diverged) or self.stopped_early


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What a watcher is told, now and then."""

    step: int
    steps: int
    loss: float
    metric: str = ""
    score: float | None = None


class Course:
    """Follows one training from step to step: its learning curve, its scores on validation, whether it goes on.

    Args:
        model: whose scores are noted; it must hold the weights of the step that is followed.
        data, learn, config, seed, looking, watch: as in `fit`.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        *,
        learn: LearnRule,
        config: TrainConfig,
        seed: int,
        looking: Looking | None = None,
        watch: Callable[[Progress], None] | None = None,
    ):
        self.model, self.data, self.config, self.watch = model, data, config, watch
        self.looking = looking or Looking(data=data, seed=seed, test_size=1)
        self.counts, self.metric = parameter_counts(model, learn), headline_of(data)
        self.validation = evaluation_batch(data, "validation", n=config.validation_size, seed=seed)
        self.score: float | None = None

    def follow(self, state: Fit, batch: Batch, loss: float, norm: float) -> None:
        """Note what an update came to; `state.diverged` says so if it was none."""
        config = self.config
        state.first_loss = loss if state.first_loss is None else state.first_loss
        if not math.isfinite(loss) or not math.isfinite(norm) or loss > 1000 * max(1.0, state.first_loss):
            state.diverged = f"diverged at step {state.step}: loss {loss:.4g}, gradient norm {norm:.4g}"
            return
        rate = config.lr * config.rate(state.step)
        state.step += 1
        state.tokens += int(batch.lengths_B.sum()) if batch.lengths_B is not None else batch.targets_BL.numel()
        state.window.append(loss)
        self.look(state)
        if not config.logs(state.step):
            return
        entry: dict[str, Any] = {
            "step": state.step,
            "loss": sum(state.window) / len(state.window),
            "rate": rate,
            "gradient_norm": norm,
        }
        state.window.clear()
        if config.evaluates(state.step):
            entry["validation"] = scores = self._scores(state.step)
            self.score = scores[self.metric.name]
            state.stopped_early = config.stop_when_solved and scores["solved"] and _was_solved(state.history)
        state.history.append(entry)
        if self.watch is not None:
            now = {"step": state.step, "steps": config.steps, "loss": entry["loss"]}
            self.watch(Progress(**now, metric=self.metric.name, score=self.score))

    def needs_model(self, step: int) -> bool:
        """Whether the model is looked at after `step` updates: it must then hold its weights."""
        return self.config.evaluates(step) or step in self.looking.at

    def look(self, state: Fit) -> None:
        """Let the probes look, if it is time; what they find at the last step is the test's."""
        if state.step in self.looking.at and state.step < self.config.steps:
            state.looks += [dataclasses.asdict(row) for row in self.looking.rows(self.model, state.step, early=True)]

    def finish(self, state: Fit, learned: Iterable[Tensor]) -> None:
        """Say that it diverged where what learned, or the last score on validation, is no number."""
        scored = [entry["validation"]["loss"] for entry in state.history if "validation" in entry]
        sound = all(map(math.isfinite, scored[-1:])) and all(bool(tensor.isfinite().all()) for tensor in learned)
        if not state.diverged and not sound:
            state.diverged = f"diverged at step {state.step}: what it learned, or its validation loss, is no number"

    def _scores(self, step: int) -> dict[str, Any]:
        """What a history keeps of the scores on validation: the headline, the loss, whether it is solved."""
        found = measure(self.model, self.data, self.validation, split="validation", step=step, counts=self.counts)
        scores = {row.quantity: row.value for row in found if row.where == "validation"}
        now = headline(self.metric, scores)
        return {self.metric.name: now.value, "loss": scores.get("loss", now.value), "solved": now.solved}


def parameter_counts(model: nn.Module, learn: LearnRule) -> dict[str, float]:
    """What a task may divide by."""
    counted = census(model, learn)
    return {"trainable_parameters": counted.learned, "total_parameters": counted.total}


def _was_solved(history: list[dict[str, Any]]) -> bool:
    scored = [entry["validation"] for entry in history if "validation" in entry]
    return bool(scored) and scored[-1]["solved"]
