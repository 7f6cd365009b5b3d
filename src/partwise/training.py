"""One loop that trains any module on any task, and stops and starts anywhere without a trace in the numbers."""

import contextlib
import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from partwise import fast
from partwise.batch import Batch
from partwise.checkpoint import load_tensors, load_weights, save_tensors, weights
from partwise.configs import to_plain
from partwise.errors import ConfigError
from partwise.evaluation import evaluation_batch, headline, headline_of, loss_of, measure, mode
from partwise.looking import Looking
from partwise.parts import LearnRule, census, select
from partwise.seeds import generator_for
from partwise.taps import listening

Precision = Literal["float32", "bfloat16"]
LENGTH_GROUPS = 2  # in which a token mixer meets packed rows; more save little padding (docs/lab, 2026-11-30)
SMALL_GRADIENT = 2**20  # numbers


@dataclass(frozen=True, kw_only=True)
class PartRate:
    """A part's own rate and decay.

    Args:
        pattern: of addresses; it must match. Where two patterns name one parameter, the later one decides.
        lr: peak rate; None keeps the run's.
        weight_decay: None keeps the run's.
    """

    pattern: str
    lr: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        _check_positive("lr", self.lr)
        _check_not_negative("weight_decay", self.weight_decay)


def _check_positive(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
        raise ConfigError(f"{name} is {value}: a positive number was expected.")


def _check_not_negative(name: str, value: Any) -> None:
    if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
        raise ConfigError(f"{name} is {value}: a number from 0 on was expected.")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained: AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), warmup, decay, clipping.

        rate(t) = lr * min(1, (t + 1) / warmup) * decay(t),    t = 0 ... steps - 1

    Args:
        steps: updates.
        batch: examples an update.
        accumulate: pieces the batch is cut into; the gradient is that of the whole batch.
        lr: peak rate.
        warmup: steps, never a share: outcomes depend on it (mixit.md 6).
        decay: after warmup: cosine or linear to zero, or constant.
        betas: AdamW's.
        eps: AdamW's.
        weight_decay: on matrices and tables that learn; gains and biases have none unless `parts` says so.
        clip: largest norm of the gradient over what learns now; None leaves it.
        parts: own rates and decay of parts.
        evaluate_every: steps between two scores on validation; None is a tenth of the steps.
        validation_size: examples of an endless task's validation set.
        stop_when_solved: end once two scores in a row are solved (90 % of the way from floor to ceiling).
    """

    version: ClassVar[int] = 1

    steps: int = 1000
    batch: int = 128
    accumulate: int = 1
    lr: float = 1e-3
    warmup: int = 80
    decay: Literal["cosine", "linear", "constant"] = "cosine"
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.001
    clip: float | None = 1.0
    parts: tuple[PartRate, ...] = ()
    evaluate_every: int | None = None
    validation_size: int = 1000
    stop_when_solved: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "validation_size"):
            given = getattr(self, name)
            if not isinstance(given, (int, float)) or given < 1:
                raise ConfigError(f"{name} is {given!r}: a whole number from 1 on was expected.")
        if self.accumulate > self.batch:
            raise ConfigError(
                f"accumulate is {self.accumulate}, more pieces than the batch has examples ({self.batch})."
            )
        for name in ("lr", "clip", "eps"):
            _check_positive(name, getattr(self, name))
        _check_not_negative("weight_decay", self.weight_decay)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ConfigError(f"betas is {self.betas}: two numbers from 0 up to 1 were expected.")
        if self.decay not in _DECAYS:
            raise ConfigError(f"decay is {self.decay!r}: one of {', '.join(_DECAYS)} was expected.")
        if self.warmup < 0 or (self.evaluate_every is not None and self.evaluate_every < 1):
            raise ConfigError("warmup is a number of steps from 0 on, and evaluate_every from 1 on.")

    def rate(self, step: int) -> float:
        """The learning rate of update `step` as a share of the peak, in closed form."""
        warm = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        done = max(0.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return warm * _DECAYS[self.decay](done)

    def evaluates(self, step: int) -> bool:
        """Whether validation is scored after `step` updates: at each tenth, or as asked; and at nine tenths and the
        end, so that the gain over the last tenth is known."""
        if step in (self.steps, self.before_last_tenth):
            return True
        if self.evaluate_every is not None:
            return step % self.evaluate_every == 0
        return step * 10 // self.steps > (step - 1) * 10 // self.steps

    @property
    def before_last_tenth(self) -> int:
        """Nine tenths of the steps, and at least one step before the end."""
        return self.steps - max(1, self.steps // 10)

    def logs(self, step: int) -> bool:
        """Whether the loss is noted after `step` updates: a hundred times, and wherever validation is scored."""
        return step * 100 // self.steps > (step - 1) * 100 // self.steps or self.evaluates(step)


_DECAYS: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1 - done,
    "constant": lambda done: 1.0,
}


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


def fit(
    model: nn.Module,
    data: Any,
    *,
    learn: LearnRule,
    config: TrainConfig,
    seed: int,
    precision: Precision = "float32",
    looking: Looking | None = None,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 10.0,
    watch: Callable[[Progress], None] | None = None,
) -> Fit:
    """Train the model in place.

    The batch of a step depends on the seed and the step alone, and the checkpoint holds everything else, so a run that
    was killed and started again ends with the same bits (for an equal precision, thread count and machine).

    Args:
        model: any module that `evaluation.predict` can call.
        data: a built task.
        learn: what learns, at which step.
        config: the rest.
        seed: of the data.
        precision: of the arithmetic; weights and optimizer stay in float32.
        looking: probes that look on the way; what they find travels in the checkpoint.
        checkpoint: where to keep the state; resumed from if it is there.
        checkpoint_seconds: between two writes.
        watch: is told of the progress.

    Returns:
        where it ended; `diverged` says at which step and why, if it did.
    """
    device = next(model.parameters()).device
    wanted = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    course = Course(model, data, learn=learn, config=config, seed=seed, looking=looking, watch=watch)
    for part in config.parts:
        select(model, (part.pattern,))
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [p.requires_grad_(wanted[name]) for name, p in model.named_parameters()])
        stack.enter_context(torch.random.fork_rng(devices=[]))  # a user's dropout draws from the global generator
        torch.manual_seed(seed)
        stamp = {"seed": seed, "precision": precision} | _stamp(model, data, learn, config, looking)
        state, optimizer = _resumed(model, learn, config, checkpoint, stamp)
        stack.enter_context(mode(model, training=True))
        _still_what_is_frozen(model)
        if state.step == 0 and not state.looks:
            course.look(state)
        started, written = time.perf_counter() - state.seconds, time.perf_counter()
        while state.step < config.steps and not state.ended:
            step = state.step
            if optimizer is None or step in learn.changes():
                optimizer = optimizer_for(model, learn.learning(model, step), config, before=optimizer)
                _still_what_is_frozen(model)
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * config.rate(step)

            batch = data.sample(config.batch, split="train", generator=generator_for(seed, f"train/{step}"))
            loss, norm = update(model, batch, optimizer, config=config, device=device, precision=precision)
            course.follow(state, batch, loss, norm)
            if state.diverged:
                break
            state.seconds = time.perf_counter() - started
            if checkpoint is not None and time.perf_counter() - written > checkpoint_seconds:
                save_checkpoint(checkpoint, model, optimizer, state, stamp)
                written = time.perf_counter()
        if optimizer is not None:
            course.finish(state, [parameter for group in optimizer.param_groups for parameter in group["params"]])
        if checkpoint is not None and optimizer is not None:
            save_checkpoint(checkpoint, model, optimizer, state, stamp)
    return state


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
            state.looks += [dataclasses.asdict(row) for row in self.looking.rows(self.model, state.step)]

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


def _stamp(
    model: nn.Module, data: Any, learn: LearnRule, config: TrainConfig, looking: Looking | None
) -> dict[str, Any]:
    """What makes a training this one and no other, for its checkpoint."""
    return {
        "train": to_plain(config, without_defaults=True),
        "learn": repr(learn),
        "task": [type(data).__name__, repr(getattr(data, "task", None)), repr(data.shape)],
        "parameters": {name: list(parameter.shape) for name, parameter in model.named_parameters()},
        **({"looks": [repr(looking.probes), looking.at]} if looking and looking.at else {}),
    }


def _still_what_is_frozen(model: nn.Module) -> None:
    """Eval mode for a module with float buffers whose parameters are all frozen: a frozen batch norm keeps its own."""
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        has_floats = any(buffer.is_floating_point() for buffer in module.buffers(recurse=False))
        if own and has_floats:
            module.training = any(parameter.requires_grad for parameter in own)


def parameter_counts(model: nn.Module, learn: LearnRule) -> dict[str, float]:
    """What a task may divide by."""
    counted = census(model, learn)
    return {"trainable_parameters": counted.learned, "total_parameters": counted.total}


def _was_solved(history: list[dict[str, Any]]) -> bool:
    scored = [entry["validation"] for entry in history if "validation" in entry]
    return bool(scored) and scored[-1]["solved"]


def update(
    model: nn.Module,
    batch: Batch,
    optimizer: torch.optim.AdamW,
    *,
    config: TrainConfig,
    device: torch.device,
    precision: Precision,
) -> tuple[float, float]:
    """One step: gradient, clipping, AdamW; the mean loss and the gradient's norm. It is not taken where one of the
    two is no number."""
    loss = backward(model, batch, pieces=config.accumulate, device=device, precision=precision)
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = _clipped(gradients, config.clip)
    if math.isfinite(loss) and math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss, norm


def _clipped(gradients: list[Tensor], largest: float | None) -> float:
    """Scale the gradients so that their norm is `largest` at most, as `clip_grad_norm_` does; the norm they had."""
    if not gradients:
        return 0.0
    if sum(gradient.numel() for gradient in gradients) < SMALL_GRADIENT:  # one kernel is cheaper than one each
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    else:
        norm = nn.utils.get_total_norm(gradients)
    if largest is not None:
        torch._foreach_mul_(gradients, (largest / (norm + 1e-6)).clamp(max=1.0))
    return norm.item()


def stepper(
    model: nn.Module, *, learn: LearnRule, config: TrainConfig, device: torch.device, precision: Precision
) -> Callable[[Batch], float]:
    """A function that takes a step on a batch, as `fit` does, and gives its loss: for whoever times a step."""
    optimizer = optimizer_for(model, learn.learning(model), config)
    model.train()
    return lambda batch: update(model, batch, optimizer, config=config, device=device, precision=precision)[0]


def backward(
    model: nn.Module,
    batch: Batch,
    *,
    pieces: int,
    device: torch.device,
    precision: Precision,
    groups: int = LENGTH_GROUPS,
) -> float:
    """Gradient of the mean loss over the batch's scored positions, added up over pieces of it; the mean loss.

    On a CPU the lab's own models compute no padding, and their token mixers meet the rows in `groups` of like length.
    Anybody's module may want the rows that it was given, all of one length; to a GPU a shape that changes from step to
    step costs more than some padding; and a tap that listens is shown whole batches.
    """
    total, count = 0.0, max(1, int(batch.scored_BL.sum()))
    bounds = [len(batch) * piece // pieces for piece in range(pieces + 1)]
    parts = [batch.rows(start, stop) for start, stop in itertools.pairwise(bounds)]
    takes_packed = device.type == "cpu" and getattr(model, "takes_batch", False) and not listening(model)
    if groups and takes_packed and not fast.asked_plain():
        parts = [part.packed(n_groups=groups) for part in parts]
    for part in parts:
        read_BQ, targets_BQ = part.read()
        if device.type != "cpu":
            part, targets_BQ = part.to(device), targets_BQ.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            loss = loss_of(model, part, None if read_BQ is None else read_BQ.to(device), targets_BQ) / count
        loss.backward()
        total += loss.item()
    return total


def optimizer_for(
    model: nn.Module, learning: set[str], config: TrainConfig, *, before: torch.optim.AdamW | None = None
) -> torch.optim.AdamW:
    """AdamW over what learns, and nothing else.

    What learned before keeps its moments; what begins now starts with fresh ones, its bias correction counted from
    here; what stops is dropped. `requires_grad` follows.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    settings = peaks_and_decays(model, config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learning)
        if name in learning:
            groups.setdefault(settings[name], []).append(parameter)
        else:
            parameter.grad = None
    optimizer = torch.optim.AdamW(
        [{"params": held, "lr": lr, "peak": lr, "weight_decay": decay} for (lr, decay), held in groups.items()],
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )
    if before is not None:
        for held_before, moments in before.state.items():
            if held_before.requires_grad:
                optimizer.state[held_before] = moments
    return optimizer


