"""What was forgotten against what was learned, evaluation by evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from sweeper.report.columns import NATS, Column, Table
from sweeper.report.figures.drawing import (
    ArmStyle,
    Drawing,
    arm_styles,
    arms_in_order,
    axes_of,
    figure_of,
    in_style,
    legend_above,
)
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import CellEvidence, StudyEvidence
from sweeper.selection.statistics import finite

COLUMNS = (
    Column(name="arm", kind="text", unit=None, meaning="name of the factor's value"),
    Column(name="seed", kind="integer", unit=None, meaning="the trial's seed"),
    Column(name="target_tokens_read", kind="integer", unit="target tokens", meaning="by then"),
    Column(name="validation_loss", kind="number", unit=NATS, meaning="at this evaluation"),
    Column(name="retention_loss", kind="number", unit=NATS, meaning="at the same one, uncapped"),
)

_Point = tuple[int, float, float]
"""Target tokens read, validation loss, retention loss."""


def retention_by_loss(study: StudyEvidence, found: Comparison) -> Drawing | None:
    """Returns the figure; None where retention was not measured."""
    if not any(_points(cell) for cell in study.all_cells()):
        return None
    styles = arm_styles(found)
    with in_style():
        (axes,) = axes_of(3.4)
        for arm in arms_in_order(found):
            _draw_arm(axes, [_points(cell) for cell in study.cells_of(arm)], styles[arm])
        axes.set_xlabel("validation loss, nats per target token (left: learned better)")
        axes.set_ylabel("retention loss (down: kept better)")
        legend_above(axes)
    return Drawing(
        name="retention-by-loss",
        title="What was learned against what was forgotten",
        conclusion=" ".join(dict.fromkeys(arm.retention.sentence for arm in found.arms)),
        reading=(
            "One line per trial and one point per evaluation, in the order of training; the "
            "arrow's head is the last. Both losses are in nats per target token, and not capped."
        ),
        table=Table(rows=list(_rows(study, found)), columns=COLUMNS),
        figure=figure_of(axes),
    )


def _points(cell: CellEvidence) -> list[_Point]:
    known = [
        (point.target_tokens_read, finite([point.loss]), finite([point.retention_loss]))
        for point in cell.evaluations
    ]
    return [(read, mine[0], kept[0]) for read, mine, kept in known if mine and kept]


def _draw_arm(axes: Axes, trials: Sequence[Sequence[_Point]], style: ArmStyle) -> None:
    label = style.label
    for points in trials:
        if not points:
            continue
        xs, ys = [x for _, x, _ in points], [y for _, _, y in points]
        axes.plot(
            xs, ys, color=style.colour, marker=style.marker, markersize=3.5, linewidth=0.9,
            linestyle=style.dashes, label=label,
        )  # fmt: skip
        label = "_"  # an arm stands in the legend once
        if len(points) > 1:
            arrow = {"arrowstyle": "-|>", "color": style.colour, "linewidth": 0.9}
            axes.annotate("", (xs[-1], ys[-1]), xytext=(xs[-2], ys[-2]), arrowprops=arrow)


def _rows(study: StudyEvidence, found: Comparison) -> Iterator[dict[str, object]]:
    for arm in arms_in_order(found):
        for cell in study.cells_of(arm):
            for read, loss, kept in _points(cell):
                place = {"arm": arm, "seed": cell.seed, "target_tokens_read": read}
                yield place | {"validation_loss": loss, "retention_loss": kept}
