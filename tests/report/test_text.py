import pytest

from partwise.report import render


@pytest.mark.parametrize("width", [80, 100, 160])
def test_text_fits_its_width_and_has_no_control_codes(study, memorization, width):
    text = render(study + memorization, "text", width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text
    assert all(name in text for name in ("standard", "mixit", "floor", "ceiling", "paper"))


def test_text_puts_arms_side_by_side_where_they_fit(study):
    wide, tall = (render(study, "text", width=width) for width in (110, 80))
    assert "keeps 97 %" in wide
    assert "keeps %" in tall


def test_sizes_that_vary_stand_in_the_rows_and_not_in_the_heading(run):
    records = [
        run(pairs, value=1.0, task__n_pairs=n, task__n_values=7) for n in (4, 8) for pairs in ("standard", "mixit")
    ]
    lines = render(records, "text", width=100).splitlines()
    assert lines[0] == "needle (n_values=7): accuracy, higher is better"
    assert [line.split()[:2] for line in lines if line.startswith("needle n_")][:2] == [
        ["needle", "n_pairs=4"],
        ["needle", "n_pairs=8"],
    ]
    tall = render(
        [*records, run("a_name_of_many_words_and_letters_for_an_architecture")], "text", width=80
    ).splitlines()
    assert "n_pairs=4" in tall, "a label that arms share stands above them"


@pytest.mark.parametrize("width", [80, 100])
def test_lines_break_at_words_and_labels_at_commas_and_dots(run, memorization, width):
    long = "standard, frozen blocks.*.norm_1, blocks.*.token_mixer.value"
    rules = {"patterns": ["embed", "positions?", "unembed"]}, {"patterns": []}
    records = [run(name, learn=rule, train__lr=0.1) for name in ("standard", "mixit") for rule in rules]
    records += [run(long, status="diverged"), *memorization]
    records[0].selection = "chosen on validation of seeds 1000 and 1001, which are not among those that are reported"
    text = render(records, "text", width=width)
    assert max(map(len, text.splitlines())) <= width
    words = set(text.split())
    assert {"embeddings_only", "positions?", "blocks.*.token_mixer.value"}.isdisjoint({word[:-1] for word in words})
    assert {'patterns=["embed",', '"positions?",', "selection"} & words == {'patterns=["embed",', '"positions?",'}
    assert {"norm_1,", "value"} <= {word.split(".")[-1] for word in words}, "broken at most at dots"