def peaks_and_decays(model: nn.Module, config: TrainConfig) -> dict[str, tuple[float, float]]:
    """Of each parameter, the peak of its rate and its weight decay."""
    chosen = [(part, select(model, (part.pattern,))) for part in config.parts]
    found = {}
    for name, parameter in model.named_parameters():
        lr, decay = config.lr, config.weight_decay if parameter.ndim >= 2 else 0.0
        for part, named in chosen:
            if name in named:
                lr = lr if part.lr is None else part.lr
                decay = decay if part.weight_decay is None else part.weight_decay
        found[name] = lr, decay
    return found


def save_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.AdamW, state: Fit, stamp: dict[str, Any]
) -> None:
    """Weights, buffers, moments, the global generator, where the training stands and which one it is, as one file."""
    held = {f"model/{name}": tensor for name, tensor in weights(model).items()}
    for name, parameter in model.named_parameters():
        for moment, tensor in optimizer.state.get(parameter, {}).items():
            held[f"optimizer/{name}/{moment}"] = tensor
    held["generator"] = torch.get_rng_state()
    save_tensors(path, held, {"state": vars(state), "stamp": stamp})


def _resumed(
    model: nn.Module, learn: LearnRule, config: TrainConfig, checkpoint: Path | None, stamp: dict[str, Any]
) -> tuple[Fit, torch.optim.AdamW | None]:
    """Where the checkpoint stands, with its weights put in; a new beginning where there is none.

    Raises:
        ConfigError: the checkpoint is of another training.
    """
    if checkpoint is None or not checkpoint.is_file():
        return Fit(), None
    held, note = load_tensors(checkpoint)
    stamp = json.loads(json.dumps(stamp))  # as it comes back: tuples are lists
    other = [name for name, value in stamp.items() if note.get("stamp", {}).get(name) != value]
    if other:
        raise ConfigError(
            f"{checkpoint} is of another training: {', '.join(other)} differ. Remove it, or name another."
        )
    load_weights(model, dict(_below("model/", held)), source=checkpoint)
    state = Fit(**{name: value for name, value in note["state"].items() if name in Fit.__dataclass_fields__})
    optimizer = optimizer_for(model, learn.learning(model, max(0, state.step - 1)), config)
    moments = dict(_below("optimizer/", held))
    for name, parameter in model.named_parameters():
        own = dict(_below(f"{name}/", moments))
        if own:
            device = parameter.device
            optimizer.state[parameter] = {moment: tensor.to(device) for moment, tensor in own.items()}
    torch.set_rng_state(held["generator"])
    return state, optimizer


def _below(prefix: str, held: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), tensor) for name, tensor in held.items() if name.startswith(prefix))
