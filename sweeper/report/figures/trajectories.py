"""Validation loss along the way: against target tokens, and against training seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from sweeper.report.columns import NATS, SECONDS, Column, Table
from sweeper.report.figures.drawing import (
    FAILED,
    INK,
    ArmStyle,
    Drawing,
    arm_styles,
    arms_in_order,
    axes_of,
    figure_of,
    in_style,
    legend_above,
    thousands,
)
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import CellEvidence, StudyEvidence, StudyKind
from sweeper.selection.statistics import finite
from sweeper.selection.time_to_target import SeedTime, TimeToTarget
from sweeper.selection.trajectory import EvaluationPoint

_READING = (
    "One thin line per trial; the thick line is the arm's median over its trials, at the "
    "evaluations that all of them have. Nothing is smoothed. A cross is where a trial that did not "
    "complete was last evaluated with a finite loss."
)
_READING_THE_TARGET = (
    " The dashed line is the target loss; a bracket on it joins the two evaluations between which "
    "a trial reached it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """What is said of a drawing; see `Drawing`."""

    name: str
    title: str
    conclusion: str
    reading: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Abscissa:
    """What the horizontal axis is.

    Attributes:
        bracket: The two evaluations between which a trial reached the target.
    """

    name: str
    unit: str
    meaning: str
    label: str
    of_point: Callable[[EvaluationPoint], float | None]
    bracket: Callable[[SeedTime], tuple[float | None, float | None]]

    def places(self, cell: CellEvidence) -> list[tuple[float, float]]:
        """Returns the points of a trial that can be drawn."""
        known = ((self.of_point(point), finite([point.loss])) for point in cell.evaluations)
        return [(x, losses[0]) for x, losses in known if x is not None and losses]


_TOKENS = _Abscissa(
    name="target_tokens_read",
    unit="target tokens",
    meaning="read by then; of a bracket, at its end",
    label="target tokens read",
    of_point=lambda point: float(point.target_tokens_read),
    bracket=lambda time: (time.after_target_tokens, time.target_tokens),
)
_SECONDS = _Abscissa(
    name="training_seconds",
    unit=SECONDS,
    meaning="trained by then; of a bracket, at its end",
    label="training seconds",
    of_point=lambda point: point.training_seconds,
    bracket=lambda time: (time.after_seconds, time.seconds),
)


def loss_by_tokens(study: StudyEvidence, found: Comparison) -> Drawing | None:
    """Returns validation loss against target tokens; None before the first evaluation."""
    return _drawing(
        study,
        found,
        _TOKENS,
        _Words(
            name="loss-by-tokens",
            title="Validation loss against target tokens",
            conclusion=" ".join((found.target.sentence, *(t.sentence for t in _times(found)))),
            reading=_READING + ("" if found.target.loss is None else _READING_THE_TARGET),
        ),
    )


def loss_by_seconds(study: StudyEvidence, found: Comparison) -> Drawing | None:
    """Returns validation loss against training seconds; None where seconds do not compare."""
    spread = found.throughput.spread
    if found.throughput.is_noisy or spread is None:
        return None
    return _drawing(
        study,
        found,
        _SECONDS,
        _Words(
            name="loss-by-seconds",
            title="Validation loss against training seconds",
            conclusion=(
                f"A target token took up to {100 * spread:.1f} % longer in one arm than in "
                f"another{_of_that(found.kind)}. Evaluation, checkpoints and loading are not in "
                "the seconds."
            ),
            reading="Drawn as the figure against target tokens is.",
        ),
    )


def _of_that(kind: StudyKind) -> str:
    """Says what becomes of it: a rate changes no work, and other factors do."""
    if kind is StudyKind.RATE:
        return ", which is little enough to compare the arms by seconds"
    return ", of which nothing tells the factor's part from the machine's"


def _drawing(
    study: StudyEvidence, found: Comparison, abscissa: _Abscissa, words: _Words
) -> Drawing | None:
    if not any(abscissa.places(cell) for cell in study.all_cells()):
        return None
    styles = arm_styles(found)
    with in_style():
        (axes,) = axes_of(3.4)
        for arm in arms_in_order(found):
            _draw_trials(axes, study.cells_of(arm), abscissa, styles[arm])
            _draw_median(axes, _medians(study.cells_of(arm), abscissa), styles[arm])
        _draw_target(axes, found, abscissa)
        axes.set_xlabel(abscissa.label)
        axes.xaxis.set_major_formatter(FuncFormatter(thousands))
        axes.set_ylabel("validation loss, nats per target token")
        legend_above(axes)
    return Drawing(
        name=words.name,
        title=words.title,
        conclusion=words.conclusion,
        reading=words.reading,
        table=Table(rows=list(_rows(study, found, abscissa)), columns=_columns(abscissa)),
        figure=figure_of(axes),
    )


def _draw_trials(
    axes: Axes, cells: Sequence[CellEvidence], abscissa: _Abscissa, style: ArmStyle
) -> None:
    for cell in cells:
        places = abscissa.places(cell)
        axes.plot(*_split(places), color=style.colour, linewidth=0.8, alpha=0.75)
        if places and not cell.is_completed and cell.ending is not None:
            axes.plot(
                *places[-1], marker="x", color=FAILED, markersize=8, markeredgewidth=2, zorder=4
            )


def _medians(cells: Sequence[CellEvidence], abscissa: _Abscissa) -> list[tuple[float, float]]:
    """The arm's median at every evaluation that all trials which were evaluated have."""
    curves = [places for cell in cells if (places := abscissa.places(cell))]
    shared = min(map(len, curves), default=0)
    return [
        (median(x for x, _ in column), median(y for _, y in column))
        for column in zip(*(curve[:shared] for curve in curves), strict=True)
    ]


