"""What was learned against what was forgotten."""

import dataclasses

from sweeper.report.figures.retention_by_loss import retention_by_loss


def test_points_are_the_evaluations_with_both_losses(dossiers):
    dossier = dossiers["answered"]

    rows = retention_by_loss(dossier.evidence, dossier.comparison).table.rows

    mine = [row for row in rows if (row["arm"], row["seed"]) == ("double", 2)]
    points = dossier.evidence.cell("double", 2).evaluations
    assert [(row["validation_loss"], row["retention_loss"]) for row in mine] == [
        (point.loss, point.retention_loss) for point in points
    ]
    assert len(rows) == 15 * 9


def test_without_a_retention_split_there_is_no_figure(dossiers):
    dossier = dossiers["young"]
    cells = [
        dataclasses.replace(
            cell,
            evaluations=tuple(
                dataclasses.replace(point, retention_loss=None) for point in cell.evaluations
            ),
        )
        for cell in dossier.evidence.cells
    ]
    unmeasured = dataclasses.replace(dossier.evidence, cells=tuple(cells))

    assert retention_by_loss(unmeasured, dossier.comparison) is None
