"""The probes of noisy recall on planted models, and one small run of the recipe, end to end."""

import dataclasses
from dataclasses import dataclass

import pytest
import torch

from partwise.batch import IGNORE, Batch
from partwise.channel_mixers.linear_map import LinearMap
from partwise.channel_mixers.none import NoChannelMixer
from partwise.corpora import CORPORA, Text
from partwise.experiment import run
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.parts import AllBut
from partwise.probes.noise_confusion import NoiseConfusion
from partwise.probes.recall import Recall
from partwise.probes.trigger_attention import TriggerAttention
from partwise.probes.trigger_margin import TriggerMargin
from partwise.recipes.distributional import DROPS, Distributional, arms_of, paper_model
from partwise.shapes import TaskShape
from partwise.taps import rewrite

VOCABULARY = 6


def planted(**config):
    """Embedding and unembedding are the identity, so a logit is a channel of the stream."""
    usual = {"n_blocks": 2, "width": 8, "norm": "none", "final_norm": "none", "channel_mixer": LinearMap(bias=False)}
    model = Transformer(ModelConfig(**usual | config), TaskShape(length=6, vocabulary=VOCABULARY), seed=0)
    with torch.no_grad():
        for table in (model.embed, model.unembed):
            table.weight.copy_(torch.eye(VOCABULARY, 8))
        for block in model.blocks:
            if block.channel_mixer is not None:
                block.channel_mixer.weight.zero_()
    return model


def batch_of(tokens, targets):
    return Batch(tokens_BL=torch.tensor(tokens), targets_BL=torch.tensor(targets))


EXAMPLE = batch_of([[1, 0, 1, 4, 1, 0]], [[IGNORE, IGNORE, 4, IGNORE, 0, IGNORE]])


def found(probe, model, batch=EXAMPLE):
    return {(row.where, row.quantity): row.value for row in probe.measure(model, batch)}


def test_the_margin_is_that_of_the_feed_forward_alone():
    model = planted(positions="learned")
    with torch.no_grad():
        model.blocks[1].channel_mixer.weight[0, 1] = 3.0  # trigger 1 to the noise
        model.blocks[1].channel_mixer.weight[5, 1] = 1.0
        model.blocks[0].channel_mixer.weight[5, 1] = 2.0
        model.blocks[1].channel_mixer.weight[0, 5] = -7.0
    rows = found(TriggerMargin(noise=0, triggers=(1,)), model)
    assert rows == {
        ("blocks.0.channel_mixer", "noise_margin"): -2.0,
        ("blocks.1.channel_mixer", "noise_margin"): 2.0,
        ("blocks.1.channel_mixer of blocks.0.channel_mixer", "noise_margin"): -14.0,
    }
    mean = found(TriggerMargin(noise=0, triggers=(1, 2)), model)
    assert mean["blocks.1.channel_mixer", "noise_margin"] == 1.0


def test_a_model_without_feed_forwards_or_tokens_has_no_margin():
    assert found(TriggerMargin(), planted(channel_mixer=NoChannelMixer())) == {}
    assert found(TriggerMargin(noise=VOCABULARY), planted()) == {}


def test_attention_is_shared_out_between_noise_and_all_else():
    model = planted()
    sharp = torch.zeros(6, 6)
    sharp[2] = torch.tensor([0.0, 0.7, 0.3, 0, 0, 0])  # one trigger before, and noise behind it
    sharp[4] = torch.tensor([0.1, 0.2, 0.0, 0.6, 0.1, 0])  # noise at 1, own token at 3
    with rewrite(model, "blocks.1.token_mixer.mix", lambda mix: sharp.expand_as(mix)):
        rows = found(TriggerAttention(noise=0), model)
    at = "blocks.1.token_mixer.mix"
    assert rows[at, "trigger_attention.on_noise"] == pytest.approx((0.7 + 0.2) / 2)
    assert rows[at, "trigger_attention.on_own"] == pytest.approx((0.0 + 0.6) / 2)
    assert rows[at, "trigger_attention.on_noise.if_even"] == pytest.approx((1 / 3 + 1 / 5) / 2)
    assert rows[at, "trigger_attention.on_own.if_even"] == pytest.approx((0 + 1 / 5) / 2)


def constant(token):
    """A model that says one token with odds of e^5 to 1, at the triggers."""
    model = planted(blocks=(BlockConfig(),))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "token_mixer.out" in name:
                parameter.zero_()
        model.blocks[1].channel_mixer.weight[token, 1] = 5.0 + (token == 1)
    return model


