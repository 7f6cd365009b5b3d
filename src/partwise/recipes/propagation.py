"""Do tokens stay apart through depth, and does a deep random Transformer still have something to learn from?

Source: Dong, Noci, Khodak, Li 2025, arXiv:2506.01115, tables 6 and 7 (addition by depth; covariance of tokens).
Expected: as drawn, tokens of standard become alike with depth and those of shaped attention and MixiT do not, the
published MixiT of few heads excepted: its sink head and nearly dead feed-forward make it collapse (mixit.md 4.4).
Trained, embeddings_only is claimed to fail with depth where MixiT's mixing does not; whether that holds above the floor
is what `small` asks, at one rate for all depths: an arm that fails may want another. Minutes on two cores: quick 1 to
2, small 60 (estimated, not run).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

from partwise.architectures import architecture
from partwise.configs import replaced
from partwise.experiment import Experiment
from partwise.model import ModelConfig
from partwise.probes.propagation import Propagation as Probe
from partwise.recipes import RECIPES, Scale, chosen
from partwise.recipes.mixit import Mixit, arm, seeded
from partwise.recipes.mixit_sizes import needle
from partwise.registry import name_of
from partwise.report.lines import View
from partwise.selection import Grid
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention

# By label: an architecture and settings of it. A token mixer is a clean arm; embeddings_only starts as standard does.
AS_DRAWN: dict[str, tuple[str, dict[str, Any]]] = {
    "standard_published": ("standard_published", {}),
    "shaped_published": ("shaped_published", {}),
    "mixit_published": ("mixit_published", {}),
    "mixit_published, 64 heads": ("mixit_published", {"model.token_mixer.n_heads": 64}),
    "mixit_published, no sink": ("mixit_published", {"model.token_mixer.sink": False}),
    "mixit_published, MLP factor fixed": ("mixit_published", {"model.channel_mixer.base_hidden": None}),
    "standard (embeddings_only)": ("standard", {}),
    "shaped_attention": ("shaped_attention", {}),
    "mixit": ("mixit", {}),
    "uniform": ("uniform", {}),
}
DEPTH, WIDTH = 64, 512
PUBLISHED_DEPTHS = (2, 4, 8, 16)
HEADS = (4, 16, 64)


@RECIPES.register("propagation")
class Propagation:
    """Depth: do tokens stay apart as drawn (quick), and which random Transformers still learn (small)?"""

    tasks: ClassVar[tuple[str, ...]] = ("needle", "addition")
    scales: ClassVar[dict[str, Scale]] = {
        "quick": Scale(summary="ten models of 64 blocks as drawn, none is trained: a minute on two cores", seeds=1),
        "small": Scale(summary="depth 2 to 16, learning nothing but embeddings: an hour on two cores", seeds=3),
    }
    as_drawn: ClassVar[tuple[str, ...]] = ("quick",)  # scales whose models are looked at and not trained
    view: ClassVar[View] = View(over="model.n_blocks", label="blocks", log=True)

    def experiments(self, scale: str, *, only: Sequence[str] = (), n_seeds: int | None = None) -> list[Experiment]:
        """Quick asks needle's tokens alone, all of them different; small trains on both tasks.

        Raises:
            UnknownName: no such scale or task.
        """
        (scale,) = chosen("scale", [scale], list(self.scales))
        tasks = chosen("task", only, self.tasks)
        arms = [_as_drawn(label) for label in AS_DRAWN] if scale == "quick" else _depths()
        arms = [one for one in arms if name_of(one.task) in tasks]
        return seeded(arms, self.scales[scale].seeds if n_seeds is None else n_seeds)

    def grids(self, scale: str, *, only: Sequence[str] = ()) -> list[Grid]:
        """None: rates are those of the recipe mixit."""
        return []

    def base(self, task: str, arch: str = "standard") -> Experiment:
        """The task at quick's size, under an architecture."""
        return Mixit().base(task, arch)


def _as_drawn(label: str) -> Experiment:
    """A model of the published width, before 33 tokens that differ but for values that meet by chance."""
    name, settings = AS_DRAWN[label]
    base = ModelConfig(n_blocks=DEPTH, width=WIDTH, token_mixer=Attention(n_heads=4), embed_std=1.0)
    one = Experiment(
        task=Needle(n_pairs=16, min_pairs=16, n_values=255),
        model=architecture(name).model(base),
        probes=(Probe(),),
        test_size=2,
        architecture=label,
    )
    for path, value in settings.items():
        one = replaced(one, path, value)
    return one


def _depths() -> list[Experiment]:
    """Nothing but embeddings learns: over attention, and over MixiT's mixing with 4 to 64 heads."""
    made = []
    for base in (needle(4), Mixit().base("addition")):
        random = arm(base, "embeddings_only")
        for n_blocks in PUBLISHED_DEPTHS:
            deep = replaced(random, "model.n_blocks", n_blocks)
            made.append(dataclasses.replace(deep, probes=(Probe(),)))
            for heads in HEADS:
                mixed = dataclasses.replace(deep, model=architecture("mixit").model(deep.model), probes=(Probe(),))
                mixed = replaced(mixed, "model.token_mixer.n_heads", heads)
                made.append(dataclasses.replace(mixed, architecture=f"embeddings_only, mixing of {heads} heads"))
    return made
