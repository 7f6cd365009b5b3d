from partwise.report import render
from partwise.rows import Row


def test_probes_have_a_grid_with_a_column_an_architecture(run):
    def found(value):
        return tuple(
            Row(where=f"blocks.{layer}.token_mixer.mix", quantity="mix_entropy", value=value + layer, unit="bit")
            for layer in (0, 1)
        )

    records = [run("standard", seed, extra=found(1.0 + seed)) for seed in (0, 1)] + [run("mixit", extra=found(4.0))]
    lines = render([*records, run("frozen_qk")], "text", width=100).splitlines()
    start = lines.index("needle: probes, the mean over seeds")
    assert lines[start + 2].split() == ["probe", "where", "standard", "mixit"]
    assert lines[start + 4].split() == ["mix_entropy", "(bit)", "blocks.0.token_mixer.mix", "1.50", "4.00"]
    assert lines[start + 5].split() == ["blocks.1.token_mixer.mix", "2.50", "5.00"]
    assert "probes, the mean over seeds" in render(records, "md")
    assert "mix_entropy" not in render(records, "csv")


def test_memorization_shows_three_counts_with_the_papers_beside(memorization):
    lines = render(memorization, "text", width=100).splitlines()
    found = [line.split() for line in lines if "bits_accuracy " in line]
    assert found == [
        ["bits_accuracy", "2.00", "k", "2.00", "2.00", "2.98"],
        ["bits_accuracy", "1.00", "k", "1.00", "1.00", "2.18"],
    ]
    assert any("bits_fano " in line for line in lines)
    assert next(line for line in lines if "see below" in line).startswith("memorization")


def test_strata_have_a_table_in_their_own_order(study):
    lines = render(study, "text", width=100).splitlines()
    start = lines.index("needle: accuracy by n_pairs")
    assert lines[start + 2].split() == ["n_pairs", "1", "2", "10"]
    assert lines[start + 4].split() == ["standard", "1.00", ".500", ".100"]
    assert lines[start + 7].split() == ["n", "50", "50", "50"]
    assert any("floors are for the whole test set" in line for line in lines)


def test_strata_have_a_floor_each_where_it_was_measured(run):
    values = {"accuracy": 1.0, "accuracy.floor.guess": 0.3}
    strata = tuple(
        Row(where=f"test/n_pairs={k}", quantity=quantity, value=value / k, n=50)
        for k in (1, 2)
        for quantity, value in values.items()
    )
    text = render([run(extra=strata)], "text", width=100)
    assert "\nfloor     .300  .150\nn         50    50\n" in text
    assert "on these alone" in text


def test_many_strata_are_thinned_and_that_is_said(run):
    strata = tuple(Row(where=f"test/n_pairs={k}", quantity="accuracy", value=1.0) for k in range(1, 31))
    assert "accuracy by n_pairs, 9 of 30 shown" in render([run(extra=strata)], "text", width=100)
