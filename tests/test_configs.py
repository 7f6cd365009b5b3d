"""Configs to and from plain data: nothing is lost, nothing misspelt gets through, and the digest is the meaning."""

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import ClassVar

import pytest

from partwise.channel_mixers import CHANNEL_MIXERS
from partwise.channel_mixers.gated_mlp import GatedMlp
from partwise.channel_mixers.mlp import Mlp
from partwise.configs import digest, from_plain, parsed, replaced, to_plain
from partwise.corpora import CORPORA
from partwise.encoders import ENCODERS
from partwise.errors import ConfigError, UnknownName
from partwise.experiment import Experiment
from partwise.joins import JOINS
from partwise.joins.add import Scaled
from partwise.model import BlockConfig, ModelConfig
from partwise.parts import LEARN_RULES, AllBut, Only, Stages
from partwise.probes import PROBES
from partwise.probes.mix_entropy import MixEntropy
from partwise.probes.score_spread import ScoreSpread
from partwise.tasks import TASKS
from partwise.tasks.memorization import Memorization
from partwise.tasks.needle import Needle
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.uniform import Uniform
from partwise.train_config import PartRate, TrainConfig

REGISTRIES = (TASKS, TOKEN_MIXERS, CHANNEL_MIXERS, JOINS, PROBES, CORPORA, ENCODERS)
EVERY = [(registry, name) for registry in REGISTRIES for name in registry.names()]

FULL = Experiment(
    task=Needle(n_pairs=3, n_keys=7),
    model=ModelConfig(
        n_blocks=4,
        token_mixer=RandomMixing(std=(0.1, 0.2)),
        channel_mixer=Mlp(hidden=9, activation="relu"),
        join=Scaled(s=0.5),
        blocks=(BlockConfig(token_mixer=Attention(n_heads=2), norm="none"), BlockConfig(join=Scaled(r=0.1))),
    ),
    learn=Stages((0, Only("embed", "positions?")), (5, AllBut("blocks.*.token_mixer.value"))),
    train=TrainConfig(steps=10, clip=None, betas=(0.8, 0.9), parts=(PartRate(pattern="embed", lr=0.1),)),
    probes=(MixEntropy(), ScoreSpread()),
    seed=3,
    data_seed=4,
    architecture="mine",
)


@pytest.mark.parametrize(("registry", "name"), EVERY, ids=[f"{r.kind} {n}" for r, n in EVERY])
def test_every_part_survives_json(registry, name):
    config = registry[name]()
    plain = json.loads(json.dumps(to_plain(config)))
    assert plain.pop("name") == name
    assert from_plain(type(config), plain) == config


def test_every_part_survives_with_each_field_off_its_default():
    for config in (
        Attention(n_heads=2, n_kv_heads=1, rope=False, rope_base=3.0, qk_scale=0.5, bias=False, identity_query=True),
        RandomMixing(n_heads=2, std=(0.0, 0.5), identity=False, sink=True, bias=False),
        Needle(n_pairs=5, min_pairs=2, n_keys=9, n_values=4),
        Memorization(n_first=3, n_second=4, n_values=5),
    ):
        default = type(config)()
        for field in dataclasses.fields(config):
            assert getattr(config, field.name) != getattr(default, field.name)
        plain = json.loads(json.dumps(to_plain(config)))
        assert from_plain(type(config), {k: v for k, v in plain.items() if k != "name"}) == config


def test_a_whole_experiment_survives_json_with_and_without_its_defaults():
    for bare in (False, True):
        plain = json.loads(json.dumps(to_plain(FULL, without_defaults=bare)))
        back = from_plain(Experiment, plain)
        assert back == (dataclasses.replace(FULL, architecture="") if bare else FULL)
        assert back.digest == FULL.digest


def test_the_bare_name_of_a_part_stands_for_its_defaults():
    plain = {"task": "needle", "model": {"token_mixer": "uniform"}, "learn": {"name": "only", "patterns": ["embed"]}}
    found = from_plain(Experiment, plain)
    assert found == Experiment(task=Needle(), model=ModelConfig(token_mixer=Uniform()), learn=Only("embed"))


