"""All tasks at one glance."""

from partwise.report import cells, render
from partwise.report.overview import overview


def three_tasks(arm):
    return [
        *arm("standard", [1.0, 1.0, 1.0]),
        *arm("mixit", [0.1, 0.11, 0.12]),
        *arm("standard", [1.0, 0.99, 1.0], task="k_hop"),
        *arm("mixit", [0.6, 0.61, 0.59], task="k_hop"),
        *arm("standard", [0.4, 0.41, 0.42], task="brackets", gain=0.05),
        *arm("frozen_qk", [0.3, 0.31, 0.32], task="brackets"),
    ]


def test_a_row_a_task_and_a_column_an_arm(arm):
    grid = overview(cells(three_tasks(arm)))
    assert grid.header == ["task", "standard", "frozen_qk", "mixit"]
    assert grid.rows == [
        ["brackets", ".410↑", ".310", ""],
        ["k_hop", "3/3", "", "50 % [46, 54]"],
        ["needle", "3/3", "", "below floor"],
    ]


def test_it_stands_first_and_only_where_there_are_three_rows(arm):
    records = three_tasks(arm)
    for format in ("text", "md"):
        assert "Which parts must learn?" in render(records, format).splitlines()[0]
        assert "Which parts must learn?" not in render(records[:12], format)
    assert overview(cells([one for one in records if one.architecture != "standard"])) is None
