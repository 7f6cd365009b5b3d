"""Claims: what makes one confirmed, contradicted or open, on records made by hand."""

import dataclasses
import functools
from pathlib import Path

import pytest
from report.conftest import BITS, make_arm, make_run

from partwise import configs
from partwise.claims import Claim, Finding, Study, distributional, page
from partwise.claims.claim import OPEN
from partwise.claims.depth import becomes_alike, lines_hold, stays_apart
from partwise.claims.judges import answer, fails, keeps, loses_capacity, ordered, rises, worsens
from partwise.claims.page import PAPERS
from partwise.errors import ConfigError, DamagedFile
from partwise.evaluation import headline_of
from partwise.probes.recall import Recall
from partwise.recipes import RECIPES
from partwise.records import RunRecord
from partwise.report import cells
from partwise.rows import Row

RECALLED = ("p_noise", "p_correct", "clean_accuracy")
GOOD, BAD = [0.99, 1.0, 0.98], [0.21, 0.2, 0.22]


def study(*arms, **named):
    return Study("a", cells([record for name, values in arms for record in make_arm(name, values, **named)]))


def verdict(judge, *arms, **named):
    return judge(study(*arms, **named)).verdict


@pytest.mark.parametrize(
    ("values", "keeping", "failing"),
    [
        (GOOD, "confirmed", "contradicted"),
        (BAD, "contradicted", "confirmed"),
        ([0.5, 0.52, 0.54], "contradicted", "not resolvable at this scale"),
        ([0.3, 0.31, 0.32], "contradicted", "confirmed"),
        ([0.7, 0.72, 0.74], "contradicted", "not resolvable at this scale"),
        ([0.99, 0.2, 1.0], "not resolvable at this scale", "not resolvable at this scale"),
        ([0.85, 0.95, 0.99], "not resolvable at this scale", "not resolvable at this scale"),
        (GOOD[:2], "not resolvable at this scale", "not resolvable at this scale"),
    ],
)
def test_keeping_and_failing(values, keeping, failing):
    arms = ("standard", GOOD), ("mixit", values)
    assert verdict(keeps("needle", "mixit"), *arms) == keeping
    assert verdict(fails("needle", "mixit"), *arms) == failing


def test_nothing_is_said_where_standard_fails_or_runs_are_missing():
    unsolved = keeps("needle", "mixit")(study(("standard", BAD), ("mixit", BAD)))
    assert (unsolved.verdict, unsolved.why) == (
        "not resolvable at this scale",
        "at width 64: standard is not solved, so there is nothing to measure by",
    )
    missing = keeps("needle", "frozen_qk", {"task.n_pairs": 16})(study(("standard", GOOD)))
    assert (missing.verdict, missing.why) == ("not run", "no such runs at n_pairs=16 are in a")
    assert keeps("k_hop", "mixit")(Study("empty")).verdict == "not run"


def test_a_claim_for_a_width_is_open_where_a_narrower_arm_fails():
    arms = ("standard", GOOD), ("mixit", BAD)
    found = keeps("needle", "mixit", width=1024)(study(*arms))
    assert found.verdict == "not resolvable at this scale"
    assert found.why.endswith("the claim is for width 1024")
    assert verdict(keeps("needle", "mixit", width=64), *arms) == "contradicted"
    assert verdict(keeps("needle", "mixit", width=1024), arms[0], ("mixit", GOOD)) == "confirmed"


@pytest.mark.parametrize(("gain", "found"), [(0.01, "contradicted"), (0.05, "contradicted"), (0.2, OPEN)])
def test_an_arm_that_fails_and_rises_fast_enough_is_open(gain, found):
    """.5 with a floor of .2: closed .375; 10 more tenths at 5 % add .31 of the way, at 20 % they add 1.25."""
    standard = make_arm("standard", GOOD)
    rising = make_arm("mixit", [0.5, 0.51, 0.49], gain=gain)
    assert keeps("needle", "mixit")(Study("a", cells([*standard, *rising]))).verdict == found


def test_lost_runs_are_told_of_and_unpaired_ones_are_not_enough():
    lost = [make_run("mixit", seed, status="diverged", steps=3) for seed in (3, 4)]
    records = [*make_arm("standard", GOOD), *make_arm("mixit", GOOD), *lost]
    assert "2 of 5 runs without a score" in keeps("needle", "mixit")(Study("a", cells(records))).ours
    two = keeps("needle", "mixit")(Study("a", cells([*make_arm("standard", GOOD[:2]), *make_arm("mixit", GOOD)])))
    assert (two.verdict, two.why) == (OPEN, "at width 64: 2 shared seeds are too few")