MISSPELT = [
    ({"taks": "needle"}, "taks: Experiment has no 'taks'. Did you mean 'task'?"),
    ({"task": {"name": "needle", "n_pair": 3}}, "task.n_pair: needle has no 'n_pair'. Did you mean 'n_pairs'"),
    ({"model": {"widht": 3}}, "model.widht: ModelConfig has no 'widht'. Did you mean 'width'?"),
    (
        {"model": {"token_mixer": {"name": "attention", "n_head": 2}}},
        "model.token_mixer.n_head: attention has no 'n_head'. Did you mean 'n_heads'",
    ),
    (
        {"model": {"blocks": [{}, {"token_mixer": {"name": "uniform", "bais": True}}]}},
        "model.blocks.1.token_mixer.bais: uniform has no 'bais'. Did you mean 'bias'? It has: bias.",
    ),
    ({"train": {"learning_rte": 5}}, "train.learning_rte: TrainConfig has no 'learning_rte'."),
    (
        {"train": {"parts": [{"pattern": "embed", "lrr": 1.0}]}},
        "train.parts.0.lrr: PartRate has no 'lrr'. Did you mean 'lr'?",
    ),
    (
        {"learn": {"name": "stages", "stages": [{"start": 0, "rul": "all_but"}]}},
        "learn.stages.0.rul: Stage has no 'rul'. Did you mean 'rule'?",
    ),
    ({"probes": ["mix_entropy", {"name": "mix_entropy", "bins": 3}]}, "probes.1.bins: mix_entropy has no 'bins'."),
]


@pytest.mark.parametrize(("plain", "message"), MISSPELT)
def test_a_misspelt_key_is_an_error_at_every_depth(plain, message):
    with pytest.raises(ConfigError) as caught:
        from_plain(Experiment, {"task": "needle"} | plain)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"task": "nedle"}, "no task is called 'nedle'. Did you mean 'needle'?"),
        ({"model": {"token_mixer": "unifrm"}}, "no token mixer is called 'unifrm'. Did you mean 'uniform'?"),
        ({"probes": ["mix_entropie"]}, "no probe is called 'mix_entropie'. Did you mean 'mix_entropy'?"),
        ({"learn": "al_but"}, "no learn rule is called 'al_but'. Did you mean 'all_but'?"),
        ({"model": {"token_mixer": "mlp"}}, "no token mixer is called 'mlp'."),
    ],
)
def test_an_unknown_part_is_an_error_with_the_nearest(plain, message):
    with pytest.raises(UnknownName) as caught:
        from_plain(Experiment, {"task": "needle"} | plain)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("plain", "where"),
    [
        ({"seed": "three"}, "seed is 'three'"),
        ({"seed": True}, "seed is True"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"model": {"width": "64"}}, "model.width is '64'"),
        ({"model": {"tied": 1}}, "model.tied is 1"),
        ({"model": {"norm": "batch"}}, "model.norm is 'batch'"),
        ({"model": {"blocks": {"norm": "rms"}}}, "model.blocks is {'norm': 'rms'}: a list was expected"),
        ({"model": {"blocks": [3]}}, "model.blocks.0 is 3: fields of BlockConfig were expected"),
        ({"model": 3}, "model is 3: fields of ModelConfig were expected"),
        ({"task": 3}, "task is 3: the name of a task was expected"),
        ({"task": {"n_pairs": 3}}, "task is {'n_pairs': 3}: the name of a task was expected"),
        ({"task": None}, "task is None"),
        ({"train": {"betas": [0.9]}}, "train.betas is [0.9]: a list of 2"),
        ({"train": {"lr": None}}, "train.lr is None"),
        ({"train": {"parts": [{"lr": 1.0}]}}, "train.parts.0: "),
        ({"task": {"name": "needle", "n_pairs": 0}}, "task: min_pairs=1 and n_pairs=0"),
        ({"model": {"width": 0}}, "model: width is 0"),
    ],
)
def test_a_wrong_type_or_value_is_an_error_that_says_where(plain, where):
    with pytest.raises(ConfigError) as caught:
        from_plain(Experiment, {"task": "needle"} | plain)
    assert str(caught.value).startswith(where)


def test_a_part_in_the_wrong_slot_is_an_error():
    for value in (Mlp(), Needle(), MixEntropy()):
        with pytest.raises(ConfigError, match="which is not registered as a token mixer"):
            replaced(FULL, "model.token_mixer", value)
    with pytest.raises(ConfigError, match="ModelConfig was expected"):
        replaced(FULL, "model", Needle())


@dataclass(frozen=True, kw_only=True)
class Unlisted(Attention):
    """It derives from a registered part and is none itself."""

    extra: int = 1


