"""Probes of circuits against known answers: a circuit built by hand, and models that have learned nothing."""

import dataclasses

import pytest
import torch
from circuit import (
    INDUCTION_HEAD,
    LENGTH,
    PREVIOUS_HEAD,
    VOCABULARY,
    blank,
    induction_circuit,
    repeated_text,
)
from torch import nn

from partwise.batch import IGNORE, Batch
from partwise.circuits import in_context, knocked_out, mixings, repeated
from partwise.errors import ConfigError
from partwise.evaluation import predict, score
from partwise.model import BlockConfig, ModelConfig, Transformer
from partwise.probes.attention_map import AttentionMap
from partwise.probes.head_ablation import HeadAblation
from partwise.probes.in_context_learning import InContextLearning
from partwise.probes.induction import Induction
from partwise.probes.previous_token import PreviousToken
from partwise.report.heads import maps_of
from partwise.seeds import generator_for
from partwise.tasks.needle import Needle
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.random_mixing import RandomMixing
from partwise.token_mixers.uniform import Uniform


def found(probe, model, batch) -> dict[tuple[str, str], float]:
    return {(row.where, row.quantity): row.value for row in probe.measure(model, batch)}


@pytest.fixture(scope="module")
def planted():
    return induction_circuit()


@pytest.fixture(scope="module")
def text():
    return repeated_text()


def test_the_planted_circuit_has_the_ability(planted, text):
    scored = score(planted, text)
    assert scored.hits.float().mean() == 1.0 and scored.loss < 1e-3


@pytest.mark.parametrize("name", ["retrieval", "repeated", "prefix_matching", "copying"])
def test_the_planted_head_scores_as_an_induction_head_and_no_other_does(planted, text, name):
    values = {where: value for (where, quantity), value in found(Induction(), planted, text).items()
              if quantity == f"induction.{name}"}  # fmt: skip
    assert values.pop(INDUCTION_HEAD) > 0.99
    others = [value for where, value in values.items() if where != PREVIOUS_HEAD or name != "copying"]
    assert max(others) < 0.6 and len(values) == 3


def test_the_planted_previous_token_head_is_found_on_the_task_and_everywhere(planted, text):
    assert found(PreviousToken(), planted, text)[PREVIOUS_HEAD, "previous_token"] > 0.99
    assert found(PreviousToken(), planted, text)[INDUCTION_HEAD, "previous_token"] < 0.2
    assert found(Induction(), planted, text)[PREVIOUS_HEAD, "induction.reads_key"] > 0.99


def test_untrained_heads_read_about_as_one_that_reads_all_alike(text):
    for seed in range(3):
        scores = found(Induction(), blank(seed=seed), text)
        chance = scores["model", "induction.repeated.uniform"]
        assert chance == pytest.approx(sum(1 / (i + 1) for i in range(VOCABULARY, LENGTH)) / VOCABULARY)
        mine = [value for (_, quantity), value in scores.items() if quantity == "induction.repeated"]
        assert len(mine) == 4 and all(abs(value - chance) < 0.05 for value in mine)
        assert chance < 2 / VOCABULARY
        copying = [value for (_, quantity), value in scores.items() if quantity == "induction.copying"]
        assert all(0.2 < value < 0.8 for value in copying)


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_without_a_head_of_the_circuit_the_ability_is_gone_and_without_another_it_stays(planted, text, how):
    falls = found(HeadAblation(), planted, text)
    for head in (PREVIOUS_HEAD, INDUCTION_HEAD):
        assert falls[head, f"head_ablation.{how}"] > 0.8
        assert falls[head, f"head_ablation.{how}.loss"] > 1.0
    for head in ("blocks.0.token_mixer.mix.1", "blocks.1.token_mixer.mix.1"):
        assert falls[head, f"head_ablation.{how}"] == 0.0
    assert falls["model", f"head_ablation.{how}.retrieving"] == falls[INDUCTION_HEAD, f"head_ablation.{how}"]
    assert falls["model", f"head_ablation.{how}.beside"] == 0.0
    assert falls["model", "head_ablation.retrieving.heads"] == 1.0


