"""partwise: which parts of a Transformer must learn, and what does each part do?

Start at examples/01_train_one.py. Names are imported when they are first used, so `import partwise` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from partwise.architectures import architecture as architecture
    from partwise.batch import IGNORE as IGNORE
    from partwise.batch import Batch as Batch
    from partwise.channel_mixers.gated_mlp import GatedMlp as GatedMlp
    from partwise.channel_mixers.mlp import Mlp as Mlp
    from partwise.channel_mixers.none import NoChannelMixer as NoChannelMixer
    from partwise.compose import experiments_for as experiments_for
    from partwise.execution import Execution as Execution
    from partwise.experiment import Experiment as Experiment
    from partwise.experiment import load_run as load_run
    from partwise.experiment import run as run
    from partwise.experiment import vary as vary
    from partwise.joins.add import Add as Add
    from partwise.joins.add import Scaled as Scaled
    from partwise.model import BlockConfig as BlockConfig
    from partwise.model import ModelConfig as ModelConfig
    from partwise.model import Transformer as Transformer
    from partwise.parts import AllBut as AllBut
    from partwise.parts import Only as Only
    from partwise.parts import Stages as Stages
    from partwise.parts import census as census
    from partwise.plugins import load_plugins as load_plugins
    from partwise.population import train_population as train_population
    from partwise.probes.mix_entropy import MixEntropy as MixEntropy
    from partwise.probes.score_spread import ScoreSpread as ScoreSpread
    from partwise.records import RunRecord as RunRecord
    from partwise.records import read_records as read_records
    from partwise.report import compare as compare
    from partwise.report import draw as figure  # noqa: F401
    from partwise.report import render as table  # noqa: F401
    from partwise.rows import Row as Row
    from partwise.shapes import TaskShape as TaskShape
    from partwise.sweep import Options as Options
    from partwise.sweep import run_all as run_all
    from partwise.taps import record as record
    from partwise.taps import rewrite as rewrite
    from partwise.tasks.addition import Addition as Addition
    from partwise.tasks.brackets import Brackets as Brackets
    from partwise.tasks.k_hop import KHop as KHop
    from partwise.tasks.memorization import Memorization as Memorization
    from partwise.tasks.modular_addition import ModularAddition as ModularAddition
    from partwise.tasks.needle import Needle as Needle
    from partwise.token_mixers.attention import Attention as Attention
    from partwise.token_mixers.none import NoTokenMixer as NoTokenMixer
    from partwise.token_mixers.random_mixing import RandomMixing as RandomMixing
    from partwise.token_mixers.uniform import Uniform as Uniform
    from partwise.train_config import PartRate as PartRate
    from partwise.train_config import TrainConfig as TrainConfig
    from partwise.trial import train as train

_HOME = {  # the same at run time; a test holds the two together
    "architectures": ("architecture",),
    "batch": ("IGNORE", "Batch"),
    "channel_mixers.gated_mlp": ("GatedMlp",),
    "channel_mixers.mlp": ("Mlp",),
    "channel_mixers.none": ("NoChannelMixer",),
    "compose": ("experiments_for",),
    "execution": ("Execution",),
    "experiment": ("Experiment", "load_run", "run", "vary"),
    "joins.add": ("Add", "Scaled"),
    "model": ("BlockConfig", "ModelConfig", "Transformer"),
    "parts": ("AllBut", "Only", "Stages", "census"),
    "plugins": ("load_plugins",),
    "population": ("train_population",),
    "probes.mix_entropy": ("MixEntropy",),
    "probes.score_spread": ("ScoreSpread",),
    "records": ("RunRecord", "read_records"),
    "report": ("compare", "draw", "render"),
    "rows": ("Row",),
    "shapes": ("TaskShape",),
    "sweep": ("Options", "run_all"),
    "taps": ("record", "rewrite"),
    "tasks.addition": ("Addition",),
    "tasks.brackets": ("Brackets",),
    "tasks.k_hop": ("KHop",),
    "tasks.modular_addition": ("ModularAddition",),
    "tasks.memorization": ("Memorization",),
    "tasks.needle": ("Needle",),
    "token_mixers.attention": ("Attention",),
    "token_mixers.none": ("NoTokenMixer",),
    "token_mixers.random_mixing": ("RandomMixing",),
    "token_mixers.uniform": ("Uniform",),
    "train_config": ("PartRate", "TrainConfig"),
    "trial": ("train",),
}
_VERBS = {"render": "table", "draw": "figure"}  # called as on the command line
_PLACE_OF = {_VERBS.get(name, name): (module, name) for module, names in _HOME.items() for name in names}
__all__ = sorted(_PLACE_OF)


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'partwise' has no attribute {name!r}")
    module, own_name = _PLACE_OF[name]
    return getattr(importlib.import_module(f"partwise.{module}"), own_name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