def test_recall_and_confusion_of_a_model_that_says_one_thing():
    one = found(Recall(noise=0), constant(0))
    total = torch.tensor([5.0, 1.0, 0, 0, 0, 0]).exp().sum().item()  # the trigger's own embedding has a logit of 1
    noise, own = torch.tensor(5.0).exp().item() / total, 1 / total
    assert one["test/under=whole", "p_noise"] == pytest.approx(noise)
    assert one["test/under=whole", "p_correct"] == pytest.approx((own + noise) / 2)
    assert one["test/under=whole", "log_odds"] == pytest.approx(-5)  # where the right token is no noise
    assert one["test/under=whole", "clean_accuracy"] == 0.5
    assert found(NoiseConfusion(noise=0), constant(0)) == {
        ("confusion", "said.noise.is.noise"): 0.5,
        ("confusion", "said.noise.is.other"): 0.5,
        ("confusion", "said.other.is.noise"): 0.0,
        ("confusion", "said.other.is.other"): 0.0,
    }
    assert found(NoiseConfusion(noise=0), constant(4))["confusion", "said.other.is.noise"] == 0.5


def test_where_the_best_answer_is_a_tie_accuracy_is_left_out_of_the_whole_model_alone():
    from partwise.ablations.drop import Drop

    rows = found(Recall(noise=0, coin=True, edits=(Drop(pattern="blocks.1.channel_mixer"),)), constant(0))
    assert ("test/under=whole", "clean_accuracy") not in rows
    assert ("test/under=without blocks.1.channel_mixer", "clean_accuracy") in rows
    assert rows["test/under=without blocks.1.channel_mixer", "log_odds"] == pytest.approx(0)


def test_the_model_is_the_papers():
    model = Transformer(paper_model(16), TaskShape(length=8, vocabulary=9), seed=0)
    learned = AllBut("embed", "positions", "unembed").learning(model)
    kinds = ("token_mixer.value", "token_mixer.out", "token_mixer.key", "channel_mixer.up", "channel_mixer.down")
    assert learned == {f"blocks.{at}.{kind}.weight" for at in (0, 1) for kind in kinds}
    assert isinstance(model.blocks[0].token_mixer.query, torch.nn.Identity)


def test_an_identity_query_is_attention_whose_query_map_is_the_identity():
    from partwise.token_mixers.attention import Attention

    shape, tokens = TaskShape(length=8, vocabulary=9), torch.arange(8)[None]
    mixer = Attention(n_heads=2, rope=False, bias=False)
    plain = Transformer(ModelConfig(width=16, token_mixer=mixer), shape, seed=0)
    given = Transformer(
        ModelConfig(width=16, token_mixer=dataclasses.replace(mixer, identity_query=True)), shape, seed=0
    )
    state = plain.state_dict()
    with torch.no_grad():
        for block in plain.blocks:
            block.token_mixer.query.weight.copy_(torch.eye(16))
        given.load_state_dict({name: state[name] for name in given.state_dict()})
        assert torch.allclose(plain(tokens), given(tokens), atol=1e-6)


@dataclass(frozen=True, kw_only=True)
class AFewWords:
    """A text for tests."""

    def read(self):
        return Text(documents=("the cat! sat on the mat. a rat! ran at the cat! " * 30,), name="a_few_words")


def small(name):
    base = Distributional().base("noisy_recall")
    task = dataclasses.replace(base.task, corpus=AFewWords(), n_symbols=12, length=20)
    train = dataclasses.replace(base.train, steps=6, batch=8, validation_size=16)
    base = dataclasses.replace(base, task=task, train=train, model=paper_model(16), test_size=32)
    return arms_of(base)[name]


@pytest.fixture
def words(monkeypatch):
    """The corpus, which the fixture of all tests takes out of the catalogue after each."""
    CORPORA.register("a_few_words")(AFewWords)


@pytest.mark.parametrize("name", ["standard", "no_feed_forward", "linear_feed_forward", "parallel"])
def test_an_arm_of_the_recipe_runs_and_has_all_its_numbers(words, name):
    record = run(small(name))
    assert record.status == "done"
    under = {row.where for row in record.rows if row.quantity == "p_noise" and "under" in row.where}
    drops = [drop for drop in DROPS if name != "no_feed_forward" or "channel" not in drop]
    assert under == {"test/under=whole", *(f"test/under=without {drop}" for drop in drops)}
    steps = {row.step for row in record.rows if row.quantity == "p_noise" and row.where == "test/under=whole"}
    assert steps == {0, 1, 2, 3, 5, 6}
    assert record.value("loss.ceiling") < record.value("loss.floor.bigram")
    cut = {row.step for row in record.rows if "truncated" in row.where}
    assert cut == ({6} if name == "standard" else set())
    shares = [row.value for row in record.rows if row.where == "confusion" and row.step == 6]
    assert sum(shares) == pytest.approx(1)


def test_frozen_feed_forwards_stay_as_drawn(words):
    one = small("frozen_feed_forward")
    _, model = one.build()
    assert not {name for name in one.learn.learning(model) if "channel_mixer" in name}