def test_a_mean_in_place_of_a_head_is_what_it_writes_on_average():
    data = Needle(n_pairs=3, n_values=9).build(seed=0)
    batch = data.sample(40, split="test", generator=generator_for(0, "mean"))
    model, head = Transformer(ModelConfig(width=16, n_blocks=1), data.shape, seed=0), ("blocks.0.token_mixer.mix", 2)
    outputs = []
    with torch.no_grad():
        for heads, mean_over in (([], None), ([head], None), ([head], batch)):
            with knocked_out(model, heads, mean_over=mean_over):
                hook = model.blocks[0].token_mixer.register_forward_hook(lambda mixer, inputs, y: outputs.append(y))
                predict(model, batch)
                hook.remove()
    whole, zero, mean = outputs
    for place in range(batch.tokens_BL.shape[1]):
        used_B = batch.used_BL[:, place]
        written = (whole - zero)[used_B, place]
        torch.testing.assert_close(mean[used_B, place], zero[used_B, place] + written.mean(0), atol=1e-5, rtol=1e-5)


def test_what_was_taken_out_is_put_back_after_an_error(planted, text):
    def fail():
        with knocked_out(planted, [("blocks.1.token_mixer.mix", 0)], mean_over=text):
            assert not torch.equal(predict(planted, text), before)
            raise ZeroDivisionError

    before = predict(planted, text)
    with pytest.raises(ZeroDivisionError):
        fail()
    assert torch.equal(predict(planted, text), before)


@pytest.mark.parametrize("mixer", [RandomMixing(n_heads=2), Uniform()], ids=["random_mixing", "uniform"])
@pytest.mark.parametrize("probe", [PreviousToken(), Induction()], ids=["previous_token", "induction"])
def test_a_mixer_that_does_not_see_its_input_says_so_and_gives_its_constant(mixer, probe):
    data = Needle(n_pairs=4).build(seed=0)
    batch = data.sample(30, split="test", generator=generator_for(0, "free"))
    model = Transformer(ModelConfig(width=16, token_mixer=mixer, positions="learned"), data.shape, seed=0)
    rows = [row for row in probe.measure(model, batch) if row.where != "model" and "copying" not in row.quantity]
    assert rows and all(row.quantity.endswith(".input_free") for row in rows)
    if isinstance(mixer, Uniform) and isinstance(probe, Induction):
        scores = found(probe, model, batch)
        constant = scores["blocks.0.token_mixer.mix.0", "induction.repeated.input_free"]
        assert constant == pytest.approx(scores["model", "induction.repeated.uniform"])
        constant = scores["blocks.1.token_mixer.mix.0", "induction.retrieval.input_free"]
        assert constant == pytest.approx(scores["model", "induction.retrieval.uniform"])


@pytest.mark.parametrize("two_way", [False, True])
def test_one_mixer_may_see_its_input_and_the_next_not(two_way):
    data = Needle(n_pairs=4).build(seed=0)
    batch = data.sample(30, split="test", generator=generator_for(0, "free"))
    blocks = (BlockConfig(token_mixer=RandomMixing(n_heads=2)), BlockConfig(token_mixer=Attention(n_heads=2)))
    config = ModelConfig(width=16, blocks=blocks, two_way=two_way)
    model = Transformer(config, data.shape, seed=0)
    assert [mixing.sees_input for mixing in mixings(model, batch)] == [False, True]
    chance = found(Induction(), model, batch)["model", "induction.retrieval.uniform"]
    width_B = batch.used_BL.sum(-1).double()
    assert chance == pytest.approx((1 / width_B).mean().item())  # needle asks at the last position: it may see all


def test_random_tokens_are_ids_the_model_has_met_and_fit_it(text):
    model = blank()
    tokens_BL = repeated(model, text, block=50, copies=2)
    assert tokens_BL.shape[1] == LENGTH and torch.equal(tokens_BL[:, :12], tokens_BL[:, 12:])
    assert all(len(row.unique()) == 12 for row in tokens_BL)
    few = dataclasses.replace(text, tokens_BL=text.tokens_BL % 3)
    assert repeated(model, few, block=50, copies=4).unique().tolist() == [0, 1, 2]
    assert repeated(model, text, block=50, copies=13) is None
    real = Batch(tokens_BL=torch.zeros(2, 4, 1), targets_BL=torch.zeros(2, 4))
    assert repeated(model, real, block=50, copies=2) is None


