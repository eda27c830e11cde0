"""Tokens by trial: parts that add up."""

from sweeper.report.figures.exposure import exposure

READ = {"target_tokens_read": 100, "input_tokens": 240, "padding_tokens": 30}


def trial(name, **changes):
    usual = {"trial": name, "outcome": "completed", "target_tokens_applied": 100}
    return usual | READ | changes


def test_parts_are_what_was_read():
    rows = [trial("half/0"), trial("half/1", target_tokens_applied=90)]

    drawing = exposure(rows, budget_target_tokens=100)

    assert [list(row.values()) for row in drawing.table.rows] == [
        ["half/0", "completed", 100, 0, 140, 30],
        ["half/1", "completed", 90, 10, 140, 30],
    ]
    widths = [[patch.get_width() for patch in bars] for bars in drawing.figure.axes[0].containers]
    assert widths == [[100, 90], [0, 10], [140, 140], [30, 30]]
    assert drawing.conclusion == (
        "2 of 2 completed trials read exactly the 100 planned target tokens. Target tokens lost to "
        "windows without an update: half/1 10."
    )


def test_a_trial_that_read_nothing_is_not_drawn():
    idle = trial("half/1", target_tokens_read=None)

    assert exposure([idle], budget_target_tokens=100) is None
    assert len(exposure([trial("half/0"), idle], budget_target_tokens=100).table.rows) == 1
