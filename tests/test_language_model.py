"""Language modelling: rows of real text, nats in bits per byte, floors on the same tokens."""

import dataclasses
import json
import lzma
import math

import numpy as np
import pytest
import torch
from torch import nn

from partwise.batch import IGNORE
from partwise.corpora.files import Files
from partwise.encoders.bpe import Bpe
from partwise.encoders.bytes import FIRST, SEPARATOR
from partwise.errors import ConfigError
from partwise.evaluation import headline, headline_of, measure
from partwise.experiment import Experiment, load_run, run
from partwise.model import ModelConfig
from partwise.seeds import generator_for
from partwise.tasks.language_model import SCORED, LanguageModel
from partwise.training import TrainConfig

COUNTS = {"trainable_parameters": 1.0, "total_parameters": 1.0}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sixty small letters, in which some words come again and again."""
    folder = tmp_path_factory.mktemp("letters")
    for i in range(60):
        words = [f"word{(i * j) % 17}" for j in range(30 + i % 7)]
        (folder / f"{i:02}.txt").write_text(f"Letter {i}: " + " ".join(words) + " é.\n", encoding="utf-8")
    return Files(files=(str(folder / "*.txt"),))


def task(files, **fields):
    return LanguageModel(corpus=files, **{"length": 16} | fields)


class Fixed(nn.Module):
    """Says the same of every position."""

    def __init__(self, logits_V):
        super().__init__()
        self.logits_V = nn.Parameter(logits_V)

    def forward(self, tokens_BL):
        return self.logits_V.expand(*tokens_BL.shape, -1)


def measured(model, data, split="test"):
    found = measure(model, data, data.all_of(split), split=split, step=0, counts=COUNTS)
    return {row.quantity: row.value for row in found if row.where == split}


def test_every_target_is_the_token_that_follows(files):
    data = task(files).build(seed=0)
    for split, rows in data.rows.items():
        batch = data.all_of(split)
        assert torch.equal(batch.tokens_BL[:, 1:], batch.targets_BL[:, :-1])
        stream = np.asarray(rows.stream_N).astype(np.int64)
        assert batch.tokens_BL[0].tolist() == stream[:16].tolist()
        drawn = data.sample(5, split=split, generator=generator_for(0, "t"))
        text = bytes((stream - FIRST).clip(0).astype(np.uint8))
        assert all(bytes((row.numpy() - FIRST).clip(0).astype(np.uint8)) in text for row in drawn.tokens_BL)
    assert data.rows["train"].stream_N[0] == SEPARATOR
    assert not data.shape.may_look_ahead


def test_rows_that_are_scored_follow_one_another_and_score_each_token_once(files):
    data = task(files, length=7).build(seed=0)
    stream = np.asarray(data.rows["test"].stream_N).astype(np.int64)
    scored = data.all_of("test").targets_BL.flatten().tolist()
    assert scored == stream[1 : 1 + len(scored)].tolist()
    assert len(stream) - 1 - len(scored) < 7


def test_much_text_is_scored_in_rows_spread_evenly(files, monkeypatch):
    monkeypatch.setitem(SCORED, "train", 160)
    data = task(files).build(seed=0)
    batch, every = data.all_of("train"), len(data.rows["train"])
    assert len(batch) == 10 < every
    last = data.rows["train"].numbers(torch.tensor([every - 1]))
    assert torch.equal(batch.tokens_BL[-1:], last.tokens_BL)


def test_one_document_a_row_is_padded_and_cut_as_published(files):
    data = task(files, rows="one_document", length=250).build(seed=0)
    for split in ("train", "validation", "test"):
        batch, held = data.all_of(split), data.rows[split]
        assert len(batch) == len(held)
        for b in range(len(batch)):
            n = int(batch.lengths_B[b])
            text = data.codec.decode(batch.targets_BL[b, :n].tolist())
            assert batch.tokens_BL[b, 0] == SEPARATOR and text.startswith("Letter")
            ends = int(batch.targets_BL[b, n - 1]) == SEPARATOR
            assert ends == text.endswith("é.\n") == (n <= 249 or ends)
            assert (batch.targets_BL[b, n:] == IGNORE).all() and (batch.tokens_BL[b, n:] == data.codec.pad).all()
    assert batch.lengths_B.unique().numel() > 1
    short = task(files, rows="one_document", length=16).build(seed=0).all_of("test")
    assert (short.lengths_B == 16).all() and (short.targets_BL != IGNORE).all()


def test_bits_per_byte_is_the_closed_form(files):
    """A model that gives each byte probability 1/512 has nine bits a byte; separators cost nats and are no bytes."""
    data = task(files).build(seed=0)
    p_V = torch.full((data.codec.n_ids,), 1 / 512)
    p_V[SEPARATOR] = 1 - (data.codec.n_ids - 1) / 512
    found = measured(Fixed(p_V.log()), data)
    targets = data.all_of("test").targets_BL
    n_separators = int((targets == SEPARATOR).sum())
    n_bytes = targets.numel() - n_separators
    assert n_separators > 0
    nats = n_bytes * math.log(512) - n_separators * math.log(p_V[SEPARATOR].item())
    assert found["loss"] == pytest.approx(nats / targets.numel(), rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / n_bytes, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(nats / targets.numel()), rel=1e-5)


def test_bits_per_byte_does_not_depend_on_the_tokens(files):
    """Nats are counted over bytes, of which a pair has more than one."""
    data = task(files, encoder=Bpe(vocabulary=300)).build(seed=0)
    targets = data.all_of("test").targets_BL
    bytes_V = torch.from_numpy(data.codec.bytes_V)
    assert bytes_V[targets].sum() > 1.3 * targets.numel()
    found = measured(Fixed(torch.zeros(data.codec.n_ids)), data)
    bits = targets.numel() * math.log2(data.codec.n_ids)
    assert found["bits_per_byte"] == pytest.approx(bits / bytes_V[targets].sum().item(), rel=1e-5)


def test_floors_stand_in_every_unit_on_the_very_same_tokens(files):
    data = task(files).build(seed=0)
    found = measured(Fixed(torch.zeros(data.codec.n_ids)), data)
    counts = np.bincount(data.rows["train"].stream_N, minlength=data.codec.n_ids)
    targets = data.all_of("test").targets_BL.numpy()
    seen = counts[targets] > 0
    by_hand = -np.log(counts[targets][seen] / counts.sum()).mean()
    assert found["loss.floor.unigram"] == pytest.approx(by_hand, abs=0.02)  # a little is kept for what never came
    names = {name.split(".floor.")[1] for name in found if name.startswith("loss.floor.")}
    assert names == {"unigram", "bigram", "five_gram", "xz", "xz_after_training"}
    assert found["loss.floor.five_gram"] < found["loss.floor.bigram"] < found["loss.floor.unigram"] < found["loss"]
    for name in names:
        nats = found[f"loss.floor.{name}"]
        assert found[f"perplexity.floor.{name}"] == pytest.approx(math.exp(nats))
        assert found[f"bits_per_byte.floor.{name}"] == pytest.approx(found["bits_per_byte"] * nats / found["loss"])
    assert headline(headline_of(data), found).floor == min(found[f"loss.floor.{name}"] for name in names)
    assert not headline(headline_of(data), found).solved


def test_the_compressor_reads_the_scored_text_alone_and_behind_the_training_text(files):
    data = task(files).build(seed=0)
    batch = data.all_of("test")
    text = data.codec.decode(batch.targets_BL.flatten().tolist()).encode()
    counts = data.counts(batch)
    assert counts["scored_bytes"] == (batch.targets_BL >= FIRST).sum() and counts["scored_tokens"] == 16 * len(batch)
    alone = len(lzma.compress(text, preset=9))  # with a header and a checksum
    assert alone - 100 < counts["xz"] < alone
    assert counts["xz_after_training"] < counts["xz"] / 2  # letters of the same words


def test_what_is_known_of_a_test_set_is_counted_once(files, monkeypatch):
    first = task(files, length=9).build(seed=0)
    expected, counts = first.floor_losses(first.all_of("test")), first.counts(first.all_of("test"))

    def again(*args, **kwargs):
        raise AssertionError("counted again")

    monkeypatch.setattr("partwise.text.floors.NGrams", again)
    monkeypatch.setattr("partwise.text.floors._compressed", again)
    data = task(files, length=9).build(seed=1)
    found = data.floor_losses(data.all_of("test"))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert data.counts(data.all_of("test")) == counts
    with pytest.raises(AssertionError, match="counted again"):
        data.floor_losses(data.sample(3, split="test", generator=generator_for(0, "other")))


def test_a_tokenizer_without_bytes_has_nats_and_no_bits(files, monkeypatch):
    data = task(files).build(seed=0)
    monkeypatch.setattr(data.codec, "bytes_V", None)
    found = measured(Fixed(torch.zeros(data.codec.n_ids)), data)
    assert not any(name.startswith(("bits_per_byte", "loss.floor.xz")) for name in found)
    assert "perplexity.floor.five_gram" in found


def test_the_runs_seed_changes_the_rows_drawn_and_not_what_is_held_out(files):
    one, other = task(files).build(seed=0), task(files).build(seed=1)
    assert torch.equal(one.all_of("test").tokens_BL, other.all_of("test").tokens_BL)
    moved = task(files, split_seed=1).build(seed=0)
    assert moved.all_of("test").tokens_BL.shape != one.all_of("test").tokens_BL.shape or not torch.equal(
        moved.all_of("test").tokens_BL, one.all_of("test").tokens_BL
    )


@pytest.mark.parametrize("text", ["A line of text, alone.", "x" * 300], ids=["one line", "one word"])
def test_text_shorter_than_a_row_is_said(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ConfigError, match=r"train split: \d+ tokens do not fill a row of 1000 and the token after it"):
        LanguageModel(corpus=Files(files=(str(tmp_path / "a.txt"),)), length=1000).build(seed=0)


def test_a_row_of_one_token_is_refused():
    with pytest.raises(ConfigError, match="length is 1: at least 2"):
        LanguageModel(length=1)


@pytest.fixture
def experiment(files):
    return Experiment(
        task=task(files, encoder=Bpe(vocabulary=300)),
        model=ModelConfig(width=16, n_blocks=1),
        train=TrainConfig(steps=60, batch=16, lr=1e-2, warmup=5),
    )


def test_a_run_learns_and_its_folder_is_enough_to_use_it(experiment, tmp_path, monkeypatch):
    record = run(experiment, tmp_path)
    assert record.status == "done"
    assert record.value("loss") < record.value("loss.floor.unigram")
    assert record.headline["name"] == "loss" and record.headline["margin"] == 0.1
    (folder,) = (tmp_path / "runs").iterdir()
    kept = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    data, _ = experiment.build()
    assert len(kept["model"]["vocab"]) == data.codec.n_ids

    def gone(self):
        raise AssertionError("the text was read")

    monkeypatch.setattr(Files, "read", gone)
    again, model = load_run(folder)
    assert again == experiment
    batch = data.all_of("test")
    monkeypatch.undo()
    found = measure(model, data, batch, split="test", step=60, counts=COUNTS)
    assert next(row.value for row in found if row.quantity == "loss") == pytest.approx(record.value("loss"), abs=1e-6)


def test_a_model_of_an_older_file_is_built_from_its_task(experiment, tmp_path):
    from partwise.checkpoint import load_tensors, save_tensors

    run(dataclasses.replace(experiment, train=TrainConfig(steps=2, batch=4, warmup=1)), tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    tensors, note = load_tensors(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", tensors, {"experiment": note["experiment"]})
    _, model = load_run(folder)
    assert torch.equal(model.embed.weight, tensors["embed.weight"])


def test_many_logits_are_scored_in_smaller_pieces(files, monkeypatch):
    data = task(files).build(seed=0)
    model = Fixed(torch.arange(258.0) / 100)
    whole = measured(model, data)
    monkeypatch.setattr("partwise.evaluation.LOGITS", 258 * 16 * 3)
    pieces = measured(model, data)
    assert pieces["loss"] == pytest.approx(whole["loss"], rel=1e-6)
    assert pieces["accuracy"] == whole["accuracy"]
