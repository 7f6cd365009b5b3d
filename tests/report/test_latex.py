from partwise.report import render


def test_latex_is_a_booktabs_table_with_escapes(study):
    text = render(study, "latex")
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    assert r"frozen\_qk" in text
    assert r"\%" in text
    assert "frozen_qk" not in text
    assert "–" not in text
    assert text.count(" & standard & ") == 1, "headlines only"
    assert r"needle & n\_pairs=8 & standard" in text
    assert r"1.00 (n\_pairs=30)" in text
    table, note = text.split(r"\end{tabular}")
    assert "1.00r" in table
    assert "r: the range of the seeds" in note
    assert "second-hand" in note
    assert not set("↑†×≈–−") & set(text)


def test_latex_tells_settings_apart(run):
    records = [run(name, task__n_pairs=n, task__n_keys=9) for n in (4, 8) for name in ("standard", "mixit")]
    lines = [line.split(" & ")[:3] for line in render(records, "latex").splitlines() if " & " in line][1:]
    assert lines == [
        ["needle", r"n\_pairs=4, n\_keys=9", "standard"],
        ["", "", "mixit"],
        ["needle", r"n\_pairs=8, n\_keys=9", "standard"],
        ["", "", "mixit"],
    ]
