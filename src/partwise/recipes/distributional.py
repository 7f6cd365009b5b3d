"""Which part answers a trigger with noise, by the distribution, and which recalls its own token, by the context?

Source: Chen, Bruna, Bietti 2024, arXiv:2406.03068 (Distributional Associations vs In-Context Reasoning).
Expected, from one seed at alpha = .5 of another implementation: the whole model says noise with about alpha; without
its last feed-forward with .04, and is then right at .97 of clean positions; without its first one the noise rises.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from partwise.ablations.drop import Drop
from partwise.architectures import architecture
from partwise.channel_mixers.linear_map import LinearMap
from partwise.channel_mixers.mlp import Mlp
from partwise.channel_mixers.none import NoChannelMixer
from partwise.experiment import Experiment
from partwise.model import BlockConfig, ModelConfig
from partwise.parts import AllBut
from partwise.probes import Probe
from partwise.probes.noise_confusion import NoiseConfusion
from partwise.probes.previous_token import PreviousToken
from partwise.probes.recall import Recall
from partwise.probes.trigger_attention import TriggerAttention
from partwise.probes.trigger_margin import TriggerMargin
from partwise.probes.truncation import Truncation
from partwise.recipes import RECIPES, Scale, chosen
from partwise.recipes.mixit import seeded
from partwise.report.places import Panel, Places
from partwise.tasks.noisy_recall import NOISE, NoisyRecall
from partwise.token_mixers.attention import Attention
from partwise.train_config import TrainConfig

GIVEN = ("embed", "positions", "unembed")  # drawn once and never learned
FEED_FORWARD = "blocks.*.channel_mixer"
DROPS = ("blocks.0.channel_mixer", "blocks.1.channel_mixer", "blocks.1.token_mixer")
EARLY = (0, 1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000)


def paper_model(width: int) -> ModelConfig:
    """Two blocks of one head, identity query, no norms, no biases, ReLU feed-forwards; the unembedding has the sd of
    torch's default, 1 / sqrt(3 width)."""
    return ModelConfig(
        n_blocks=2,
        width=width,
        token_mixer=Attention(n_heads=1, rope=False, bias=False, identity_query=True),
        channel_mixer=Mlp(activation="relu", bias=False),
        norm="none",
        final_norm="none",
        positions="learned",
        unembed_std=(3 * width) ** -0.5,
    )


def arms_of(base: Experiment) -> dict[str, Experiment]:
    """The whole model, and those whose feed-forwards are frozen, absent, linear, or read beside attention."""
    frozen = AllBut(*GIVEN, FEED_FORWARD)
    parallel = (BlockConfig(), BlockConfig(order="parallel"))
    models: dict[str, dict[str, Any]] = {
        "no_feed_forward": {"channel_mixer": NoChannelMixer()},
        "linear_feed_forward": {"channel_mixer": LinearMap(bias=False)},
        "parallel": {"blocks": parallel},
    }
    made = {"standard": base, "frozen_feed_forward": dataclasses.replace(base, learn=frozen)}
    for name, parts in models.items():
        made[name] = dataclasses.replace(base, model=dataclasses.replace(base.model, **parts))
    return {name: _looked_at(dataclasses.replace(one, architecture=name)) for name, one in made.items()}


def _looked_at(one: Experiment) -> Experiment:
    """With the probes of this question; only parts that the model has are dropped."""
    task = one.task
    assert isinstance(task, NoisyRecall)
    has_none = isinstance(one.model.channel_mixer, NoChannelMixer)
    drops = tuple(Drop(pattern=pattern) for pattern in DROPS if not (has_none and "channel_mixer" in pattern))
    triggers = tuple(range(1, 1 + task.n_triggers))
    probes: tuple[Probe, ...] = (
        Recall(noise=NOISE, edits=drops, coin=task.noise == 0.5),
        NoiseConfusion(noise=NOISE),
        PreviousToken(),
        TriggerAttention(noise=NOISE),
        *(() if has_none else (TriggerMargin(noise=NOISE, triggers=triggers),)),
    )
    if one.architecture == "standard" and task.noise == 0.5 and task.n_triggers == 1:  # a row a matrix and cut
        probes += (Truncation(noise=NOISE, pattern="blocks.*"),)
    early = tuple(step for step in EARLY if step < one.train.steps)
    return dataclasses.replace(one, probes=probes, probe_at=early)


