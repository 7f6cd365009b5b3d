"""Random heads and what can be read out of them."""

import dataclasses

import pytest
import torch

from partwise.seeds import generator_for
from partwise.theory import Line, expressivity
from partwise.theory.expressivity import Expressivity, drawn, mixing_heads, ridge_error, softmax_heads

SMALL = Expressivity(heads=(1, 8, 32), hidden=128, small=(2,), widths=(128,), steps=500)


def generator():
    return generator_for(0, "draws")


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(expressivity, "SPLITS", {"train": 2000, "validation": 500, "test": 1000})


def test_the_target_is_the_value_of_the_key_most_like_the_query():
    data = drawn(50, 3, generator())
    for tokens, query, target in zip(*data, strict=True):
        nearest = max(range(3), key=lambda i: torch.dot(tokens[i, :4], query).item())
        assert torch.equal(tokens[nearest, 4:], target)
    first = (data.tokens_BMC[:, 0, 4:] == data.target_BV).all(-1).float().mean()
    assert 0.1 < first < 0.6  # no place is the place


def test_softmax_heads_read_by_content_and_mixing_heads_do_not():
    data = drawn(20, 4, generator())
    other = data._replace(query_BK=data.query_BK.roll(1, 0))
    assert torch.equal(mixing_heads(data, 3, generator()), mixing_heads(other, 3, generator()))
    assert not torch.allclose(softmax_heads(data, 3, generator()), softmax_heads(other, 3, generator()))
    permuted = data._replace(tokens_BMC=data.tokens_BMC.flip(1))
    torch.testing.assert_close(softmax_heads(data, 3, generator()), softmax_heads(permuted, 3, generator()))


def test_ridge_finds_a_linear_target_and_nothing_in_noise():
    data = {split: drawn(400, 2, generator_for(0, split)) for split in ("train", "validation", "test")}
    whole = {split: one.target_BV @ torch.randn(4, 6, generator=generator()) for split, one in data.items()}
    noise = {split: torch.randn(400, 6, generator=generator_for(1, split)) for split in data}
    assert ridge_error(whole, data) < 1e-3
    assert ridge_error(noise, data) == pytest.approx(1, abs=0.1)


@pytest.mark.usefixtures("_few")
def test_the_lines_hold_and_fail_where_mixing_reads_by_content(monkeypatch):
    lines = [one for one in SMALL.run() if isinstance(one, Line)]
    regressed = [line for line in lines if not line.about.startswith("MixiT")]
    assert len(regressed) == 12
    assert all(line.holds for line in regressed)
    trained = {line.what: line.measured for line in lines}
    assert trained["2 tokens, 16 heads, MLP of 128"] < 0.2 < 0.9 < trained["2 tokens, 1 heads, MLP of 128"]

    monkeypatch.setattr(expressivity, "mixing_heads", softmax_heads)
    sighted = dataclasses.replace(SMALL, heads=(8, 32), widths=(16,), steps=1)
    failed = [one for one in sighted.run() if isinstance(one, Line) and not one.holds]
    assert any(line.about.startswith("mixing heads, linear readout") for line in failed)