def test_a_part_that_is_not_registered_has_no_digest_to_be_mistaken_for_another():
    for config in (Unlisted(), Mlp()):
        with pytest.raises(ConfigError, match=r"token_mixer is .* not registered as a token mixer"):
            digest(ModelConfig(token_mixer=config))
        with pytest.raises(ConfigError, match="not registered as a token mixer"):
            to_plain(ModelConfig(n_blocks=2, blocks=(BlockConfig(token_mixer=config),)))
    assert "name" not in to_plain(Unlisted())


def test_whole_floats_pass_for_integers_since_a_person_writes_1e3():
    assert from_plain(TrainConfig, {"steps": 1e3}).steps == 1000
    assert isinstance(from_plain(TrainConfig, {"steps": 1e3}).steps, int)
    assert from_plain(Needle, {"n_keys": 9.0}).n_keys == 9


# The digest


def test_the_digest_ignores_defaults_and_labels():
    bare = Experiment(task=Needle())
    spelt = Experiment(
        task=Needle(n_pairs=8, n_keys=None),
        model=ModelConfig(token_mixer=Attention(n_heads=4)),
        learn=AllBut(),
        train=TrainConfig(steps=1000),
        architecture="standard",
        matching="parameters",
        selection="on validation",
    )
    assert spelt.digest == bare.digest
    assert len(bare.digest) == 16
    assert int(bare.digest, 16) >= 0


CHANGES = {
    "seed": 1,
    "init_seed": 0,
    "data_seed": 0,
    "test_size": 4001,
    "task.n_pairs": 9,
    "task": {"name": "memorization"},
    "model.width": 32,
    "model.token_mixer": "uniform",
    "model.token_mixer.n_heads": 2,
    "model.token_mixer.qk_scale": 0.5,
    "model.blocks": [{"norm": "none"}],
    "learn": {"name": "all_but", "patterns": ["embed"]},
    "train.lr": 0.002,
    "train.clip": None,
    "train.betas": [0.9, 0.99],
    "probes": ["mix_entropy"],
}


@pytest.mark.parametrize("path", CHANGES)
def test_the_digest_changes_with_everything_that_changes_the_numbers(path):
    base = Experiment(task=Needle())
    assert replaced(base, path, CHANGES[path]).digest != base.digest


def test_no_two_changes_share_a_digest():
    base = Experiment(task=Needle())
    found = {replaced(base, path, value).digest for path, value in CHANGES.items()}
    assert len(found) == len(CHANGES)


def test_none_and_zero_are_different_meanings():
    base = Experiment(task=Needle())
    assert dataclasses.replace(base, init_seed=0).digest != base.digest  # asked for, not left open
    with_none = dataclasses.replace(base.train, clip=None)
    assert dataclasses.replace(base, train=with_none).digest != base.digest


def test_a_raised_version_changes_the_digest_and_version_1_is_left_out(monkeypatch):
    base, other = Experiment(task=Needle()), Experiment(task=Needle(), model=ModelConfig(token_mixer=Uniform()))
    before, untouched = base.digest, other.digest
    monkeypatch.setattr(Attention, "version", 2, raising=False)
    assert base.digest != before  # though the part stands there by default
    assert other.digest == untouched
    monkeypatch.setattr(Attention, "version", 1, raising=False)
    assert base.digest == before


def test_an_option_that_is_added_later_does_not_orphan_old_results():
    @dataclass(frozen=True, kw_only=True)
    class Before:
        version: ClassVar[int] = 1
        width: int = 3

    @dataclass(frozen=True, kw_only=True)
    class After:
        version: ClassVar[int] = 1
        width: int = 3
        added: bool = False

    assert digest(Before(width=4)) == digest(After(width=4))
    assert digest(After(width=4, added=True)) != digest(After(width=4))


# Paths


