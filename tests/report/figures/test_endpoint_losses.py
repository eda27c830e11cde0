"""The factor against the final loss: who is drawn where, and what is said."""

import pytest

from sweeper.report.figures.endpoint_losses import endpoint_losses


@pytest.fixture
def drawn(dossiers):
    return lambda kind: endpoint_losses(dossiers[kind].evidence, dossiers[kind].comparison)


def test_every_trial_is_a_row_in_the_order_of_the_rate(drawn):
    rows = drawn("cut_short").table.rows

    assert [(row["arm"], row["seed"], row["outcome"]) for row in rows] == [
        ("half", 0, "completed"), ("half", 1, "lost"), ("half", 2, "completed"),
        ("baseline", 0, "completed"), ("baseline", 1, "completed"), ("baseline", 2, "completed"),
        ("double", 0, "limited"), ("double", 1, "limited"), ("double", 2, "limited"),
    ]  # fmt: skip
    assert [row["validation_loss"] is None for row in rows] == [
        False, True, False, False, False, False, True, True, True,
    ]  # fmt: skip


def test_marks_stand_at_the_losses_that_the_rows_have(drawn, dossiers):
    drawing = drawn("answered")
    marks = [line for line in drawing.figure.axes[-1].lines if line.get_marker() in ("o", "s", "^")]

    drawn_losses = [float(y) for line in marks for y in line.get_ydata()]
    assert drawn_losses == [row["validation_loss"] for row in drawing.table.rows]
    half, baseline, double = (float(line.get_xdata()[0]) for line in marks)
    assert (double - baseline, baseline - half) == pytest.approx((1, 1))
    means = {row["arm"]: row["arm_mean"] for row in drawing.table.rows}
    comparison = dossiers["answered"].comparison
    assert means["baseline"] == comparison.baseline.mean
    assert means["half"] == comparison.arms[0].summary.mean


def test_the_range_is_that_of_completed_trials(drawn):
    drawing = drawn("answered")

    low, high = drawing.figure.axes[-1].get_ylim()
    losses = [row["validation_loss"] for row in drawing.table.rows]
    assert 1.5 < low < min(losses)
    assert max(losses) < high < 1.75
    assert drawing.figure.axes[-1].get_title(loc="left") == (
        "before training: 2.5, above the range drawn"
    )


def test_what_has_no_final_loss_stands_on_the_strip_with_its_count(drawn):
    strip = drawn("hostile").figure.axes[0]

    assert [text.get_text() for text in strip.texts] == ["3/3", "3/3"]
    assert [line.get_marker() for line in strip.lines] == ["o", "x"]
    assert [label.get_text() for label in strip.get_yticklabels()] == ["missing", "stopped"]


def test_when_all_were_stopped_it_says_so(drawn):
    drawing = drawn("ruined")

    assert drawing.conclusion.startswith("No trial has a final loss. half was stopped in 3 of 3")
    assert [text.get_text() for text in drawing.figure.axes[-1].texts] == [
        "no trial has a final loss"
    ]
