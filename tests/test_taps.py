"""Whoever listens or writes at a tap leaves it as it was, and no order of looking changes what is seen."""

import pytest
import torch

from partwise.errors import UnknownAddress
from partwise.model import ModelConfig, Transformer
from partwise.shapes import TaskShape
from partwise.taps import Tap, has_tap, listening, record, rewrite, taps
from partwise.token_mixers.attention import Attention
from partwise.token_mixers.none import NoTokenMixer

TOKENS = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])


@pytest.fixture
def model():
    return Transformer(
        ModelConfig(width=8, token_mixer=Attention(n_heads=2)), TaskShape(length=4, vocabulary=5), seed=0
    ).double()


def test_a_tap_without_a_listener_passes_the_very_tensor_on():
    value = torch.ones(2)
    assert Tap()(value) is value


def test_a_pattern_names_a_tap_by_its_address_or_its_own_name(model):
    assert list(taps(model, "mix")) == ["blocks.0.token_mixer.mix", "blocks.1.token_mixer.mix"]
    assert list(taps(model, "blocks.1.**.scores")) == ["blocks.1.token_mixer.scores"]
    assert len(taps(model)) == 4
    assert has_tap(model, "scores")
    assert not has_tap(model, "gate")


def test_a_pattern_without_a_tap_is_told_what_there_is(model):
    with pytest.raises(UnknownAddress) as caught:
        taps(model, "blocks.*.scores")
    assert str(caught.value) == (
        "no tap matches 'blocks.*.scores'. This model has: blocks.0.token_mixer.scores, blocks.0.token_mixer.mix, "
        "blocks.1.token_mixer.scores, blocks.1.token_mixer.mix."
    )
    bare = Transformer(ModelConfig(token_mixer=NoTokenMixer()), TaskShape(length=4, vocabulary=5), seed=0)
    with pytest.raises(UnknownAddress, match=r"no tap matches '\*'\. This model has none\."), record(bare, "*"):
        pass


def test_record_sees_what_mixes_and_listens_no_longer_afterwards(model):
    with record(model, "mix") as seen:
        assert listening(model)
        model(TOKENS)
    assert not listening(model)
    assert list(seen) == list(taps(model, "mix"))
    torch.testing.assert_close(seen["blocks.0.token_mixer.mix"].sum(-1), torch.ones(2, 2, 4, dtype=torch.float64))


@pytest.mark.parametrize("enter", [record, lambda model, pattern: rewrite(model, pattern, torch.zeros_like)])
def test_record_and_rewrite_are_put_back_after_an_exception(model, enter):
    before = model(TOKENS)
    with pytest.raises(RuntimeError, match="in the middle"), enter(model, "mix"):
        raise RuntimeError("in the middle")
    assert not listening(model)
    assert torch.equal(model(TOKENS), before)


def test_a_listener_that_raises_leaves_no_listener(model):
    def fail(value):
        raise RuntimeError("cannot edit this")

    with pytest.raises(RuntimeError, match="cannot edit this"), rewrite(model, "mix", fail):
        model(TOKENS)
    assert not listening(model)


def test_rewrite_writes_and_is_put_back(model):
    before = model(TOKENS)
    with rewrite(model, "blocks.0.token_mixer.mix", torch.zeros_like):
        written = model(TOKENS)
    assert not torch.allclose(written, before)
    assert torch.equal(model(TOKENS), before)


def test_an_edit_that_changes_nothing_changes_nothing(model):
    before = model(TOKENS)
    with rewrite(model, "*", lambda value: value):
        torch.testing.assert_close(model(TOKENS), before, rtol=0, atol=1e-12)


def test_the_order_of_looking_does_not_matter(model):
    with record(model, "mix") as one, record(model, "scores") as two:
        first = model(TOKENS)
    with record(model, "scores") as two_again, record(model, "mix") as one_again:
        second = model(TOKENS)
    with record(model, "blocks.1.token_mixer.mix") as alone:
        third = model(TOKENS)
    assert torch.equal(first, second)
    torch.testing.assert_close(third, first, rtol=0, atol=1e-9)  # its block 0 took the fused path
    assert all(torch.equal(one[address], one_again[address]) for address in one)
    assert all(torch.equal(two[address], two_again[address]) for address in two)
    (address,) = alone
    torch.testing.assert_close(alone[address], one[address], rtol=0, atol=1e-9)


def test_a_record_inside_a_rewrite_sees_what_was_written(model):
    with rewrite(model, "blocks.0.token_mixer.mix", torch.zeros_like), record(model, "mix") as seen:
        model(TOKENS)
    assert not seen["blocks.0.token_mixer.mix"].any()
    assert seen["blocks.1.token_mixer.mix"].any()


def test_nested_rewrites_with_one_edit_each_take_off_their_own(model):
    with rewrite(model, "mix", torch.zeros_like):
        with rewrite(model, "mix", torch.zeros_like):
            pass
        assert listening(model)
    assert not listening(model)


def test_all_rows_pass_a_tap_of_the_last_block_even_when_few_are_read(model):
    read_BQ = torch.tensor([[3], [3]])
    with record(model, "mix") as seen:
        few = model(TOKENS, read_BQ)
    assert seen["blocks.1.token_mixer.mix"].shape == (2, 2, 4, 4)
    torch.testing.assert_close(few, model(TOKENS)[:, 3:], rtol=0, atol=1e-9)


def test_all_rows_pass_a_tap_of_a_channel_mixer_in_the_last_block(model):
    model.blocks[1].channel_mixer.tapped, inner = Tap(), model.blocks[1].channel_mixer.forward
    model.blocks[1].channel_mixer.forward = lambda x_BLD: model.blocks[1].channel_mixer.tapped(inner(x_BLD))
    with record(model, "tapped") as seen:
        model(TOKENS, torch.tensor([[3], [3]]))
    assert seen["blocks.1.channel_mixer.tapped"].shape == (2, 4, 8)