def test_learning_in_context_is_the_fall_of_the_loss_from_early_to_late_places(planted, text):
    class Says(nn.Module):
        """Gives the right answer a probability of its place."""

        def __init__(self, share_L):
            super().__init__()
            self.share_L, self.dummy = share_L, nn.Parameter(torch.zeros(1))

        def forward(self, tokens_BL):
            right_BL = text.targets_BL.clamp_min(0)
            rest = ((1 - self.share_L) / (VOCABULARY - 1)).log()
            logits_BLV = rest[None, :, None].repeat(len(tokens_BL), 1, VOCABULARY)
            return logits_BLV.scatter(
                -1, right_BL[..., None], self.share_L.log()[None, :, None].expand(len(tokens_BL), -1, 1)
            )

    share_L = torch.linspace(0.1, 0.9, LENGTH)
    context = in_context(Says(share_L), text)  # 11 scored places, 12 ... 22: early is the second, late the last
    assert context.early == pytest.approx(-share_L[13].log().item(), abs=1e-5)
    assert context.late == pytest.approx(-share_L[22].log().item(), abs=1e-5)
    assert context.gain == pytest.approx(context.early - context.late) and context.n == len(text)


def test_a_circuit_that_copies_gains_from_a_second_copy_and_an_untrained_model_does_not(planted, text):
    gain = found(InContextLearning(), planted, text)["model", "in_context_learning.repeated"]
    early = found(InContextLearning(), planted, text)["model", "in_context_learning.repeated.early"]
    assert gain > 0.99 * early and early > 1.0
    assert abs(found(InContextLearning(), blank(), text)["model", "in_context_learning.repeated"]) < 0.2


def test_a_task_with_few_scored_places_or_real_targets_has_no_learning_in_context(planted, text):
    asked_BL = text.targets_BL.clone()
    asked_BL[:, VOCABULARY + 3 :] = IGNORE
    assert in_context(planted, dataclasses.replace(text, targets_BL=asked_BL)) is None
    assert in_context(planted, dataclasses.replace(text, targets_BL=text.targets_BL.float())) is None


def test_ablation_tells_how_far_the_gain_from_context_falls(text):
    model = induction_circuit()
    # scored everywhere: the first copy cannot be foretold, the second can
    targets_BL = torch.cat((text.tokens_BL[:, 1:], torch.full_like(text.tokens_BL[:, :1], IGNORE)), dim=1)
    falls = found(HeadAblation(), model, dataclasses.replace(text, targets_BL=targets_BL))
    assert falls[INDUCTION_HEAD, "head_ablation.zero.in_context"] > 1.0
    assert falls["blocks.1.token_mixer.mix.1", "head_ablation.zero.in_context"] == pytest.approx(0.0, abs=1e-6)


def test_a_map_is_the_mix_of_one_example_sign_and_all():
    data = Needle(n_pairs=4).build(seed=0)
    batch = data.sample(30, split="test", generator=generator_for(0, "map"))
    model = Transformer(ModelConfig(width=16, token_mixer=RandomMixing(n_heads=2)), data.shape, seed=0)
    maps = maps_of(list(AttentionMap().measure(model, batch)))
    mix_HLS = model.blocks[0].token_mixer.mix_HLL
    assert set(maps) == {"blocks.0.token_mixer.mix", "blocks.1.token_mixer.mix"}
    torch.testing.assert_close(torch.tensor(maps["blocks.0.token_mixer.mix"][1]), mix_HLS[1])
    assert (mix_HLS < 0).any()
    short = maps_of(list(AttentionMap(length=3).measure(model, batch)))
    assert len(short["blocks.0.token_mixer.mix"][0]) == 3


def test_a_share_from_which_on_a_head_retrieves_is_a_share():
    with pytest.raises(ConfigError, match="retrieving is 0: a share above 0, at most 1, was expected"):
        HeadAblation(retrieving=0)
