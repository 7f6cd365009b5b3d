"""`partwise new`: a part that works as it stands, its test, and a two-line recipe that runs it."""

import importlib
import importlib.util
import keyword
from pathlib import Path

from partwise.errors import ConfigError, UnknownName, did_you_mean
from partwise.records import write_text

TOKEN_MIXER = '''"""{title}: say here what it does, and where it is from."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from partwise.layers import linear
from partwise.shapes import MixerSize
from partwise.taps import Tap
from partwise.token_mixers import TOKEN_MIXERS


@TOKEN_MIXERS.register("{name}")
@dataclass(frozen=True, kw_only=True)
class {cls}:
    """One line for `partwise list`: here, each position reads the one `shift` places before it.

    Args:
        shift: how far back; the first positions read the first.
    """

    shift: int = 1

    def build(self, size: MixerSize, *, generator: torch.Generator) -> nn.Module:
        return _{cls}(self, size, generator)


class _{cls}(nn.Module):
    def __init__(self, config: {cls}, size: MixerSize, generator: torch.Generator):
        super().__init__()
        self.value = linear(size.width, size.width, generator)  # attribute names are the part addresses
        self.out = linear(size.width, size.width, generator)
        self.mix = Tap()  # a place for probes to look and for ablations to write
        read_L = (torch.arange(size.length) - config.shift).clamp_min(0)
        self.register_buffer("mix_LS", torch.eye(size.length)[read_L])  # a buffer, so that a checkpoint holds it

    def forward(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        length = x_BLD.shape[1]
        mix_BHLS = self.mix(self.mix_LS[None, None, :length, :length])
        return self.out(mix_BHLS[0, 0] @ self.value(x_BLD))
'''

TASK = '''"""{title}: say here what is asked, and where it is from.

    tokens   3 1 2 ?
    targets  . . . 3
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from partwise.batch import IGNORE, Batch
from partwise.errors import ConfigError
from partwise.shapes import Split, TaskShape
from partwise.tasks import TASKS
from partwise.tasks.splits import draw_split


@TASKS.register("{name}")
@dataclass(frozen=True, kw_only=True)
class {cls}:
    """One line for `partwise list`: here, name the first token at the end.

    Args:
        length: tokens before the question.
        n_tokens: different ones.
    """

    length: int = 8
    n_tokens: int = 16

    def __post_init__(self) -> None:
        if self.length < 1 or self.n_tokens < 2:
            raise ConfigError(f"length={{self.length}}, n_tokens={{self.n_tokens}}: at least 1 and 2 were expected.")

    def build(self, *, seed: int) -> "{cls}Data":
        return {cls}Data(self)


class {cls}Data:
    ceiling = None  # 1.0 can be reached
    splits_overlap = None

    def __init__(self, task: {cls}):
        self.task = task
        self.shape = TaskShape(length=task.length + 1, vocabulary=task.n_tokens + 1)

    def sample(self, n: int, *, split: Split, generator: torch.Generator) -> Batch:
        def draw(count: int) -> Tensor:
            return torch.randint(self.task.n_tokens, (count, self.task.length), generator=generator)

        asked_BL = draw_split(n, split, draw)
        question_B1 = torch.full((n, 1), self.task.n_tokens)
        targets_BL = torch.full((n, self.shape.length), IGNORE)
        targets_BL[:, -1] = asked_BL[:, 0]
        return Batch(tokens_BL=torch.cat((asked_BL, question_B1), dim=1), targets_BL=targets_BL)

    def floors(self, batch: Batch) -> dict[str, Tensor]:
        """A predictor without the ability: the token before the question."""
        return {{"last_token": batch.tokens_BL[:, -2:-1].expand_as(batch.tokens_BL)}}

    def referee(self, tokens: list[int]) -> list[int]:
        """The right answers for one example, in plain Python."""
        return [IGNORE] * (len(tokens) - 1) + [tokens[0]]
'''

