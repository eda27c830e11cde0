"""The factor against the final loss: every seed, and every trial that has none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from sweeper.report.columns import NATS, Column, Table
from sweeper.report.figures.drawing import (
    FAILED,
    INK,
    MUTED,
    Drawing,
    arm_styles,
    arms_in_order,
    axes_of,
    figure_of,
    in_style,
    value_text,
)
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.statistics import finite
from sweeper.selection.summaries import ArmSummary
from sweeper.selection.wording import listing, plain

COLUMNS = (
    Column(name="arm", kind="text", unit=None, meaning="name of the factor's value"),
    Column(name="value", kind="text", unit=None, meaning="the arm's value of the factor"),
    Column(name="seed", kind="integer", unit=None, meaning="the trial's seed"),
    Column(name="outcome", kind="text", unit=None, meaning="how the trial ended"),
    Column(
        name="validation_loss",
        kind="number",
        unit=NATS,
        meaning="at the declared checkpoint; empty where the trial did not complete",
    ),
    Column(
        name="initial_loss", kind="number", unit=NATS, meaning="validation loss before training"
    ),
    Column(name="arm_mean", kind="number", unit=NATS, meaning="mean of the arm's completed trials"),
)
_STRIP_OF_INITIAL_LOSS = 1.0
"""The initial loss is drawn if it is no further off than so many spans of the final losses."""

Places = Mapping[str, float]


def endpoint_losses(study: StudyEvidence, found: Comparison) -> Drawing:
    """Returns the figure; trials without a final loss stand on a strip of their own."""
    summaries = _summaries(found)
    places = _places(summaries)
    has_failures = any(each.n_stopped or each.n_missing for each in summaries)
    with in_style():
        panels = axes_of(3.4, rows=2, ratios=(0.28, 1)) if has_failures else axes_of(3.0)
        axes = panels[-1]
        _draw_losses(axes, study, found, places)
        _mark_initial_loss(axes, study)
        if has_failures:
            _draw_strip(panels[0], summaries, places)
        _label_factor(axes, panels, summaries, places, found.factor)
    return Drawing(
        name="endpoint-losses",
        title="Final loss of every trial",
        conclusion=_conclusion(summaries, study),
        reading=(
            "One mark per trial; a thin line joins trials of the same seed; the bar is an arm's "
            "mean over its completed trials. The dashed line is the loss before training. Trials "
            "without a final loss stand on the strip at the top: a cross for one that a stop "
            "condition ended, a ring for one that is missing for another reason."
        ),
        table=Table(rows=_rows(study, summaries), columns=COLUMNS),
        figure=figure_of(axes),
    )


def _summaries(found: Comparison) -> list[ArmSummary]:
    by_arm = {each.arm: each for each in (found.baseline, *(arm.summary for arm in found.arms))}
    return [by_arm[name] for name in arms_in_order(found)]


def _places(summaries: Sequence[ArmSummary]) -> Places:
    """The arms' places: the logarithm to base 2 of a number, else one after the other."""
    values = [each.value for each in summaries]
    if all(isinstance(value, int | float) and value > 0 for value in values):
        return {each.arm: math.log2(float(each.value)) for each in summaries}
    return {each.arm: float(place) for place, each in enumerate(summaries)}


def _draw_losses(axes: Axes, study: StudyEvidence, found: Comparison, places: Places) -> None:
    for seed in study.seeds:
        ends = [(places[arm], study.cell(arm, seed).endpoint) for arm in places]
        known = [(place, loss) for place, loss in ends if loss is not None]
        axes.plot(*_columns(known), color=MUTED, linewidth=0.7, zorder=1)
    styles, summaries = arm_styles(found), {each.arm: each for each in _summaries(found)}
    for arm, place in places.items():
        style = styles[arm]
        losses = finite(cell.endpoint for cell in study.cells_of(arm))
        axes.plot(
            [place] * len(losses), losses, linestyle="", marker=style.marker, color=style.colour,
            markersize=6, markeredgecolor=INK, markeredgewidth=0.5, label=style.label, zorder=3,
        )  # fmt: skip
        mean = summaries[arm].mean
        if mean is not None:
            half = _half_width(places)
            axes.plot([place - half, place + half], [mean] * 2, color=INK, linewidth=1.6, zorder=2)
    _limit(axes, finite(cell.endpoint for cell in study.all_cells()))
    axes.set_ylabel("validation loss, nats per target token")
    if not any(each.n_completed for each in summaries.values()):
        axes.text(
            0.5, 0.25, "no trial has a final loss", transform=axes.transAxes, ha="center",
            color=MUTED,
        )  # fmt: skip


