"""Padding, caches, beams, losses: a row comes out as it would alone and at once."""

import copy

import pytest
import torch

pytest.importorskip("transformers")

import torch.nn.functional as F
from hf_small import LENGTH, MIXERS, NAMES, VOCABULARY, causal, classifier, config, padded, tokens

from partwise import PartwiseForCausalLM, PartwiseForSequenceClassification
from partwise.caches import Cache
from partwise.errors import ConfigError
from partwise.hf.caching import PartwiseCache
from partwise.token_mixers.attention import SelfAttention

ROWS = [row[:length] for row, length in zip(tokens(4), (3, 6, 6, 8), strict=True)]


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def stirred(name: str, **changes):
    """In float64 and every tensor moved, so that a start at zero hides nothing and rounding decides no token."""
    model = causal(name, **changes).double()
    for index, parameter in enumerate(model.parameters()):
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index), dtype=torch.float64)
        parameter.add_(noise, alpha=0.1)
    return model


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_a_padded_row_is_as_it_is_alone(name, side):
    model, (tokens_BL, mask_BL) = stirred(name), padded(ROWS, side)
    logits_BLV = model(tokens_BL, attention_mask=mask_BL).logits
    assert logits_BLV.isfinite().all()
    for row, logits_LV, used_L in zip(ROWS, logits_BLV, mask_BL.bool(), strict=True):
        torch.testing.assert_close(logits_LV[used_L], model(row[None]).logits[0])


@pytest.mark.parametrize("positions", ["learned", "one_hot", "none"])
def test_a_two_way_model_does_not_see_padding_either(positions):
    parts = config("mixit", hidden_size=32).parts | {"two_way": True, "positions": positions}
    model = PartwiseForCausalLM(config(None, parts=parts, hidden_size=None, num_attention_heads=None)).double()
    for side in ("left", "right"):
        tokens_BL, mask_BL = padded(ROWS, side)
        logits_BLV = model(tokens_BL, attention_mask=mask_BL).logits
        for row, logits_LV, used_L in zip(ROWS, logits_BLV, mask_BL.bool(), strict=True):
            torch.testing.assert_close(logits_LV[used_L], model(row[None]).logits[0])


def test_a_hole_in_the_mask_is_not_there():
    model, row = stirred("mixit"), tokens(1, 6)
    mask = torch.tensor([[0, 1, 1, 0, 1, 1]])
    torch.testing.assert_close(
        model(row, attention_mask=mask).logits[mask.bool()], model(row[mask.bool()][None]).logits[0]
    )


def test_padding_may_go_beyond_the_length_that_the_model_was_made_for():
    model, row = stirred("mixit"), tokens(1, 6)
    wide, mask = F.pad(row, (LENGTH, 3)), F.pad(torch.ones_like(row), (LENGTH, 3))
    torch.testing.assert_close(model(wide, attention_mask=mask).logits[:, LENGTH:-3], model(row).logits)


@pytest.mark.parametrize("name", NAMES)
def test_reading_on_with_a_cache_is_reading_at_once(name):
    model, tokens_BL = stirred(name), tokens()
    whole_BLV, out = model(tokens_BL).logits, model(tokens_BL[:, :5], use_cache=True)
    torch.testing.assert_close(out.logits, whole_BLV[:, :5])
    for start, stop in ((5, 6), (6, 9), (9, LENGTH)):
        out = model(tokens_BL[:, start:stop], cache=out.cache)
        torch.testing.assert_close(out.logits, whole_BLV[:, start:stop])
    assert out.cache.get_seq_length() == LENGTH
    with pytest.raises(ConfigError, match=f"1 more positions after {LENGTH}: {LENGTH} is the most"):
        model(tokens_BL[:, :1], cache=out.cache)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", NAMES)
