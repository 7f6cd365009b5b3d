import pytest

from partwise.report import cells, verdicts


def told(records):
    (sentences,) = verdicts(cells(records)).values()
    return sentences


def test_an_arm_that_keeps_nearly_all_shows_what_need_not_learn(arm):
    records = arm("standard", [1.0] * 5) + arm("frozen_qk", [0.98, 0.99, 0.985, 0.975, 0.97])
    assert told(records) == ["queries and keys need not learn: frozen_qk keeps 98 % [96, 99]."]


def test_an_arm_at_the_floor_shows_what_cannot_do_it(arm):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.22, 0.23, 0.225])
    assert told(records) == ["the random mixing matrix cannot do it: mixit keeps 3 % [2, 5]."]


def test_an_arm_in_between_does_it_in_part(arm):
    records = arm("standard", [1.0] * 3) + arm("frozen_mlp", [0.6, 0.61, 0.62]) + arm("mine", [0.6, 0.61, 0.62])
    assert told(records) == [
        "the feed-forward must learn for the rest: frozen_mlp keeps 51 % [48, 54].",
        "mine does it in part: it keeps 51 % [48, 54].",
    ]


def test_seeds_that_split_settle_nothing(arm):
    records = arm("standard", [1.0] * 5) + arm("frozen_qk", [1.0, 0.2, 0.99, 0.98, 0.21])
    (sentence,) = told(records)
    assert sentence.startswith("frozen_qk is not settled, its seeds split into two groups")
    assert sentence.endswith("3 of 5 seeds solve it.")


def test_an_interval_across_a_border_settles_nothing(arm):
    records = arm("standard", [1.0] * 3) + arm("frozen_qk", [0.95, 0.86, 0.9])
    assert told(records) == ["frozen_qk is not settled: it keeps 88 % [74, 102], and 1 of 3 seeds solves it."]


def test_lost_runs_are_told_beside_the_verdict(arm, run):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.22, 0.23, 0.225]) + [run("mixit", 9, status="diverged")]
    assert told(records)[0].endswith("keeps 3 % [2, 5] (1 of 4 runs have no score).")


def test_one_seed_tells_what_happened_and_infers_nothing(run):
    values = {"standard": 1.0, "frozen_qk": 0.99, "frozen_mlp": 0.98, "mixit": 0.21, "embeddings_only": 0.2}
    assert told([run(name, value=value) for name, value in values.items()]) == [
        "One seed, so no interval: standard, frozen_qk and frozen_mlp solve it; mixit and embeddings_only stay at the "
        "floor. --seeds 5 gives a verdict."
    ]


def test_two_seeds_are_too_few(arm):
    records = arm("standard", [1.0, 1.0]) + arm("mixit", [0.6, 0.6])
    assert told(records) == [
        "Two seeds, too few for a verdict: standard solves it; mixit comes 50 % of the way. --seeds 5 gives a verdict."
    ]


def test_where_standard_still_rises_the_order_is_one_of_speed(arm, bits):
    settings = {"task": "memorization", "headline": bits, "floor": 200.0}
    records = arm("standard", [2000.0, 2010.0, 2020.0], gain=0.07, **settings)
    records += arm("frozen_qk", [1500.0, 1510.0, 1520.0], **settings) + arm(
        "mixit", [1490.0, 1500.0, 1510.0], **settings
    )
    assert told(records) == [
        "Order: standard 2.01 k > frozen_qk 1.51 k ≈ mixit 1.50 k (≈: their intervals overlap).",
        "standard still rises by 7 % over the last tenth of its steps, so this compares speed, not capacity.",
    ]


def test_where_nobody_rises_the_order_is_one_of_capacity(arm, bits):
    settings = {"task": "memorization", "headline": bits, "floor": 200.0}
    records = arm("standard", [2000.0, 2010.0, 2020.0], **settings) + arm("mixit", [500.0, 510.0, 520.0], **settings)
    order, meaning = told(records)
    assert order == "Order: standard 2.01 k > mixit 510."
    assert "compares capacity" in meaning
    rising = arm("mixit", [500.0, 510.0, 520.0], gain=0.1, **settings)
    assert "(mixit not yet)" in told(records[:3] + rising)[1]
    assert told([records[0], records[3]]) == ["Order, without intervals and so unsure: standard 2.00 k, mixit 500."]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.2, 0.21, 0.2], "standard stays at the floor"), ([1.0, 0.2, 1.0], "standard is solved by 2 of 3 seeds only")],
)
def test_a_standard_arm_that_fails_measures_nothing(arm, values, expected):
    (sentence,) = told(arm("standard", values) + arm("mixit", [0.2, 0.2, 0.2]))
    assert sentence.startswith(expected)


def test_there_is_silence_without_standard_or_without_another_arm(arm, run):
    assert told(arm("frozen_qk", [1.0, 1.0, 1.0])) == []
    assert told(arm("standard", [1.0, 1.0, 1.0])) == []
    assert told([run("standard", status="diverged"), run("mixit")]) == []


def test_each_setting_has_its_own_verdict(run):
    records = [run(name, pairs, 1.0, task__n_pairs=pairs) for name in ("standard", "mixit") for pairs in (4, 8)]
    assert list(verdicts(cells(records))) == [("needle", "n_pairs=4"), ("needle", "n_pairs=8")]
