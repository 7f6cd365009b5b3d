"""Documents become three splits that share no text, and streams that are tokenized once."""

import itertools

import numpy as np
import pytest

from partwise.encoders.bytes import SEPARATOR, ByteCodec
from partwise.errors import ConfigError
from partwise.text.digest import text_digest
from partwise.text.splits import HELD_OUT, allotted, splits, stream_of
from partwise.user_cache import cache_folder, cached

PLAYS = [f"Play {i}.\n" + f"Line {i} of it, and another word.\n" * (20 + i) for i in range(40)]


def test_splits_are_whole_documents_and_each_is_in_one():
    made = splits(PLAYS, seed=0, name="plays")
    assert sorted(itertools.chain(*made.values())) == sorted(PLAYS)
    whole = sum(map(len, PLAYS))
    for split in ("validation", "test"):
        share = sum(map(len, made[split])) / whole
        assert HELD_OUT <= share < HELD_OUT + 0.05
    assert [text for text in PLAYS if text in made["train"]] == list(made["train"])  # in their order


def test_another_seed_holds_other_documents_out_and_the_same_the_same():
    assert splits(PLAYS, seed=1, name="")["test"] != splits(PLAYS, seed=0, name="")["test"]
    assert splits(PLAYS, seed=1, name="") == splits(PLAYS, seed=1, name="")
    # who is held out depends on what a document says, not on where it stands
    assert set(splits(PLAYS[::-1], seed=0, name="")["test"]) == set(splits(PLAYS, seed=0, name="")["test"])


def test_equal_documents_go_together():
    texts = [f"text {i % 12}" for i in range(60)]
    of = allotted(texts, seed=0)
    assert all(len({split for text, split in zip(texts, of, strict=True) if text == one}) == 1 for one in set(texts))
    assert set(of) == {"train", "validation", "test"}
    assert set(allotted(["a1", "b1", "c1"], seed=0)) == {"train", "validation", "test"}
    with pytest.raises(ConfigError, match="2 different documents: three splits need at least 3"):
        allotted(["a1", "b1", "a1"], seed=0)


@pytest.mark.parametrize("text", ["".join(PLAYS), "word " * 500, "x" * 500], ids=["lines", "one line", "one word"])
def test_one_document_is_cut_into_pieces_that_follow_one_another(text):
    made = splits([text], seed=0, name="one")
    assert "".join(made[split][0] for split in ("train", "validation", "test")) == text
    assert 0.85 < len(made["train"][0]) / len(text) < 0.95
    if "\n" in text:
        assert all(piece.endswith("\n") for (piece,) in made.values())
    elif " " in text:
        assert all(piece.endswith(" ") for (piece,) in made.values())


def test_few_documents_are_cut_each_and_repeated_ones_count_once():
    texts = [PLAYS[0], PLAYS[1], PLAYS[0]]
    made = splits(texts, seed=0, name="")
    assert [len(pieces) for pieces in made.values()] == [2, 2, 2]


def test_too_little_text_is_said():
    with pytest.raises(ConfigError, match="notes has 3 letters: too few for three splits"):
        splits(["abc"], seed=0, name="notes")


def test_a_stream_announces_and_ends_each_document():
    stream = stream_of(["ab", "é"], ByteCodec())
    assert stream.tolist() == [SEPARATOR, ord("a") + 2, ord("b") + 2, SEPARATOR, 0xC3 + 2, 0xA9 + 2, SEPARATOR]
    assert isinstance(stream, np.memmap) and stream.dtype == np.uint16


def test_a_second_start_tokenizes_nothing():
    class Counting(ByteCodec):
        digest, calls = "counting", 0

        def encode(self, texts):
            type(self).calls += 1
            return super().encode(texts)

    first, again = stream_of(PLAYS, Counting()), stream_of(PLAYS, Counting())
    assert Counting.calls == 1
    np.testing.assert_array_equal(first, again)
    stream_of([*PLAYS, "one more"], Counting())
    assert Counting.calls == 2


def test_a_digest_knows_where_a_document_ends():
    assert text_digest(["ab", "c"]) != text_digest(["a", "bc"]) != text_digest(["abc"])


def test_the_cache_lies_where_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PARTWISE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("PARTWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/partwise"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache/partwise"


def test_a_file_of_the_cache_is_made_once_and_whole(monkeypatch, tmp_path):
    monkeypatch.setenv("PARTWISE_CACHE", str(tmp_path))

    def fail(path):
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached("a/b.txt", fail)
    assert [path.name for path in (tmp_path / "a").iterdir() if path.suffix == ".txt"] == []
    assert cached("a/b.txt", lambda path: path.write_text("whole")).read_text() == "whole"
    assert cached("a/b.txt", fail).read_text() == "whole"


def test_a_cache_that_cannot_be_written_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PARTWISE_CACHE", str(tmp_path / "locked"))

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(ConfigError, match="cannot be written to: set PARTWISE_CACHE"):
        cached("b.txt", refuse)
