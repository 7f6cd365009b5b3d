"""Texts with labels of one's own, and words as tokens: what is read, and what is said where it cannot be."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from reviews import reviews

from partwise.corpora.labelled_files import LabelledFiles
from partwise.corpora.labelled_hub import LabelledHub
from partwise.encoders.words import FIRST, PAD, SEPARATOR, UNKNOWN, Words, words_of
from partwise.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


def read(path, **fields):
    return LabelledFiles(files=(str(path),), **fields).read()


def pairs(text):
    return [(document, text.label_names[label]) for document, label in zip(text.documents, text.labels, strict=True)]


def test_a_csv_has_commas_line_ends_and_quotation_marks_inside_its_texts(tmp_path):
    rows = [('He said "no", and\nleft.', "bad"), ("fine", "good"), ('"quoted"', "good")]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    text = read(tmp_path / "a.csv")
    assert pairs(text) == rows
    assert text.label_names == ("bad", "good")


def test_in_a_table_with_tabs_a_quotation_mark_is_a_sign_like_any_other(tmp_path):
    rows = [('"Great" film\u2028 indeed', "1"), ('It was "odd', "0"), ('"', "0"), ("the end", "1")]
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{document}\t{label}\n" for document, label in rows if document != '"'), encoding="utf-8")
    assert pairs(read(path, text=0, label=1)) == [row for row in rows if row[0] != '"']
    as_quoted = path.with_suffix(".csv")
    as_quoted.write_text("".join(f"{document},{label}\n" for document, label in rows), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a.csv, line 1: .* is read with tabs as \.tsv"):
        read(as_quoted, text=0, label=1)


def test_json_lines_and_names_of_columns(tmp_path):
    lines = [{"review": "fine", "stars": 5}, {"review": "poor", "stars": 1}, {"review": "so so", "stars": 10}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    text = read(tmp_path / "*.jsonl", text="review", label="stars")
    assert text.label_names == ("1", "5", "10")
    assert pairs(text) == [("fine", "5"), ("poor", "1"), ("so so", "10")]


def test_a_tsv_with_a_head_and_several_files(tmp_path):
    (tmp_path / "b.tsv").write_text("label\ttext\ngood\tsecond\n")
    (tmp_path / "a.tsv").write_bytes(b"\xef\xbb\xbftext\tlabel\r\nfirst\tbad\r\n")
    assert pairs(read(tmp_path / "*.tsv")) == [("first", "bad"), ("second", "good")]


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("a.csv", "text,label\nfine,1,2\n", {}, "a.csv, line 2, has 3 columns, and the head has 2"),
        ("a.csv", "txt,label\nfine,1\n", {}, "line 2, has no 'text': it has txt, label. Did you mean 'txt'?"),
        ("a.csv", "text,label\nfine,\n", {}, "a.csv, line 2, has no label"),
        ("a.csv", "text,label\n...,1\n", {}, "a.csv, line 2, has no text, but '...'"),
        ("a.csv", "", {}, "a.csv is empty: there is no text in it"),
        ("a.csv", "text,label\n", {}, "a.csv is empty: there is no text in it"),
        ("a.tsv", "fine 1\n", {"text": 0, "label": 1}, "a.tsv, line 1, has no column 1, counted from 0: it has 1 col"),
        ("a.jsonl", "{1}\n", {}, "a.jsonl, line 1, is no JSON"),
        ("a.jsonl", "[1]\n", {}, "a.jsonl, line 1, has no 'text': it is list"),
        ("a.jsonl", "{}\n", {"text": 0, "label": 1}, "has no column 0, counted from 0: it has names for its columns"),
        ("a.xls", "", {}, "a.xls is of no kind that is known here: .csv, .tsv, .txt, .jsonl are"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path, name, content, fields, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as raised:
        read(tmp_path / name, **fields)
    assert message in str(raised.value)


def test_a_missing_file_another_encoding_and_mixed_columns(tmp_path):
    path = reviews(tmp_path)
    with pytest.raises(ConfigError, match=r"there is no file .*review\.csv. Did you mean 'reviews\.csv'"):
        read(tmp_path / "review.csv")
    path.write_bytes("text,label\ncafé,1\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8: byte 0xe9 at place 14"):
        read(path)
    with pytest.raises(ConfigError, match="text is 'text' and label is 1: two names, or two numbers"):
        LabelledFiles(label=1)


# ------------------------------------------------------------------------------------------------- the hub


def test_a_local_stand_in_is_read_like_a_data_set_of_the_hub(tmp_path):
    folder = tmp_path / "yelp"
    folder.mkdir()
    path = reviews(folder, n=40, name="train.csv")
    text = LabelledHub(dataset=str(folder)).read()
    assert pairs(text) == pairs(read(path))
    assert len(LabelledHub(dataset=str(folder), split="train[:25%]").read().documents) == 10
    with pytest.raises(ConfigError, match="has no 'stars': it has text, label"):
        LabelledHub(dataset=str(folder), label="stars").read()


def test_a_data_sets_own_names_of_labels_are_kept(tmp_path, monkeypatch):
    import datasets

    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    held = datasets.Dataset.from_dict({"text": ["fine", "poor"], "label": [1, 0]}, features=features)
    monkeypatch.setattr(datasets, "load_dataset", lambda name, subset, split: held)
    assert pairs(LabelledHub(dataset=str(tmp_path)).read()) == [("fine", "pos"), ("poor", "neg")]
    held = datasets.Dataset.from_dict({"text": ["fine", "poor"], "label": [1, -1]}, features=features)
    with pytest.raises(ConfigError, match="row 1, has no label"):
        LabelledHub(dataset=str(tmp_path)).read()


@pytest.mark.parametrize("name", ["yelp_polarity", "yelp_review_full"])
def test_yelp_without_a_network_says_so_at_once(name):
    with pytest.raises(ConfigError, match=f"the data set {name} is not on this machine, and the hub cannot be reached"):
        LabelledHub(dataset=name).read()


def test_a_folder_that_is_not_there_is_no_name_of_the_hub(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file or folder .*/no/such"):
        LabelledHub(dataset=str(tmp_path / "no/such")).read()


# ------------------------------------------------------------------------------------------------- words


def test_words_are_counted_in_the_documents_given_and_ties_follow_the_alphabet():
    codec = Words(vocabulary=FIRST + 3).build(["The cat, the dog.", "the dog sat; don't"])
    assert codec.words == ("the", "dog", ",")
    (ids,) = codec.encode(["The dog, and a cat"])
    assert ids.tolist() == [FIRST, FIRST + 1, FIRST + 2, UNKNOWN, UNKNOWN, UNKNOWN]
    assert codec.decode([*ids[:4].tolist(), SEPARATOR, PAD]) == "the dog , \ufffd"
    assert codec.n_ids == FIRST + 3


def test_what_a_word_is():
    assert words_of("It's 10/10!\nDon't miss") == ["it's", "10", "/", "10", "!", "don't", "miss"]


def test_other_words_have_another_digest_and_fewer_words_fewer_ids():
    one, other = (Words().build([text]) for text in ("a b", "a c"))
    assert one.digest != other.digest
    assert one.n_ids == FIRST + 2
    with pytest.raises(ConfigError, match="vocabulary is 3: at least 4 ids"):
        Words(vocabulary=3)


def test_words_are_counted_once_on_a_machine(monkeypatch):
    first = Words().build(["a b b"])
    monkeypatch.setattr(Words, "_learned", None)
    assert Words().build(["a b b"]).words == first.words


def test_words_are_kept_beside_a_run(tmp_path):
    codec = Words().build(["a b b"])
    codec.keep(tmp_path)
    assert json.loads(Path(tmp_path / "words.json").read_text()) == ["b", "a"]
    assert Counter(codec.words) == Counter("ab")