def test_generating_from_padded_prompts_with_a_cache_is_generating_from_each_alone_without(name, side):
    model, (tokens_BL, mask_BL) = stirred(name), padded(ROWS, side)
    settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    out = model.generate(
        tokens_BL, attention_mask=mask_BL, output_logits=True, return_dict_in_generate=True, **settings
    )
    assert isinstance(out.cache, PartwiseCache)
    for index, row in enumerate(ROWS):
        alone = model.generate(row[None], use_cache=False, output_logits=True, return_dict_in_generate=True, **settings)
        assert torch.equal(out.sequences[index, -6:], alone.sequences[0, -6:])
        for together_BV, by_itself_BV in zip(out.logits, alone.logits, strict=True):
            torch.testing.assert_close(together_BV[index], by_itself_BV[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", MIXERS)
def test_beams_with_a_cache_are_the_beams_without(name):
    model, (tokens_BL, mask_BL) = stirred(name), padded(ROWS, "left")
    settings = {"max_new_tokens": 6, "num_beams": 4, "num_return_sequences": 2, "do_sample": False, "pad_token_id": 0}
    with_cache = model.generate(tokens_BL, attention_mask=mask_BL, **settings)
    assert torch.equal(with_cache, model.generate(tokens_BL, attention_mask=mask_BL, use_cache=False, **settings))
    assert with_cache.shape == (8, 14)


def test_a_mixer_that_cannot_go_on_generates_the_same(monkeypatch):
    model, (tokens_BL, mask_BL) = stirred("standard"), padded(ROWS, "left")
    settings = {"attention_mask": mask_BL, "max_new_tokens": 6, "num_beams": 2, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens_BL, **settings)
    monkeypatch.delattr(SelfAttention, "forward_next")
    assert torch.equal(model.generate(tokens_BL, **settings), expected)


def test_the_cache_is_used_and_holds_what_the_mixer_needs(monkeypatch):
    model, reads = stirred("mixit"), []
    monkeypatch.setattr(
        Cache,
        "grown",
        lambda self, name, new, own=Cache.grown: reads.append((name, new.shape[-2])) or own(self, name, new),
    )
    model.generate(tokens(1, 5), max_new_tokens=3, do_sample=False)
    assert reads == [("value", 5)] * 2 + [("value", 1)] * 4  # values and no keys, a token a step, in two blocks


def test_generating_in_pieces_and_from_a_cache_of_ones_own():
    model, (tokens_BL, mask_BL) = stirred("mixit"), padded(ROWS, "left")
    settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens_BL, attention_mask=mask_BL, **settings)
    cache = PartwiseCache(model.model)
    model(tokens_BL[:, :2], attention_mask=mask_BL[:, :2], cache=cache)  # a row of which nothing is read yet is one too
    kept = copy.deepcopy(cache)
    for own in (cache, kept):
        assert torch.equal(model.generate(tokens_BL, attention_mask=mask_BL, cache=own, **settings), expected)


def test_a_cache_reads_the_rows_it_has_and_columns_that_fit():
    model = stirred("mixit")
    cache = model(tokens(2, 4), use_cache=True).cache
    with pytest.raises(ConfigError, match="3 rows to read on, and this cache is of 2"):
        model(tokens(3, 1), cache=cache)
    with pytest.raises(
        ConfigError, match=r"mask of shape \(2, 3\): 5 columns were expected, those of the cache and 1 new"
    ):
        model(tokens(2, 1), cache=cache, attention_mask=torch.ones(2, 3))


def test_generating_past_the_length_and_from_a_two_way_model_is_refused():
    with pytest.raises(ConfigError, match=f"1 more positions after {LENGTH}: {LENGTH} is the most"):
        causal().generate(tokens(1, 10), max_new_tokens=8, do_sample=False)
    parts = config().parts | {"two_way": True}
    model = PartwiseForCausalLM(config(parts=parts))
    with pytest.raises(ConfigError, match="a two-way model does not generate"):
        model.generate(tokens(1, 4), max_new_tokens=2)
    with pytest.raises(ConfigError, match="a two-way model cannot be decoded"):
        model(tokens(1, 4), use_cache=True)
    with pytest.raises(ConfigError, match="a two-way model has seen the next token"):
        model(tokens(1, 4), labels=tokens(1, 4))


def test_assisted_decoding_which_takes_tokens_back_is_refused():
    with pytest.raises(ValueError, match="assisted generation is not supported with stateful models"):
        causal().generate(tokens(1, 4), assistant_model=causal(), max_new_tokens=2, do_sample=False)


def test_a_mask_that_fits_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"mask of shape \(3, 2\) for tokens of shape \(3, 14\)"):
        causal()(tokens(), attention_mask=torch.ones(3, 2))
    mask_BL = torch.ones(3, LENGTH)
    mask_BL[1] = 0
    with pytest.raises(ConfigError, match="row 1 of the attention mask leaves nothing to read"):
        causal()(tokens(), attention_mask=mask_BL)


