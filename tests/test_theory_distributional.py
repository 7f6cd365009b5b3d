"""The second paper's theory: every line holds, and each kind of fault makes one fail."""

import pytest

from partwise.theory import distributional
from partwise.theory.distributional import Distributional, limit, reduced_memory, trained_memory

SMALL = Distributional(runs=40, examples=4000, steps=4000)


def failing(check=SMALL):
    return [line for line in check.run() if not line.holds]


def test_every_line_holds():
    lines = list(SMALL.run())
    assert len(lines) == 3 * 4 + 2 * 4 + 6 * 6
    assert not [(line.about, line.what, line.measured) for line in lines if not line.holds]


def test_a_plant_in_the_examples_is_found(monkeypatch):
    honest = distributional._recall

    def noisier(n, n_tokens, length, alpha, generator):
        return honest(n, n_tokens, length, min(0.9, alpha + 0.2), generator)

    monkeypatch.setattr(distributional, "_recall", noisier)
    found = {line.about.split(":")[0] for line in failing()}
    assert {"first step", "pull on attention"} <= found


def test_attention_that_adds_up_what_it_should_average_is_found(monkeypatch):
    honest = distributional._means
    size = 20_000  # kappa is measured on so many, and stays right

    def doubled(tokens_BL, vocabulary):
        return honest(tokens_BL, vocabulary) * (1 if len(tokens_BL) == size else 2)

    monkeypatch.setattr(distributional, "_means", doubled)
    assert {line.what for line in failing()} >= {"attention: margin of the noise", "attention over feed-forward"}


def test_a_memory_that_learned_no_noise_is_found(monkeypatch):
    monkeypatch.setattr(distributional, "trained_memory", lambda n, alpha, steps: trained_memory(n, 0.01, steps))
    assert {line.about.split(":")[0] for line in failing()} == {"memory with common noise"}


@pytest.mark.parametrize(
    ("n", "alpha", "noise", "others"),
    [(2, 0.3, 4.37, 9.26), (3, 0.3, 8.28, 9.55), (4, 0.1, 9.51, 10.02), (4, 0.3, 11.59, 9.77), (8, 0.3, 21.9, 10.4)],
)
def test_the_memory_has_the_singular_values_that_were_found_elsewhere(n, alpha, noise, others):
    a, c = reduced_memory(n, alpha, 20_000)
    assert a == pytest.approx(others, abs=0.05)
    assert (n + 1) ** 0.5 * c == pytest.approx(noise, abs=0.05)


def test_from_how_many_inputs_on_the_noise_is_the_largest_component():
    """In the limit from N = 4 on; that is why keeping the largest components does not remove it."""
    assert [limit(n) < 1 for n in (2, 4, 8, 64)] == [True, False, False, False]
    assert limit(3) == 1.0
