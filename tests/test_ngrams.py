"""Interpolated n-grams: they sum to one, agree with counting by hand, and see nothing beyond their row."""

import itertools
import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from partwise.text.ngrams import NGrams

V = 5


def stream(n: int, seed: int = 0) -> np.ndarray:
    """A walk with habits, so that counts of every size occur."""
    drawn, found = random.Random(seed), [0, 1, 2]
    while len(found) < n:
        found.append((found[-1] + found[-3]) % (V - 1) if drawn.random() < 0.7 else drawn.randrange(V - 1))
    return np.array(found, dtype=np.uint16)


def discounts(counts) -> list[float]:
    """Chen & Goodman's, or half of one where a count of 1 to 4 is missing."""
    n = Counter(counts)
    if not all(n[i] for i in (1, 2, 3, 4)):
        return [0.0, 0.5, 0.5, 0.5]
    y = n[1] / (n[1] + 2 * n[2])
    return [0.0, *(min(max(i - (i + 1) * y * n[i + 1] / n[i], 0.1), i) for i in (1, 2, 3))]


def by_hand(tokens: list[int], context: tuple[int, ...], word: int) -> float:
    """The formula of the docstring, word by word, with dictionaries."""

    def grams(k):
        return [tuple(tokens[i : i + k]) for i in range(len(tokens) - k + 1)]

    def amounts(k, longest):
        if longest:
            return Counter(grams(k))
        before = defaultdict(set)
        for gram in set(grams(k + 1)):
            before[gram[1:]].add(gram[0])
        return Counter({gram: len(words) for gram, words in before.items()})

    def probability(h, longest):
        below = 1 / V if not h else probability(h[1:], longest=False)[word]
        held = amounts(len(h) + 1, longest)
        d = discounts(list(held.values()))
        whole = sum(held[(*h, w)] for w in range(V))
        if not whole:
            return dict.fromkeys(range(V), below) if h else {}
        taken = sum(d[min(3, held[(*h, w)])] for w in range(V))
        own = held[(*h, word)]
        return {word: (own - d[min(3, own)]) / whole + taken / whole * below}

    return probability(context, longest=True)[word]


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_it_agrees_with_counting_by_hand(order):
    tokens = stream(300)
    model = NGrams(tokens, order=5, n_ids=V)
    rows = np.array([[1, 2, 3, 0, 1, 1], [3, 3, 3, 3, 2, 0]])
    targets = np.array([[2, 3, 0, 1, 1, 3], [3, 3, 3, 2, 0, 1]])
    found = model.nats(rows, targets, order=order)
    for b, t in itertools.product(range(2), range(6)):
        context = tuple(rows[b, max(0, t - order + 2) : t + 1].tolist()) if order > 1 else ()
        assert found[b, t] == pytest.approx(-math.log(by_hand(tokens.tolist(), context, targets[b, t])), abs=1e-9)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("n", [2, 3, 5, 40, 2000])
def test_probabilities_sum_to_one_over_the_vocabulary(order, n):
    model = NGrams(stream(n), order=5, n_ids=V)
    rows = np.array(list(itertools.product(range(V), repeat=4)))  # every context, also those that never came
    total = sum(np.exp(-model.nats(rows, np.full_like(rows, word), order=order)) for word in range(V))
    np.testing.assert_allclose(total, 1, atol=1e-12)


def test_what_never_came_has_some_probability():
    assert np.isfinite(NGrams(stream(500), order=5, n_ids=V).nats(np.array([[0]]), np.array([[V - 1]]), order=5)).all()


def test_a_position_sees_what_stands_before_it_in_its_row_and_nothing_else():
    model = NGrams(stream(2000), order=5, n_ids=V)
    row, other = np.array([[1, 2, 3, 0, 1, 2]]), np.array([[1, 2, 3, 3, 3, 3]])
    targets = np.array([[2, 3, 0, 1, 2, 0]])
    one, two = model.nats(row, targets, order=5), model.nats(other, targets, order=5)
    np.testing.assert_array_equal(one[:, :3], two[:, :3])
    assert (one[:, 3:] != two[:, 3:]).any()
    tail = model.nats(row[:, 2:], targets[:, 2:], order=5)
    assert tail[0, 0] != one[0, 2]  # with less before it, it knows less
    assert tail[0, 3] == pytest.approx(one[0, 5])


def test_longer_contexts_predict_better_where_the_text_has_habits():
    train, test = stream(6000), stream(1000, seed=1).astype(np.int64)[None]
    model = NGrams(train, order=5, n_ids=V)
    bigram, longer = (model.nats(test[:, :-1], test[:, 1:], order=k).mean() for k in (2, 5))
    assert longer < bigram - 0.2


def test_a_large_vocabulary_needs_no_table_of_its_pairs():
    ids = np.array([0, 199_999, 7, 0, 199_999, 8, 0, 199_999], dtype=np.int32)
    found = NGrams(ids, order=5, n_ids=200_000).nats(np.array([[0]]), np.array([[199_999]]), order=5)
    assert found[0, 0] < 1