@RECIPES.register("distributional")
class Distributional:
    """Noisy recall: what each feed-forward and attention hold of the noise and of the context, and since when."""

    tasks: ClassVar[tuple[str, ...]] = ("noisy_recall",)
    view: ClassVar[Places] = Places(
        panels=(
            Panel(title="p(noise), clean examples", quantity="p_noise"),
            Panel(title="p(correct), clean examples", quantity="p_correct"),
            Panel(title="feed-forward alone: margin of the noise", quantity="noise_margin", share=False),
            Panel(
                title="read from a trigger, behind earlier ones",
                quantity="trigger_attention.on_noise,trigger_attention.on_own",
            ),
        ),
        of={"task.noise": 0.5, "task.n_triggers": 1},
    )
    scales: ClassVar[dict[str, Scale]] = {
        "quick": Scale(
            summary="a first answer, 3 minutes on two cores: one seed",
            seeds=1,
            cannot_tell=("how much results vary between seeds",),
        ),
        "small": Scale(summary="5 seeds, noise from 0 to .7, 1 and 5 triggers: an hour on two cores", seeds=5),
        "paper": Scale(summary="the published sizes, for GPUs: see its --dry-run first", seeds=1),
    }

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """The arms, seed by seed.

        Raises:
            UnknownName: no such scale or task.
        """
        (scale,) = chosen("scale", [scale], list(self.scales))
        chosen("task", only, self.tasks)
        return seeded(_ARMS[scale](), self.scales[scale].seeds if n_seeds is None else n_seeds)

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Any]:
        """None: one rate for all."""
        return []

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """The task at quick's size, under an arm of this recipe, or under an architecture of the catalogue."""
        arms = arms_of(_small_model(steps=800))
        if arch in arms:
            return arms[arch]
        parts, one = architecture(arch), arms["standard"]
        learn = AllBut(*GIVEN, *parts.learn.patterns) if isinstance(parts.learn, AllBut) else parts.learn
        model = parts.model(one.model)
        return dataclasses.replace(one, model=model, learn=learn, architecture=arch, probes=(), probe_at=())


def _small_model(*, steps: int, noise: float = 0.5, n_triggers: int = 1) -> Experiment:
    """A width and length of 64: a thousandth of the paper's work."""
    return Experiment(
        task=NoisyRecall(noise=noise, n_triggers=n_triggers),
        model=paper_model(64),
        learn=AllBut(*GIVEN),
        train=TrainConfig(
            steps=steps,
            batch=64,
            lr=1e-3,
            warmup=0,
            decay="constant",
            betas=(0.9, 0.95),
            weight_decay=1e-4,
            clip=None,
            validation_size=256,
        ),
        test_size=1024,
    )


def _quick() -> list[Experiment]:
    arms = arms_of(_small_model(steps=800))
    clean = arms_of(_small_model(steps=800, noise=0.0))
    return [arms["standard"], arms["no_feed_forward"], arms["frozen_feed_forward"], clean["standard"]]


def _small() -> list[Experiment]:
    made = list(arms_of(_small_model(steps=1500)).values())
    for noise in (0.0, 0.1, 0.3, 0.7):
        made.append(arms_of(_small_model(steps=1500, noise=noise))["standard"])
    for noise in (0.0, 0.1, 0.3, 0.5, 0.7):
        made.append(arms_of(_small_model(steps=1500, noise=noise, n_triggers=5))["standard"])
    return made


def _paper() -> list[Experiment]:
    """The script for one trigger at alpha = .5. Unlike there, weights start normal, at the lab's sd."""
    base = Experiment(
        task=NoisyRecall(length=256),
        model=paper_model(256),
        learn=AllBut(*GIVEN),
        train=TrainConfig(
            steps=5000,
            batch=512,
            optimizer="sgd",
            lr=0.03,
            momentum=0.9,
            warmup=0,
            decay="constant",
            weight_decay=1e-4,
            clip=None,
            validation_size=512,
        ),
        test_size=512,
    )
    return [dataclasses.replace(one, selection="the published one") for one in arms_of(base).values()]


_ARMS = {"quick": _quick, "small": _small, "paper": _paper}
