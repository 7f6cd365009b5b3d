import pytest

from partwise.report import cells, verdicts

THREE, FIVE = (f" ({n} seeds at n_pairs=8, width 64)" for n in (3, 5))


def told(records):
    (sentences,) = verdicts(cells(records)).values()
    return sentences


def test_an_arm_that_keeps_nearly_all_shows_what_need_not_learn(arm):
    records = arm("standard", [1.0] * 5) + arm("frozen_qk", [0.98, 0.99, 0.985, 0.975, 0.97])
    assert told(records) == [f"queries and keys need not learn: frozen_qk keeps 98 % [96, 99]{FIVE}."]


def test_an_arm_at_the_floor_shows_what_cannot_do_it(arm):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.22, 0.23, 0.225])
    assert told(records) == [f"the random mixing matrix does not do it: mixit keeps 3 % [2, 5]{THREE}."]


def test_an_arm_in_between_does_it_in_part(arm):
    records = arm("standard", [1.0] * 3) + arm("frozen_mlp", [0.6, 0.61, 0.62]) + arm("mine", [0.6, 0.61, 0.62])
    assert told(records) == [
        f"the feed-forward must learn for the rest: frozen_mlp keeps 51 % [48, 54]{THREE}.",
        f"mine does it in part: it keeps 51 % [48, 54]{THREE}.",
    ]


def test_seeds_that_split_settle_nothing(arm):
    records = arm("standard", [1.0] * 5) + arm("frozen_qk", [1.0, 0.2, 0.99, 0.98, 0.21])
    (sentence,) = told(records)
    assert sentence.startswith("frozen_qk is not settled, its seeds split into two groups")
    assert sentence.endswith(f"3 of 5 seeds solve it{FIVE}.")


def test_an_interval_across_a_border_settles_nothing(arm):
    records = arm("standard", [1.0] * 3) + arm("frozen_qk", [0.95, 0.86, 0.9])
    assert told(records) == [f"frozen_qk is not settled: it keeps 88 % [74, 102], and 1 of 3 seeds solves it{THREE}."]


def test_lost_runs_are_told_beside_the_verdict(arm, run):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.22, 0.23, 0.225]) + [run("mixit", 9, status="diverged")]
    assert told(records)[0].endswith("keeps 3 % [2, 5] (3 seeds at n_pairs=8, width 64; 1 of 4 runs have no score).")


def test_one_seed_tells_what_happened_and_infers_nothing(run):
    values = {"standard": 1.0, "frozen_qk": 0.99, "frozen_mlp": 0.98, "mixit": 0.25, "embeddings_only": 0.2}
    assert told([run(name, value=value) for name, value in values.items()]) == [
        "One seed, so no interval: standard, frozen_qk and frozen_mlp solve it; mixit closes 6 % of the way from the "
        "floor, embeddings_only is at the floor. --seeds 5 gives a verdict."
    ]


def test_two_seeds_are_too_few(arm):
    records = arm("standard", [1.0, 1.0]) + arm("mixit", [0.6, 0.6])
    assert told(records) == [
        "Two seeds, too few for a verdict: standard solves it; mixit closes 50 % of the way from the floor. --seeds 5 "
        "gives a verdict."
    ]


def test_where_standard_still_rises_the_order_is_one_of_speed(arm, bits):
    settings = {"task": "memorization", "headline": bits, "floor": 200.0}
    records = arm("standard", [2000.0, 2010.0, 2020.0], gain=0.07, **settings)
    records += arm("frozen_qk", [1500.0, 1510.0, 1520.0], **settings) + arm(
        "mixit", [1490.0, 1500.0, 1510.0], **settings
    )
    assert told(records) == [
        f"Order: standard 2.01 k > frozen_qk 1.51 k ≈ mixit 1.50 k{THREE}; ≈: their intervals overlap.",
        "standard (by 7 %) still rises over the last tenth of its steps, so this compares speed, not capacity.",
    ]


def test_where_nobody_rises_the_order_is_one_of_capacity(arm, bits):
    settings = {"task": "memorization", "headline": bits, "floor": 200.0}
    records = arm("standard", [2000.0, 2010.0, 2020.0], **settings) + arm("mixit", [500.0, 510.0, 520.0], **settings)
    order, meaning = told(records)
    assert order == f"Order: standard 2.01 k > mixit 510{THREE}."
    assert "compares capacity" in meaning
    rising = arm("mixit", [500.0, 510.0, 520.0], gain=0.1, **settings)
    assert told(records[:3] + rising)[1] == (
        "mixit (by 10 %) still rises over the last tenth of its steps, so this compares speed as well as capacity."
    )
    assert told([records[0], records[3]]) == [
        "Order, without intervals and so unsure: standard 2.00 k, mixit 500 (1 seed at n_pairs=8, width 64)."
    ]


def test_every_arm_that_still_rises_is_named(run, bits):
    settings = {"task": "memorization", "headline": bits, "floor": 200.0}
    gains = {"standard": (2000.0, 0.03), "frozen_qk": (1500.0, 0.05), "mixit": (900.0, 0.0)}
    records = [run(name, value=value, gain=gain, **settings) for name, (value, gain) in gains.items()]
    assert told(records)[1] == (
        "standard (by 3 %) and frozen_qk (by 5 %) still rise over the last tenth of their steps, so this compares "
        "speed, not capacity."
    )


def test_an_arm_is_told_by_where_it_is(run):
    values = {"standard": 1.0, "mixit": 0.1, "embeddings_only": 0.248, "norms_only": 0.1}
    records = [run(name, value=value, gain=0.1 if name == "mixit" else 0) for name, value in values.items()]
    assert told(records) == [
        "One seed, so no interval: standard solves it; embeddings_only closes 6 % of the way from the floor, mixit is "
        "below the floor (and still rising), norms_only is below the floor. --seeds 5 gives a verdict."
    ]


def test_an_arm_below_the_floor_keeps_nothing(arm):
    records = arm("standard", [1.0] * 3) + arm("mixit", [0.11, 0.1, 0.12], gain=0.1)
    records += arm("mine", [0.12, 0.11, 0.1]) + arm("embeddings_only", [0.2, 0.21, 0.19])
    assert told(records) == [
        f"the random mixing matrix does not do it: mixit is below the floor and still rises{THREE}.",
        f"learning the embeddings alone does not do it: embeddings_only keeps 0 % [−3, 3]{THREE}.",
        f"mine does not do it: it is below the floor{THREE}.",
    ]


def test_a_name_with_a_comma_stands_in_quotes_among_others(run):
    records = [run(name) for name in ("standard", "standard, frozen blocks.*.norm_1", "frozen_qk")]
    assert "standard, 'standard, frozen blocks.*.norm_1' and frozen_qk solve it" in told(records)[0]


def test_the_scope_is_the_tasks_first_field_what_it_has_a_number_of_and_the_width(arm):
    settings = {"task__n_values": 63, "task__n_keys": None, "task__share": 0.5}
    (sentence,) = told(arm("standard", [1.0] * 3, **settings) + arm("frozen_qk", [1.0, 0.99, 0.98], **settings))
    assert sentence.endswith("(3 seeds at n_pairs=8, n_values=63, width 64).")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.2, 0.21, 0.2], "standard is at the floor, so nothing"),
        ([1.0, 0.2, 1.0], "standard is solved by 2 of 3 seeds only"),
    ],
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
