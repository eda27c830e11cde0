"""The report as one HTML page that needs nothing but itself: no network, no script, no other file.

The template decides order and wording of headings; what it prints is put together here. Everything
printed is escaped, and goes through the study's discretion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from types import MappingProxyType

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sweeper.report.arm_sheet import arm_sheet
from sweeper.report.arm_tables import difference_table
from sweeper.report.columns import Column, Table
from sweeper.report.dossier import Dossier
from sweeper.report.figures.drawing import Drawing, arms_in_order, svg_element
from sweeper.report.parts import course, fixed
from sweeper.report.parts.glossary import TERMS, column_meanings
from sweeper.report.parts.limits import limits
from sweeper.report.parts.marks import marks
from sweeper.report.parts.opened import opened_part
from sweeper.report.shown import ShownTable, shown_sheet, shown_table
from sweeper.selection.chain import head, verify
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import StudyKind

MOST_ROWS = 200
"""Rows of a figure's data in the page; its CSV file has all of them."""

_TRIALS = (
    "trial",
    "outcome",
    "reason",
    "initial_loss",
    "validation_loss",
    "retention_loss",
    "target_tokens_read",
    "updates",
    "skipped",
    "clipped",
    "wall_seconds",
    "attempts",
)
_DIFFERENCES = (
    "arm",
    "pairs",
    "mean",
    "low_95",
    "high_95",
    "low_simultaneous",
    "high_simultaneous",
    "p",
    "p_holm",
    "lower_in",
    "resolution",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A drawing with its SVG, which is made once."""

    drawing: Drawing
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing as the page has it."""

    drawing: Drawing
    svg: Markup
    data: ShownTable


def render(dossier: Dossier, drawings: Mapping[str, Drawn | None], *, at: datetime) -> str:
    """Returns the page.

    Args:
        drawings: By the template's names; None where there is nothing to draw.
        at: When it is made: the one thing on it that is not from the record.
    """
    environment = Environment(
        loader=PackageLoader("sweeper.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_with_discretion(dossier),
    )
    figures = {name: None if d is None else _figure(d) for name, d in drawings.items()}
    return environment.get_template("report.html.j2").render(
        **_words(dossier), **_tables(dossier, drawings), figures=figures, at=at
    )


def _with_discretion(dossier: Dossier) -> Callable[[object], object]:
    def finalize(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return dossier.discretion.prose(value)
        return value

    return finalize


def _figure(drawn: Drawn) -> Figure:
    drawing = drawn.drawing
    caption = f"{drawing.title}: what is drawn"
    return Figure(
        drawing=drawing,
        svg=Markup(svg_element(drawing.name, drawn.svg)),  # noqa: S704  # our own drawing, its texts escaped
        data=shown_table(drawing.table, caption, most=MOST_ROWS),
    )


def _words(dossier: Dossier) -> dict[str, object]:
    found, frozen = dossier.comparison, dossier.frozen
    opened = opened_part(dossier)
    return {
        "name": dossier.recorded.name,
        "version": version("sweeper"),
        "fingerprint": dossier.recorded.fingerprint,
        "created_at": dossier.recorded.created_at,
        "ended_why": dossier.recorded.ended_why,
        "study_yaml": dossier.recorded.study_yaml,
        "justification": dossier.settings.justification,
        "found": found,
        "answer": found.answer.sentence if frozen is None else frozen.answer,
        "choice": found.choice.sentence if frozen is None else frozen.sentence,
        "marks": marks(dossier),
        "frozen": frozen,
        "notes": [*found.baseline_notes, *(note for arm in found.arms for note in arm.notes)],
        "breaks": [each for arm in found.arms for each in arm.breaks],
        "retention": list(dict.fromkeys(arm.retention.sentence for arm in found.arms)),
        "opened": opened,
        "faults": course.faults(dossier),
        "remarks": course.remarks(dossier),
        "changes": course.changes_on_the_way(dossier),
        "interventions": course.interventions(dossier),
        "limits": limits(dossier),
        "terms": TERMS,
        "head": head(dossier.links),
        "entries": len(dossier.links),
        "chain_breaks": verify(dossier.links),
        "with_paths": dossier.discretion.with_paths,
    }


def _tables(dossier: Dossier, drawings: Mapping[str, Drawn | None]) -> dict[str, object]:
    tables = dict(_plain_tables(dossier))
    drawn = [each.drawing.table for each in drawings.values() if each is not None]
    shown = {
        name: None if table is None else shown_table(table, _CAPTIONS[name])
        for name, table in tables.items()
    }
    known = [table for table in tables.values() if table is not None]
    sheet = arm_sheet(
        dossier.comparison,
        dossier.settings,
        budget_target_tokens=dossier.recorded.budget_target_tokens,
    )
    return {
        **shown,
        "arms": shown_sheet(sheet, without=f"Answer: {dossier.comparison.answer.sentence}"),
        "columns": column_meanings([*known, *drawn]),
    }


_CAPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "differences": "Arm minus baseline, paired by seed: the mean with its 95 % interval, and "
        "with the interval that counts all planned arms",
        "trials": "Every planned trial",
        "fixed": "Settings in effect in every trial; what is not set is left out",
        "splits": "The data",
        "environment": "What the trials ran on",
        "attempts": "Every execution of a trial",
        "test_losses": "Losses on the validation and the test split",
        "metrics": "Metrics that the user attached: secondary, not selected on",
    }
)


def _plain_tables(dossier: Dossier) -> dict[str, Table | None]:
    found = dossier.comparison
    factor = dossier.trials.columns[3].name
    order = {name: place for place, name in enumerate(arms_in_order(found))}
    differences = difference_table(found)
    return {
        "differences": _ordered(differences, order).only(_shown_differences(found)),
        "trials": dossier.trials.only(("trial", factor, *_TRIALS[1:])),
        "fixed": fixed.fixed_settings(dossier),
        "splits": fixed.data_splits(dossier),
        "environment": fixed.environment(dossier),
        "attempts": course.attempts(dossier),
        "test_losses": opened_part(dossier).losses,
        "metrics": _metrics(dossier),
    }


def _shown_differences(found: Comparison) -> tuple[str, ...]:
    """Arms of another factor than the rate may differ in their updates, which are shown then."""
    made = () if found.kind is StudyKind.RATE else ("updates", "baseline_updates")
    return (_DIFFERENCES[0], *made, *_DIFFERENCES[1:])


def _ordered(table: Table, order: Mapping[str, int]) -> Table:
    rows = sorted(table.rows, key=lambda row: order[str(row["arm"])])
    return Table(rows=rows, columns=table.columns)


def _metrics(dossier: Dossier) -> Table | None:
    if not dossier.metrics:
        return None
    columns = (
        Column(name="trial", kind="text", unit=None, meaning="arm and seed"),
        Column(name="metric", kind="text", unit=None, meaning="the user's name for it"),
        Column(name="value", kind="number", unit=None, meaning="the user's own number"),
        Column(name="source", kind="text", unit=None, meaning="name of the file it came from"),
    )
    return Table(rows=dossier.metrics, columns=columns)