PROBE = '''"""{title}: say here what is asked of the model."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from partwise.batch import Batch
from partwise.evaluation import predict
from partwise.probes import PROBES
from partwise.rows import Row
from partwise.taps import has_tap, record


@PROBES.register("{name}")
@dataclass(frozen=True, kw_only=True)
class {cls}:
    """One line for `partwise list`: here, the share of the mix that stays on a position itself."""

    def measure(self, model: nn.Module, batch: Batch) -> Iterator[Row]:
        if not has_tap(model, "mix"):
            return  # somebody else's module, or one that mixes nothing
        with record(model, "mix") as seen, torch.no_grad():
            predict(model, batch)
        for address, mix_BHLS in seen.items():
            size_BHLS = mix_BHLS.float().abs()
            own_BHL = size_BHLS.diagonal(dim1=-2, dim2=-1) / size_BHLS.sum(-1)
            own_NH = own_BHL.expand(len(batch), -1, -1).transpose(1, 2)[batch.used_BL]  # padding does not count
            yield Row(where=address, quantity="{name}", value=own_NH.mean().item(), n=own_NH.numel())
'''

TEST = '''"""The contracts of the lab, on {name}."""

import importlib
import importlib.util
import keyword
from pathlib import Path

from partwise.contracts import check_{kind}
from partwise.plugins import load_plugin
from partwise.{registry_module} import {registry}

load_plugin(Path(__file__).parent / "{name}.py")


def test_{name}_keeps_the_contracts():
    check_{kind}({registry}["{name}"]())
'''

RUN = {
    "token-mixer": 'experiments_for("needle", ["{name}"], ["train.steps=200"])',
    "task": 'experiments_for("{name}", ["standard"], ["train.steps=200"])',
    "probe": 'experiments_for("needle", ["standard"], [\'probes=["{name}"]\', "train.steps=200"])',
}

# Two lines after the imports: the runs, and the table.
RECIPE = """import partwise

partwise.load_plugins(["{file}"])
print(partwise.table([partwise.run(experiment) for experiment in partwise.{run}]))
"""

KINDS = {
    "token-mixer": (TOKEN_MIXER, "token_mixers", "TOKEN_MIXERS"),
    "task": (TASK, "tasks", "TASKS"),
    "probe": (PROBE, "probes", "PROBES"),
}


def write_part(kind: str, name: str, folder: Path) -> str:
    """Write NAME.py, test_NAME.py and run_NAME.py; none of them may be there already.

    Returns:
        what to do next, in a few lines.

    Raises:
        UnknownName: no such kind.
        ConfigError: the name is no Python name, or a file is in the way.
    """
    kind = kind.replace("_", "-")
    if kind not in KINDS:
        raise UnknownName(f"new {kind!r}: no such kind.{did_you_mean(kind, KINDS)} There are: {', '.join(KINDS)}.")
    if not name.isidentifier() or not name.islower() or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is no name for a part: lower-case letters, digits and _ were expected, as in my_part."
        )
    text, module, registry = KINDS[kind]
    if name in getattr(importlib.import_module(f"partwise.{module}"), registry).names():
        raise ConfigError(f"there is a {kind} called {name!r} already; choose another name.")
    words = {
        "name": name,
        "cls": "".join(word.capitalize() for word in name.split("_")),
        "title": name.replace("_", " ").capitalize(),
        "kind": kind.replace("-", "_"),
        "registry_module": module,
        "registry": registry,
        "file": f"{name}.py",
        "run": RUN[kind].format(name=name),
    }
    files = {
        folder / f"{name}.py": text,
        folder / f"test_{name}.py": TEST,
        folder / f"run_{name}.py": RECIPE,
    }
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} is there already; choose another name, or --out another folder.")
    for path, content in files.items():
        write_text(path, content.format(**words))
    part, test, recipe = files
    first = "" if importlib.util.find_spec("pytest") else " (after: pip install pytest)"
    option = {
        "token-mixer": f"partwise run needle --arch standard,{name} --plugin {part}",
        "task": f"partwise run {name} --arch standard,mixit --plugin {part}",
        "probe": f"partwise run needle --set 'probes=[\"{name}\"]' --plugin {part}",
    }[kind]
    return (
        f"{part}   the part; it works as it stands, change what it does\n"
        f"{test}   its test: python -m pytest {test}{first}\n"
        f"{recipe}   runs it: python {recipe}\n"
        f"or: {option}\n"
    )
