"""Every arm against the baseline, seed by seed, with both intervals: a forest plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from sweeper.report.columns import NATS, Column, Table
from sweeper.report.figures.drawing import (
    GRID,
    INK,
    MUTED,
    ArmStyle,
    Drawing,
    arm_styles,
    arms_in_order,
    axes_of,
    figure_of,
    in_style,
)
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.comparison import Comparison
from sweeper.selection.differences import Difference
from sweeper.selection.evidence import BASELINE
from sweeper.selection.statistics import Interval
from sweeper.selection.wording import amount, interval_text, plain

COLUMNS = (
    Column(name="arm", kind="text", unit=None, meaning="the arm that is compared with baseline"),
    Column(name="drawn", kind="text", unit=None, meaning="a seed's difference, or the mean"),
    Column(name="seed", kind="integer", unit=None, meaning="empty for the mean"),
    Column(name="difference", kind="number", unit=NATS, meaning="arm minus baseline"),
    Column(name="low_95", kind="number", unit=NATS, meaning="lower end, 95 % interval"),
    Column(name="high_95", kind="number", unit=NATS, meaning="upper end, 95 % interval"),
    Column(
        name="low_simultaneous",
        kind="number",
        unit=NATS,
        meaning="lower end of the interval that counts all planned arms",
    ),
    Column(name="high_simultaneous", kind="number", unit=NATS, meaning="its upper end"),
)


def seed_differences(found: Comparison) -> Drawing | None:
    """Returns the figure; None where no arm has a difference."""
    known = {arm.arm: arm for arm in found.arms if arm.difference and arm.difference.n}
    arms = [known[name] for name in arms_in_order(found) if name in known]
    if not arms:
        return None
    styles = arm_styles(found)
    with in_style():
        (axes,) = axes_of(1.3 + 0.75 * len(arms))
        delta = found.smallest_difference
        axes.axvspan(-delta, delta, color=GRID, alpha=0.7, linewidth=0, zorder=0)
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        for row, arm in enumerate(arms):
            _draw_arm(axes, -row, arm, styles[arm.arm])
        axes.set_yticks([-row for row in range(len(arms))], [arm.arm for arm in arms])
        axes.set_ylim(-len(arms) + 0.4, 0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("arm - baseline, nats per target token (left of 0: the arm is lower)")
    return Drawing(
        name="seed-differences",
        title="Difference from baseline, seed by seed",
        conclusion=" ".join(_sentences(arms)),
        reading=(
            f"A small mark is one seed's difference, arm minus {BASELINE}; the large one is the "
            "mean, on its 95 % interval (thick) and on the interval that counts all planned arms "
            f"(thin, with end caps). The grey band is what was declared not to matter: "
            f"{plain(delta)} to both sides."
        ),
        table=Table(rows=list(_rows(arms)), columns=COLUMNS),
        figure=figure_of(axes),
    )


def _draw_arm(axes: Axes, row: float, arm: ArmComparison, style: ArmStyle) -> None:
    difference = arm.difference
    assert difference is not None
    seeds = [pair.difference for pair in difference.by_seed]
    axes.plot(
        seeds, [row - 0.26] * len(seeds), linestyle="", marker=style.marker, color=style.colour,
        markersize=4.5, markeredgecolor=INK, markeredgewidth=0.4,
    )  # fmt: skip
    wide, narrow = _claimable(difference)
    if wide is not None:
        axes.plot([wide.low, wide.high], [row] * 2, color=MUTED, linewidth=1, marker="|")
    if narrow is not None:
        axes.plot([narrow.low, narrow.high], [row] * 2, color=style.colour, linewidth=3.2)
    assert difference.mean is not None
    axes.plot(
        difference.mean, row, marker=style.marker, color=style.colour, markersize=8,
        markeredgecolor=INK, markeredgewidth=0.7,
    )  # fmt: skip


def _claimable(difference: Difference) -> tuple[Interval | None, Interval | None]:
    """The simultaneous and the 95 % interval, where the seeds vary."""
    if difference.has_zero_spread:
        return None, None
    return difference.simultaneous, difference.interval_95


def _rows(arms: Sequence[ArmComparison]) -> Iterator[dict[str, object]]:
    nothing = dict.fromkeys(column.name for column in COLUMNS)
    for arm in arms:
        difference = arm.difference
        assert difference is not None
        for pair in difference.by_seed:
            yield nothing | {
                "arm": arm.arm, "drawn": "seed", "seed": pair.seed, "difference": pair.difference,
            }  # fmt: skip
        wide, narrow = _claimable(difference)
        yield nothing | {
            "arm": arm.arm,
            "drawn": "mean",
            "difference": difference.mean,
            "low_95": narrow and narrow.low,
            "high_95": narrow and narrow.high,
            "low_simultaneous": wide and wide.low,
            "high_simultaneous": wide and wide.high,
        }


def _sentences(arms: Sequence[ArmComparison]) -> Iterator[str]:
    for arm in arms:
        difference = arm.difference
        assert difference is not None
        assert difference.mean is not None
        error = difference.standard_error
        text = f"{arm.arm} - {BASELINE}: {amount(difference.mean, error)} nats per target token"
        _, narrow = _claimable(difference)
        if narrow is not None:
            text += f", 95 % interval {interval_text(narrow, error)}"
        yield f"{text}; lower in {difference.lower_in} of {difference.n} seeds."