def test_another_metric_is_read_against_its_own_floor():
    def exact(value):
        floor = Row(where="test", quantity="exact_match.floor.guess", value=0.1)
        return (Row(where="test", quantity="exact_match", value=value), floor)

    records = [*make_arm("standard", BAD, extra=exact(1.0)), *make_arm("mixit", BAD, extra=exact(0.1))]
    found = keeps("needle", "mixit", metric="exact_match")(Study("a", cells(records)))
    assert found.verdict == "contradicted"
    assert found.why.startswith("at width 64: it keeps 0 % ")


def along(values):
    """mixit at 4, 8 and 16 pairs beside a standard that solves all."""
    records = [
        record
        for m, scores in zip((4, 8, 16), values, strict=True)
        for name, its in (("standard", GOOD), ("mixit", scores))
        for record in make_arm(name, its, task__n_pairs=m)
    ]
    return Study("a", cells(records))


def test_a_claim_at_several_settings_shows_all_and_is_decided_by_the_last():
    at = [{"task.n_pairs": m} for m in (4, 16)]
    found = keeps("needle", "mixit", *at)(along([GOOD, BAD, BAD]))
    assert found.verdict == "contradicted"
    assert found.ours.startswith("n_pairs=4: .990") and "; n_pairs=16: .210" in found.ours
    assert found.why.startswith("at n_pairs=16, width 64: ")


@pytest.mark.parametrize(
    ("values", "falling", "rising"),
    [
        ([GOOD, GOOD, BAD], "confirmed", "contradicted"),
        ([BAD, BAD, GOOD], "contradicted", "confirmed"),
        ([GOOD, BAD, GOOD], "not resolvable at this scale", "not resolvable at this scale"),
        ([[0.2, 0.21, 0.22], BAD, [0.05, 0.06, 0.07]], "not resolvable at this scale", "contradicted"),
    ],
)
def test_falling_and_rising_along_a_setting(values, falling, rising):
    assert worsens("needle", "mixit", "task.n_pairs")(along(values)).verdict == falling
    assert rises("needle", "mixit", "accuracy", "task.n_pairs")(along(values)).verdict == rising


def memorizing(gain=0.0, **arms):
    """Bits per trainable parameter by three counts, one list an arm."""
    kinds = [f"{count}_per_trainable_parameter" for count in ("bits", "bits_accuracy", "bits_fano")]
    records = []
    for name, values in arms.items():
        for seed, value in enumerate(values):
            extra = tuple(Row(where="test", quantity=kind, value=value, unit="bit") for kind in kinds)
            (record,) = make_arm(name, [1000 * value], task="memorization", headline=BITS, gain=gain, extra=extra)
            record.experiment["seed"] = seed
            record.digest = f"{name}{seed}"
            records.append(record)
    return Study("a", cells(records))


TWO, ONE, HALF = [2.0, 2.02, 1.98], [1.0, 1.01, 0.99], [0.5, 0.51, 0.49]


def test_an_order_needs_intervals_that_are_apart():
    judge = ordered("memorization", ("standard", "frozen_qk", "frozen_mlp"))
    assert judge(memorizing(standard=TWO, frozen_qk=ONE, frozen_mlp=HALF)).verdict == "confirmed"
    other = judge(memorizing(standard=TWO, frozen_qk=HALF, frozen_mlp=ONE))
    assert (other.verdict, other.why) == ("contradicted", "frozen_mlp holds more than frozen_qk")
    same = judge(memorizing(standard=TWO, frozen_qk=ONE, frozen_mlp=ONE))
    assert same.verdict == "not resolvable at this scale"
    assert "frozen_qk and frozen_mlp are not settled" in same.why
    assert judge(memorizing(standard=TWO)).verdict == "not run"


def test_an_order_is_open_where_the_lower_arm_may_catch_up():
    """At 5 % a tenth the lower one would be half as high again, at 15 % two and a half times."""
    judge = ordered("memorization", ("standard", "frozen_qk"))
    slow, fast = (judge(memorizing(gain, standard=TWO, frozen_qk=ONE)) for gain in (0.05, 0.15))
    assert (slow.verdict, fast.verdict) == ("confirmed", OPEN)
    assert "scores still rise (standard by 5.0 %, frozen_qk by 5.0 %)" in slow.why


