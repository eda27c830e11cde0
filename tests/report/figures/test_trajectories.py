"""Validation loss along the way: points, medians, the target and its brackets."""

import dataclasses
from statistics import median

import pytest

from sweeper.report.figures.trajectories import loss_by_seconds, loss_by_tokens
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import StudyKind


def rows_of(drawing, drawn, **values):
    rows = [row for row in drawing.table.rows if row["drawn"] == drawn]
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def test_a_trial_s_points_are_its_evaluations(dossiers):
    dossier = dossiers["answered"]
    rows = rows_of(
        loss_by_tokens(dossier.evidence, dossier.comparison), "trial", arm="half", seed=1
    )

    points = dossier.evidence.cell("half", 1).evaluations
    assert [(row["target_tokens_read"], row["validation_loss"]) for row in rows] == [
        (point.target_tokens_read, point.loss) for point in points
    ]
    assert [row["ended"] for row in rows] == [None] * 8 + ["completed"]


def test_the_thick_line_is_the_median_over_seeds(dossiers):
    dossier = dossiers["answered"]
    rows = rows_of(loss_by_tokens(dossier.evidence, dossier.comparison), "median", arm="double")

    last = [cell.evaluations[-1].loss for cell in dossier.evidence.cells_of("double")]
    assert len(rows) == 9
    assert rows[-1]["validation_loss"] == median(last)


def test_brackets_are_the_comparison_s_times_to_the_target(dossiers):
    dossier = dossiers["answered"]
    drawing = loss_by_tokens(dossier.evidence, dossier.comparison)

    times = dossier.comparison.arms[0].time_to_target.by_seed
    assert [
        (r["after"], r["target_tokens_read"]) for r in rows_of(drawing, "bracket", arm="half")
    ] == [(time.after_target_tokens, time.target_tokens) for time in times]
    (target,) = rows_of(drawing, "target")
    assert target["validation_loss"] == dossier.comparison.target.loss


def test_without_a_target_no_line_is_drawn_and_none_is_explained(dossiers):
    """Every trial begins at 2.5: a target of 2.6 would be reached before the first update."""
    evidence = dataclasses.replace(dossiers["answered"].evidence, target_loss=2.6)
    drawing = loss_by_tokens(evidence, compare(evidence))
    with_target = loss_by_tokens(evidence, dossiers["answered"].comparison)

    assert rows_of(drawing, "target") == rows_of(drawing, "bracket") == []
    assert drawing.conclusion.startswith("There is no target: the loss that was agreed, 2.6 nats")
    assert "target loss" not in drawing.reading
    assert "The dashed line is the target loss" in with_target.reading


def test_a_curve_that_did_not_complete_ends_in_a_cross(dossiers):
    dossier = dossiers["cut_short"]
    (axes,) = loss_by_tokens(dossier.evidence, dossier.comparison).figure.axes

    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [(line.get_xdata()[0], round(line.get_ydata()[0], 6)) for line in crosses] == [
        (2000.0, 3.3)
    ] * 4


def test_seconds_are_drawn_only_where_they_compare(dossiers):
    dossier = dossiers["answered"]
    noisy = dataclasses.replace(dossier.comparison.throughput, is_noisy=True)

    drawing = loss_by_seconds(dossier.evidence, dossier.comparison)

    points = dossier.evidence.cell("baseline", 0).evaluations
    rows = rows_of(drawing, "trial", arm="baseline", seed=0)
    assert [row["training_seconds"] for row in rows] == [p.training_seconds for p in points]
    unranked = dataclasses.replace(dossier.comparison, throughput=noisy)
    assert loss_by_seconds(dossier.evidence, unranked) is None
    assert loss_by_seconds(dossiers["ruined"].evidence, dossiers["ruined"].comparison) is None


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (StudyKind.RATE, "which is little enough to compare the arms by seconds."),
        (StudyKind.PRECISION, "of which nothing tells the factor's part from the machine's."),
        (StudyKind.BATCH_SIZE, "of which nothing tells the factor's part from the machine's."),
    ],
)
def test_only_a_rate_is_known_to_take_no_time(dossiers, kind, said):
    dossier = dossiers["answered"]

    drawing = loss_by_seconds(dossier.evidence, dataclasses.replace(dossier.comparison, kind=kind))

    assert said in drawing.conclusion