@pytest.mark.parametrize(
    ("path", "value", "read"),
    [
        ("seed", 9, lambda e: e.seed == 9),
        ("task.n_pairs", 4, lambda e: e.task == Needle(n_pairs=4, n_keys=7)),
        ("model.token_mixer", "uniform", lambda e: e.model.token_mixer == Uniform()),
        ("model.token_mixer", Uniform(bias=False), lambda e: e.model.token_mixer == Uniform(bias=False)),
        ("model.token_mixer.std", [0.0, 0.1], lambda e: e.model.token_mixer.std == (0.0, 0.1)),
        ("model.blocks.0.token_mixer.n_heads", 1, lambda e: e.model.blocks[0].token_mixer.n_heads == 1),
        ("model.blocks.1.channel_mixer", "gated_mlp", lambda e: e.model.blocks[1].channel_mixer == GatedMlp()),
        ("model.blocks.1", {"norm": "layer"}, lambda e: e.model.blocks[1] == BlockConfig(norm="layer")),
        ("model.blocks", [], lambda e: e.model.blocks == ()),
        ("train.parts.0.lr", 0.5, lambda e: e.train.parts[0].lr == 0.5),
        ("probes.1", "mix_entropy", lambda e: e.probes == (MixEntropy(), MixEntropy())),
        ("learn", Only("embed"), lambda e: e.learn == Only("embed")),
        ("learn.stages.1.start", 7, lambda e: e.learn.changes() == (7,)),
        ("learn.stages.0.rule.patterns", ["unembed"], lambda e: e.learn.stages[0].rule == Only("unembed")),
    ],
)
def test_a_path_sets_one_field_and_leaves_the_rest(path, value, read):
    before = to_plain(FULL)
    changed = replaced(FULL, path, value)
    assert read(changed)
    assert to_plain(FULL) == before
    top = path.split(".")[0]
    for field in dataclasses.fields(Experiment):
        if field.name != top:
            assert getattr(changed, field.name) == getattr(FULL, field.name)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model.token_mixr", 1, "model.token_mixr: ModelConfig has no 'token_mixr'. Did you mean 'token_mixer'?"),
        ("model.blocks.7.norm", "rms", "model.blocks.7: there are 2 of them, counted from 0."),
        ("model.blocks.first.norm", "rms", "model.blocks.first: there are 2 of them"),
        ("seed.deeper", 1, "seed.deeper: seed is 3, which has nothing inside to set."),
        ("task.n_pairs", "many", "task.n_pairs is 'many'"),
        ("task.n_pairs", 99, "task: 99 pairs need as many different keys"),
        ("model.blocks.1", {"nrm": "layer"}, "model.blocks.1.nrm: BlockConfig has no 'nrm'. Did you mean 'norm'?"),
        ("probes.0", 3, "probes.0 is 3: the name of a probe was expected"),
        ("", 3, ": Experiment has no ''."),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(path, value, message):
    with pytest.raises(ConfigError) as caught:
        replaced(FULL, path, value)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("task.n_pairs=8", ("task.n_pairs", 8)),
        ("train.lr=1e-3", ("train.lr", 0.001)),
        ("model.token_mixer=uniform", ("model.token_mixer", "uniform")),
        ("model.tied=true", ("model.tied", True)),
        ("train.clip=null", ("train.clip", None)),
        ("model.token_mixer.std=[0.1, 0.2]", ("model.token_mixer.std", [0.1, 0.2])),
        ('task={"name": "needle"}', ("task", {"name": "needle"})),
        (" seed = 3", ("seed", 3)),
        ("selection=a=b", ("selection", "a=b")),
    ],
)
def test_a_setting_is_a_path_and_json_or_text(setting, expected):
    assert parsed(setting) == expected


@pytest.mark.parametrize("setting", ["task.n_pairs", "=3", "  =3", ""])
def test_a_setting_without_a_key_and_a_value_is_an_error(setting):
    with pytest.raises(ConfigError, match=r"key=value was expected, such as task\.n_pairs=8"):
        parsed(setting)


def test_rules_survive_and_their_names_are_registered():
    assert LEARN_RULES.names() == ["all_but", "only", "stages"]
    for rule in (AllBut(), AllBut("a", "b?"), Only("a.*"), FULL.learn):
        assert replaced(FULL, "learn", json.loads(json.dumps(to_plain(rule)))).learn == rule


def test_numbers_that_json_lacks_are_refused_by_the_settings_that_cannot_mean_them():
    with pytest.raises(ConfigError, match="a positive number was expected"):
        replaced(FULL, "train.lr", math.inf)
    assert parsed("train.lr=Infinity") == ("train.lr", math.inf)


def test_a_whole_number_is_the_same_as_a_float_or_an_int():
    assert digest(TrainConfig(lr=1)) == digest(TrainConfig(lr=1.0))
    assert digest(ModelConfig(embed_std=1)) == digest(ModelConfig())
    assert digest(ModelConfig(tied=True)) != digest(ModelConfig())