def test_an_order_is_wrong_where_any_two_stand_the_other_way_round():
    """The one between has so wide an interval that it overlaps both."""
    arms = {"standard": TWO, "frozen_qk": HALF, "mixit": [0.2, 1.6, 0.9], "frozen_mlp": ONE}
    found = ordered("memorization", tuple(arms))(memorizing(**arms))
    assert found.verdict == "contradicted"
    assert "frozen_mlp holds more than frozen_qk" in found.why
    few = ordered("memorization", ("standard", "mixit"))(memorizing(standard=TWO[:2], mixit=ONE[:2]))
    assert few.verdict == OPEN


def test_capacity_is_lost_where_all_counts_say_so():
    def found(gain=0.0, **arms):
        return loses_capacity("memorization", "frozen_mlp")(memorizing(gain, **arms))

    less = found(standard=TWO, frozen_mlp=ONE)
    assert (less.verdict, less.why) == ("confirmed", "less by all three counts")
    assert "by accuracy .500 [" in less.ours
    assert found(standard=ONE, frozen_mlp=TWO).verdict == "contradicted"
    assert found(standard=ONE, frozen_mlp=[1.1, 0.9, 1.0]).verdict == OPEN
    assert found(standard=ONE[:2], frozen_mlp=TWO[:2]).verdict == OPEN
    assert found(0.05, standard=TWO, frozen_mlp=ONE).verdict == "confirmed"
    fast = found(0.15, standard=TWO, frozen_mlp=ONE)
    assert (fast.verdict, fast.why.split(";")[0]) == (OPEN, "less by all three counts, at equal steps")
    assert found(0.15, standard=ONE, frozen_mlp=TWO).verdict == OPEN


def test_a_cell_that_is_not_one_is_an_error():
    with pytest.raises(ConfigError, match="3 cells are needle mixit"):
        along([GOOD, GOOD, GOOD]).find("needle", "mixit")


def test_a_question_has_an_answer_and_no_verdict():
    assert answer(lambda study: "so")(Study("a")) == Finding("so", None, "")
    assert answer(lambda study: "")(Study("a")) == Finding("– (no such runs are in a)", None, "")


def test_the_page_reads_the_folders_and_says_what_is_missing(tmp_path):
    from partwise.records import write_text

    arms = {"standard": GOOD, "frozen_qk": GOOD, "frozen_mlp": GOOD, "mixit": BAD}
    for m in (4, 8, 16):
        for name, values in arms.items():
            for record in make_arm(name, values, task__n_pairs=m):
                place = tmp_path / "small" / "runs" / f"{m}{name}{record.seed}"
                write_text(place / "record.json", record.to_json())
    text = page(tmp_path)
    assert "| Frozen-QK retrieves |" in text and "**confirmed** | at n_pairs=16, width 64: it keeps 100 %" in text
    assert "no such runs are in addition_by_heads" in text
    assert "3 confirmed" in text
    with pytest.raises(DamagedFile, match="no folder"):
        page(tmp_path / "nowhere")
    with pytest.raises(DamagedFile, match=r"no study is in .*small"):
        page(tmp_path / "small")


def as_drawn(*pairs, arm="mixit"):
    """Correlations with 2 and with 32 blocks, a pair a seed."""
    made = []
    for seed, (shallow, deep) in enumerate(pairs):
        (record,) = make_arm(arm, [0.5])
        rows = [
            Row(where=where, quantity="correlation", value=value)
            for where, value in (("blocks.1", shallow), ("blocks.31", deep))
        ]
        made.append(dataclasses.replace(record, rows=rows, experiment=record.experiment | {"seed": seed}))
    return Study("a", as_drawn=made)


@pytest.mark.parametrize(
    ("pairs", "alike", "apart"),
    [
        ([(0.1, 0.8), (0.2, 0.9), (0.1, 0.7)], "confirmed", "contradicted"),
        ([(0.1, 0.1), (0.2, 0.1), (0.1, 0.15)], "contradicted", "confirmed"),
        ([(0.1, 0.1), (0.1, 0.9), (0.1, 0.1)], OPEN, OPEN),
        ([(0.1, 0.8), (0.2, 0.9)], OPEN, OPEN),
        ([], "not run", "not run"),
    ],
)
def test_tokens_become_alike_or_stay_apart(pairs, alike, apart):
    assert becomes_alike("mixit")(as_drawn(*pairs)).verdict == alike
    assert stays_apart("mixit")(as_drawn(*pairs)).verdict == apart


