"""Text to ids and back; what an id stands for in bytes; what is learned, and from what."""

import json

import numpy as np
import pytest

from partwise.encoders import ENCODERS, Codec
from partwise.encoders.bpe import Bpe
from partwise.encoders.bytes import Bytes
from partwise.encoders.hub_tokenizer import HubTokenizer
from partwise.errors import ConfigError, MissingPackage

TEXTS = ["To be, or not to be, that is the question.\n" * 20, "Été — 日本 <pad> <separator>  two spaces\n\ttab", ""]
ENCODER = {"bytes": Bytes(), "bpe": Bpe(vocabulary=300)}


@pytest.mark.parametrize("name", ENCODER)
def test_text_comes_back_and_its_bytes_are_counted(name):
    codec = ENCODER[name].build(TEXTS)
    assert isinstance(codec, Codec)
    for text, ids in zip(TEXTS, codec.encode(TEXTS), strict=True):
        assert codec.decode(ids.tolist()) == text
        assert codec.bytes_V[ids].sum() == len(text.encode())
        assert ids.dtype == np.int32 and (ids.size == 0 or 0 <= ids.min() <= ids.max() < codec.n_ids)
        assert not {codec.separator, codec.pad} & set(ids.tolist())  # also where the text spells them
    assert len(codec.bytes_V) == codec.n_ids
    assert codec.bytes_V[codec.separator] == codec.bytes_V[codec.pad] == 0


def test_an_encoders_own_tokens_are_left_out_when_it_decodes():
    for encoder in ENCODER.values():
        codec = encoder.build(TEXTS)
        (ids,) = codec.encode(["ab"])
        assert codec.decode([codec.separator, *ids.tolist(), codec.separator, codec.pad]) == "ab"


def test_pairs_are_learned_from_the_documents_that_it_is_given_and_from_no_others():
    codec = Bpe(vocabulary=300).build(["zyzzyva " * 50])
    (common,), (rare,) = codec.encode(["zyzzyva"]), codec.encode(["quizzed"])
    assert len(common) <= 2 and len(rare) >= 5
    assert codec.n_ids <= 300


def test_the_same_text_learns_the_same_pairs_and_only_once(monkeypatch):
    first = Bpe(vocabulary=280).build(TEXTS[:1])
    import tokenizers

    def learned(*args, **kwargs):
        raise AssertionError("learned again")

    monkeypatch.setattr(tokenizers.trainers, "BpeTrainer", learned)
    again = Bpe(vocabulary=280).build(TEXTS[:1])
    assert first.digest == again.digest
    with pytest.raises(AssertionError, match="learned again"):
        Bpe(vocabulary=280).build(TEXTS[1:])
    np.testing.assert_array_equal(first.encode(TEXTS[:1])[0], again.encode(TEXTS[:1])[0])


def test_what_was_learned_is_kept_beside_a_run_and_read_back(tmp_path):
    codec = Bpe(vocabulary=300).build(TEXTS)
    codec.keep(tmp_path)
    again = HubTokenizer(tokenizer=str(tmp_path), separator="<separator>").build([])
    assert again.n_ids == codec.n_ids and again.pad == codec.pad
    np.testing.assert_array_equal(again.encode(TEXTS)[1], codec.encode(TEXTS)[1])


def test_too_small_a_vocabulary_is_said():
    with pytest.raises(ConfigError, match="vocabulary is 200: at least 258"):
        Bpe(vocabulary=200)


@pytest.mark.parametrize("encoder", [Bpe(), HubTokenizer()], ids=["bpe", "hub_tokenizer"])
def test_a_missing_package_is_said(encoder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(MissingPackage, match=r'needs the package tokenizers, .* "partwise\[hf\]"'):
        encoder.build(TEXTS)


@pytest.fixture
def words(tmp_path):
    """A tokenizer of words: an id does not stand for bytes, since spaces are lost."""
    import tokenizers

    vocabulary = {"[UNK]": 0, "[SEP]": 1, "a": 2, "b": 3}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(["[SEP]"])
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_tokenizer_that_loses_spaces_has_no_bytes(words):
    codec = HubTokenizer(tokenizer=str(words)).build([])
    assert codec.bytes_V is None
    assert codec.encode(["a  b c"])[0].tolist() == [2, 3, 0]
    assert codec.separator == codec.pad == 1


def test_a_tokenizers_separator_must_be_one_of_its_tokens(words):
    with pytest.raises(ConfigError, match="does not have the token <eos>; name one of its tokens"):
        HubTokenizer(tokenizer=str(words), separator="<eos>").build([])
    plain = json.loads((words / "tokenizer.json").read_text())
    plain["added_tokens"], plain["model"]["vocab"] = [], {"[UNK]": 0, "a": 1}
    (words / "tokenizer.json").write_text(json.dumps(plain))
    with pytest.raises(ConfigError, match=r"does not have a separator \(<\|endoftext\|>"):
        HubTokenizer(tokenizer=str(words / "tokenizer.json")).build([])


def test_what_is_no_tokenizer_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file .*tokenizer\.json"):
        HubTokenizer(tokenizer=str(tmp_path)).build([])
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="is no tokenizer of the package tokenizers"):
        HubTokenizer(tokenizer=str(tmp_path)).build([])
    with pytest.raises(ConfigError, match=r"there is no file or folder \./nowhere"):
        HubTokenizer(tokenizer="./nowhere").build([])


def test_without_the_hub_a_tokenizers_name_is_said_to_be_missing():
    with pytest.raises(ConfigError, match="the tokenizer somebody/something is not on this machine, and the hub"):
        HubTokenizer(tokenizer="somebody/something").build([])


def test_every_encoder_says_what_it_is():
    assert all(ENCODERS.summary(name) for name in ENCODERS.names())