def _half_width(places: Places) -> float:
    ordered = sorted(places.values())
    gaps = [b - a for a, b in itertools.pairwise(ordered)]
    return 0.14 * min(gaps, default=1.0)


def _limit(axes: Axes, losses: Sequence[float]) -> None:
    """The range comes from completed trials alone: what diverged would flatten them all."""
    if losses:
        span = (max(losses) - min(losses)) or 0.02 * abs(max(losses)) or 1.0
        axes.set_ylim(min(losses) - 0.12 * span, max(losses) + 0.12 * span)


def _mark_initial_loss(axes: Axes, study: StudyEvidence) -> None:
    losses = finite(cell.initial_loss for cell in study.cells_of(BASELINE))
    if not losses:
        return
    if not finite(cell.endpoint for cell in study.all_cells()):
        axes.set_ylim(0.98 * min(losses), 1.02 * max(losses))
    low, high = axes.get_ylim()
    for loss in sorted(set(losses)):
        if high < loss <= high + _STRIP_OF_INITIAL_LOSS * (high - low):
            axes.set_ylim(low, loss + 0.08 * (loss - low))
        if low <= loss <= axes.get_ylim()[1]:
            axes.axhline(loss, color=INK, linestyle=(0, (4, 3)), linewidth=1)
    if max(losses) > axes.get_ylim()[1]:
        text = f"before training: {plain(min(losses))}, above the range drawn"
        axes.set_title(text, fontsize=8, color=MUTED)


def _draw_strip(axes: Axes, summaries: Sequence[ArmSummary], places: Places) -> None:
    kinds = [
        (name, counts, marker, colour)
        for name, counts, marker, colour in (
            ("missing", [each.n_missing for each in summaries], "o", MUTED),
            ("stopped", [each.n_stopped for each in summaries], "x", FAILED),
        )
        if any(counts)
    ]
    for row, (_, counts, marker, colour) in enumerate(kinds):
        for each, count in zip(summaries, counts, strict=True):
            if count:
                axes.plot(
                    places[each.arm], row, marker=marker, color=colour, markersize=7,
                    fillstyle="none", markeredgewidth=1.8, linestyle="",
                )  # fmt: skip
                axes.annotate(
                    f"{count}/{each.n_planned}", (places[each.arm], row), xytext=(7, 0),
                    textcoords="offset points", va="center", fontsize=8,
                )  # fmt: skip
    axes.set_ylim(-0.7, len(kinds) - 0.3)
    axes.set_yticks(range(len(kinds)), [name for name, *_ in kinds])
    axes.grid(visible=False)
    axes.tick_params(labelbottom=False, bottom=False)


def _label_factor(
    axes: Axes,
    panels: Sequence[Axes],
    summaries: Sequence[ArmSummary],
    places: Places,
    factor: str,
) -> None:
    margin = 3.5 * _half_width(places)
    for panel in panels:
        panel.set_xlim(min(places.values()) - margin, max(places.values()) + margin)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_locator(FixedLocator(list(places.values())))
    labels = [f"{each.arm}\n{value_text(each.value)}" for each in summaries]
    axes.set_xticks([places[each.arm] for each in summaries], labels)
    is_number = all(not isinstance(each.value, str) for each in summaries)
    scale = ", logarithmic to base 2" if is_number else ""
    axes.set_xlabel(f"{factor.rpartition('.')[2].replace('_', ' ')}{scale}")


def _rows(study: StudyEvidence, summaries: Sequence[ArmSummary]) -> list[dict[str, object]]:
    return [
        {
            "arm": each.arm,
            "value": value_text(each.value),
            "seed": cell.seed,
            "outcome": _outcome(cell),
            "validation_loss": cell.endpoint,
            "initial_loss": cell.initial_loss,
            "arm_mean": each.mean,
        }
        for each in summaries
        for cell in study.cells_of(each.arm)
    ]


def _outcome(cell: CellEvidence) -> str:
    return "open" if cell.outcome is None else cell.outcome.value


def _conclusion(summaries: Sequence[ArmSummary], study: StudyEvidence) -> str:
    told = [f"{each.arm} {plain(each.mean)}" for each in summaries if each.mean is not None]
    unit = "nats per target token"
    text = f"Mean final loss in {unit}: {listing(told)}." if told else "No trial has a final loss."
    for each in summaries:
        if each.n_stopped:
            text += f" {each.arm} was stopped in {each.n_stopped} of {each.n_planned} seeds."
        if each.n_missing:
            text += f" {each.arm} lacks {each.n_missing} of {each.n_planned} trials."
    starts = finite(cell.initial_loss for cell in study.cells_of(BASELINE))
    if starts:
        text += f" Before training it was {plain(min(starts))}."
    return text


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
