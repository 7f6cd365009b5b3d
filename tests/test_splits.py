"""The splits of an endless task: by content, the same on every machine, a sixteenth each for validation and test."""

import pytest
import torch

from partwise.errors import ConfigError
from partwise.seeds import generator_for
from partwise.tasks.splits import bucket_of, draw_split, in_split


def test_each_example_belongs_to_exactly_one_split():
    content_BL = torch.randint(50, (5000, 7), generator=generator_for(0, "x"))
    member = torch.stack([in_split(split, content_BL) for split in ("train", "validation", "test")])
    assert (member.sum(0) == 1).all()
    for share, expected in zip(member.double().mean(1).tolist(), (14 / 16, 1 / 16, 1 / 16), strict=True):
        assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 5000) ** 0.5)


@pytest.mark.parametrize("kind", ["integers", "one column", "a count", "real numbers"])
def test_the_buckets_are_equally_full(kind):
    content_BL = {
        "integers": torch.randint(3, (16_000, 20), generator=generator_for(0, "x")),
        "one column": torch.arange(16_000)[:, None],
        "a count": torch.arange(16_000)[:, None] // torch.tensor([1, 10, 100]) % 10,
        "real numbers": torch.rand(16_000, 3, generator=generator_for(0, "x")),
    }[kind]
    content_BL = content_BL.unique(dim=0)
    counts = torch.bincount(bucket_of(content_BL), minlength=16)
    assert len(counts) == 16
    n = len(content_BL)
    assert (counts - n / 16).abs().max() < 5 * (n * 15 / 256) ** 0.5


def test_the_hash_is_pinned_since_a_new_one_would_move_old_test_examples_into_training():
    content_BL = torch.tensor([[1, 2, 3], [3, 2, 1], [0, 0, 0], [2**40, -5, 7]])
    assert bucket_of(content_BL).tolist() == [2, 14, 3, 15]
    assert bucket_of(content_BL.to(torch.int32)[:3]).tolist() == [2, 14, 3]


def test_draw_split_gives_exactly_what_was_asked_for_and_goes_on_until_there_is_enough():
    calls = []

    def draw(count):
        calls.append(count)
        return torch.randint(9, (min(count, 40), 4), generator=generator_for(len(calls), "x"))

    for n in (1, 30, 200):
        content_BL = draw_split(n, "train", draw)
        assert content_BL.shape == (n, 4)
        assert in_split("train", content_BL).all()
    assert len(calls) > 3


def test_an_empty_split_is_an_error_and_not_an_endless_loop():
    with pytest.raises(ConfigError, match="too small to be split"):
        draw_split(1, "test", lambda count: torch.zeros(count, 3, dtype=torch.int64))