def test_fewer_logits_are_the_last_or_those_asked_for():
    model, tokens_BL = stirred("standard"), tokens()
    whole_BLV = model(tokens_BL).logits
    torch.testing.assert_close(model(tokens_BL, logits_to_keep=2).logits, whole_BLV[:, -2:])
    at = torch.tensor([4, 1])
    torch.testing.assert_close(model(tokens_BL, logits_to_keep=at).logits, whole_BLV[:, at])


def test_labels_are_shifted_as_transformers_does():
    model, tokens_BL = stirred("standard"), tokens()
    labels_BL = tokens_BL.clone()
    labels_BL[0, :4] = -100
    out = model(tokens_BL, labels=labels_BL)
    by_hand = F.cross_entropy(out.logits[:, :-1].flatten(0, 1).float(), labels_BL[:, 1:].flatten(), ignore_index=-100)
    torch.testing.assert_close(out.loss, by_hand)
    expected = model.loss_function(logits=out.logits, labels=labels_BL, vocab_size=VOCABULARY)
    torch.testing.assert_close(out.loss, expected)
    n = int((labels_BL[:, 1:] != -100).sum())
    torch.testing.assert_close(model(tokens_BL, labels=labels_BL, num_items_in_batch=2 * n).loss, out.loss / 2)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_does_not_move_the_loss(side):
    model, (tokens_BL, mask_BL) = stirred("mixit"), padded(ROWS, side)
    total = sum(model(row[None], labels=row[None]).loss * (len(row) - 1) for row in ROWS)
    mean = total / sum(len(row) - 1 for row in ROWS)
    for labels_BL in (tokens_BL, tokens_BL.masked_fill(mask_BL == 0, -100)):
        torch.testing.assert_close(model(tokens_BL, attention_mask=mask_BL, labels=labels_BL).loss, mean)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["mixit", "standard", "uniform"])
def test_a_class_is_read_at_the_last_token_that_is_no_padding(name, side):
    model = classifier(name, pad_token_id=0).double()
    tokens_BL, mask_BL = padded(ROWS, side)
    alone_BC = torch.cat([model(row[None]).logits for row in ROWS])
    torch.testing.assert_close(model(tokens_BL, attention_mask=mask_BL).logits, alone_BC)
    torch.testing.assert_close(model(tokens_BL).logits, alone_BC)  # by the id of the padding
    torch.testing.assert_close(model(tokens_BL[1:], attention_mask=mask_BL[1:]).logits, alone_BC[1:])
    assert torch.equal(model(tokens_BL).logits.argmax(-1), alone_BC.argmax(-1))


def test_padding_inside_a_text_is_read():
    model, row = classifier("standard", pad_token_id=0).double(), tokens(1, 6)
    row[0, 3] = 0
    mask = torch.ones_like(row)
    torch.testing.assert_close(model(F.pad(row, (2, 3))).logits, model(row, attention_mask=mask).logits)
    without_id = PartwiseForSequenceClassification(config("standard", num_labels=3)).double()
    wide = F.pad(row, (0, 3))
    torch.testing.assert_close(without_id(wide).logits, without_id(wide, attention_mask=torch.ones_like(wide)).logits)


def test_the_loss_of_a_class_is_the_cross_entropy():
    model, labels_B = classifier("standard"), torch.tensor([0, 2, 1])
    out = model(tokens(), labels=labels_B)
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits, labels_B))
