"""Sides are timed in turn."""

from partwise import timing
from partwise.timing import in_turn


def test_rounds_begin_with_another_side_each_and_the_first_does_not_count():
    seen: list[str] = []
    spent = in_turn({name: lambda name=name: seen.append(name) for name in "abc"}, rounds=2)
    assert "".join(seen) == "abc" + "bca" + "cab"
    assert {name: len(times) for name, times in spent.items()} == {"a": 2, "b": 2, "c": 2}


def test_it_goes_on_until_the_seconds_have_passed_since_the_round_that_does_not_count(monkeypatch):
    now = 0.0

    def slow():
        nonlocal now
        now += 1.0 if now else 100.0

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now)
    assert in_turn({"slow": slow}, rounds=3, seconds=5.0) == {"slow": [1.0] * 5}
    now = 0.0
    assert in_turn({"slow": slow}, rounds=3, seconds=1.0) == {"slow": [1.0] * 3}