def _draw_median(axes: Axes, places: Sequence[tuple[float, float]], style: ArmStyle) -> None:
    if places:
        axes.plot(
            *_split(places), color=style.colour, marker=style.marker, linestyle=style.dashes,
            linewidth=2, markersize=4.5, markeredgecolor=INK, markeredgewidth=0.4,
            label=style.label,
        )  # fmt: skip


def _draw_target(axes: Axes, found: Comparison, abscissa: _Abscissa) -> None:
    target = found.target.loss
    if target is None:
        return
    axes.axhline(target, color=INK, linestyle=(0, (4, 3)), linewidth=1, zorder=1)
    styles = arm_styles(found)
    for time in _times(found):
        for seed in time.by_seed:
            after, by = abscissa.bracket(seed)
            if seed.is_reached and after is not None and by is not None:
                axes.plot(
                    [after, by], [target] * 2, marker="|", markersize=9, linewidth=1.6,
                    color=styles[time.arm].colour,
                )  # fmt: skip


def _times(found: Comparison) -> list[TimeToTarget]:
    times = (found.baseline_time_to_target, *(arm.time_to_target for arm in found.arms))
    return [time for time in times if time is not None]


def _split(places: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]


def _columns(abscissa: _Abscissa) -> tuple[Column, ...]:
    return (
        Column(name="arm", kind="text", unit=None, meaning="name of the factor's value"),
        Column(name="drawn", kind="text", unit=None, meaning="trial, median, target or bracket"),
        Column(name="seed", kind="integer", unit=None, meaning="empty for a median and the target"),
        Column(
            name=abscissa.name,
            kind="number",  # a median of counts may lie between two
            unit=abscissa.unit,
            meaning=abscissa.meaning,
        ),
        Column(name="after", kind="number", unit=abscissa.unit, meaning="where a bracket begins"),
        Column(name="validation_loss", kind="number", unit=NATS, meaning="at this evaluation"),
        Column(
            name="ended",
            kind="text",
            unit=None,
            meaning="at a trial's last point, how it ended",
        ),
    )


def _rows(
    study: StudyEvidence, found: Comparison, abscissa: _Abscissa
) -> Iterator[dict[str, object]]:
    nothing = dict.fromkeys(column.name for column in _columns(abscissa))
    for arm in arms_in_order(found):
        for cell in study.cells_of(arm):
            places = abscissa.places(cell)
            for number, (x, loss) in enumerate(places, start=1):
                end = cell.outcome.value if cell.outcome and number == len(places) else None
                trial = {"arm": arm, "drawn": "trial", "seed": cell.seed, "ended": end}
                yield nothing | trial | {abscissa.name: x, "validation_loss": loss}
        for x, loss in _medians(study.cells_of(arm), abscissa):
            yield nothing | {
                "arm": arm, "drawn": "median", abscissa.name: x, "validation_loss": loss
            }  # fmt: skip
    if found.target.loss is not None:
        yield nothing | {"drawn": "target", "validation_loss": found.target.loss}
    for time in _times(found):
        for seed in time.by_seed:
            after, by = abscissa.bracket(seed)
            if seed.is_reached and after is not None and by is not None:
                bracket = {"arm": time.arm, "drawn": "bracket", "seed": seed.seed, "after": after}
                yield nothing | bracket | {abscissa.name: by, "validation_loss": found.target.loss}