def test_a_theory_is_confirmed_where_all_lines_of_its_check_hold():
    lines = [{"about": f"{name}, two-way", "what": "log energy", "holds": holds}
             for name, holds in (("MixiT", True), ("MixiT", True), ("shaped attention", False))]  # fmt: skip
    found = Study("a", lines={"propagation": lines})
    assert lines_hold("propagation", "MixiT")(found).verdict == "confirmed"
    failed = lines_hold("propagation", "shaped")(found)
    assert (failed.verdict, failed.why) == ("contradicted", "beyond tolerance: shaped attention, two-way: log energy")
    assert lines_hold("propagation", "MixiT")(Study("a")).verdict == "not run"


def test_every_claim_says_where_its_value_is_from():
    for claims in PAPERS.values():
        for claim in claims:
            assert isinstance(claim, Claim)
            assert (claim.status == "not known") == (claim.paper == "")


@functools.cache
def as_if_run(study):
    """The records that a study's recipe would leave, all with the same scores: to see that judges find them."""
    if study == "propagation":  # of models as drawn, and of checks: those that are there
        return Study.read(Path(__file__).parents[1] / "docs" / "results" / study)
    others = {"small": ("mixit", "small"), "distributional-small": ("distributional", "small")}
    name, scale = others.get(study, (study, "quick"))
    made = []
    for one in RECIPES[name]().experiments(scale, n_seeds=3):
        data = one.task.build(seed=0)
        metric = dataclasses.asdict(headline_of(data))
        kinds = ("accuracy", *(f"{count}_per_trainable_parameter" for count in ("bits", "bits_accuracy", "bits_fano")))
        rows = [Row(where="test", quantity=kind, value=0.9) for kind in kinds if kind != metric["name"]]
        rows.append(Row(where="train", quantity="flops", value=1e9))
        for probe in (probe for probe in one.probes if isinstance(probe, Recall)):
            places = [f"test/under={label}" for label in ("whole", *(edit.label for edit in probe.edits))]
            rows += [Row(where=place, quantity=q, value=0.5) for place in places for q in RECALLED]
        record = RunRecord(
            digest=one.digest,
            **one.labels(),
            experiment=configs.to_plain(one),
            status="done",
            headline=metric,
            rows=[*rows, Row(where="test", quantity=metric["name"], value=0.95)],
        )
        made.append(record)
    return Study(study, cells(made))


@pytest.mark.parametrize(
    "claim", [claim for claims in PAPERS.values() for claim in claims], ids=lambda claim: claim.claim
)
def test_the_runs_that_a_claim_names_are_those_that_its_recipe_makes(claim):
    found = claim.judge(as_if_run(claim.study))
    assert "no such runs" not in found.ours + found.why
    assert "too few" not in found.why


def recalled(name, values, **named):
    """Runs whose p_noise in the whole model, and without the last feed-forward, is given."""
    made = []
    for seed, (whole, without) in enumerate(values):
        from report.conftest import make_run

        rows = tuple(
            Row(where=f"test/under={under}", quantity="p_noise", value=value)
            for under, value in (("whole", whole), (distributional.LAST, without))
        )
        made.append(make_run(name, seed, task="noisy_recall", extra=rows, task__noise=0.5, task__n_triggers=1, **named))
    return Study("a", cells(made))


@pytest.mark.parametrize(
    ("whole", "without", "about", "less", "reaches"),
    [
        ((0.49, 0.5, 0.51), (0.05, 0.06, 0.04), "confirmed", "confirmed", "contradicted"),
        ((0.7, 0.71, 0.72), (0.9, 0.91, 0.92), "contradicted", "contradicted", "confirmed"),
        ((0.4, 0.5, 0.6), (0.3, 0.5, 0.7), OPEN, OPEN, OPEN),
        ((0.5, 0.5), (0.0, 0.0), OPEN, OPEN, OPEN),
    ],
)
def test_noise_of_the_whole_model_and_without_a_part(whole, without, about, less, reaches):
    found = recalled("standard", list(zip(whole, without, strict=True)))
    assert distributional.about_alpha(0.5)(found).verdict == about
    assert distributional.moves("p_noise", distributional.LAST, "less")(found).verdict == less
    assert distributional.reaches("p_noise", distributional.LAST, 0.8)(found).verdict == reaches
