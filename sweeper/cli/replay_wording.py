"""What a replay found, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from sweeper.cli.layout import cell
from sweeper.cli.wording import ending
from sweeper.report.columns import NATS
from sweeper.trial.replay.report import (
    Changed,
    Ending,
    Nonfinite,
    ReplayReport,
    Steepest,
    Verdict,
)

SHOWN_RECORDS = 8
SHOWN_WINDOWS = 3

_DIGEST_CHARACTERS = 64


def heading(report: ReplayReport, attempt: Mapping[str, object]) -> str:
    """Returns how the attempt ended, as it is on record."""
    name = f"{report.trial}, attempt {report.attempt},"
    if attempt["outcome"] is None:
        return f"{name} has not ended, as far as is on record"
    detail = str(attempt["detail"] or "")
    return ending(name, str(attempt["outcome"]), str(attempt["reason"]), detail)


def sentences(report: ReplayReport) -> Iterator[str]:
    """Yields what was done, what came of it, where it went wrong, and what else is to be known."""
    yield _what_was_done(report)
    yield _verdict(report)
    if (agreement := _agreement(report)) is not None:
        yield agreement
    for place in report.nonfinite[:SHOWN_WINDOWS]:
        yield _nonfinite(place)
    more = len(report.nonfinite) - SHOWN_WINDOWS
    if more > 0:
        yield f"Something was not finite in {_counted(more, 'more window')} (--json lists all)."
    went_wrong = report.recorded is not None or report.replayed is not None
    if report.steepest is not None and went_wrong and not report.nonfinite:
        yield _steepest(report.steepest)
    for notice in report.notices:
        yield f"Note: {notice}."


def _what_was_done(report: ReplayReport) -> str:
    first, last = report.first_window, report.last_window
    start = "from the beginning"
    if report.checkpoint is not None:
        start = f"from the checkpoint after window {first - 1}"
    window = f"window {last}" if first == last else f"windows {first} to {last}"
    return f"Replayed {window} of {report.planned_windows} {start}, {_change(report.change)}."


def _change(change: Changed | None) -> str:
    if change is None:
        return "with nothing changed"
    if change.key == "record":
        return f"with {change.was} {change.now}"
    return f"with {change.key} {change.now} instead of {change.was}"


def _verdict(report: ReplayReport) -> str:
    """Returns what became of the anomaly, or of the numbers where there is none."""
    if report.verdict is Verdict.IDENTICAL:
        return f"It reproduces bit for bit: {_compared(report)}."
    if report.verdict is Verdict.DIFFERENT:
        return f"It came to window {report.last_window}, which ended with {_last_loss(report)}."
    if report.recorded is None:
        assert report.replayed is not None, "else nothing is new"
        return f"It ended as the trial had not: {_end(report.replayed)}. {report.replayed.detail}"
    return _of_the_anomaly(report, report.recorded)


def _of_the_anomaly(report: ReplayReport, recorded: Ending) -> str:
    replayed = report.replayed
    if replayed is None:
        return (
            f"It does not reproduce{_with(report.change)}: no {recorded.reason} up to window"
            f" {report.last_window}, which ended with {_last_loss(report)}."
        )
    match report.verdict:
        case Verdict.REPRODUCED:
            return f"It reproduces: {_end(replayed)}, as on record."
        case Verdict.MOVED:
            return (
                f"It comes again elsewhere: {_end(replayed)}, on record in window"
                f" {recorded.window}."
            )
    return (
        f"It ended for another reason: {_end(replayed)}; on record is {recorded.reason}."
        f" {replayed.detail}"
    )


def _end(end: Ending) -> str:
    return f"{end.reason} in window {end.window}"


def _with(change: Changed | None) -> str:
    if change is None:
        return ""
    if change.key == "record":
        return " without the record"
    return f" with {change.key.rpartition('.')[2]} {change.now}"


def _last_loss(report: ReplayReport) -> str:
    if not report.windows:
        return "no window"
    last = report.windows[-1]
    loss = f"loss {cell(last.replayed_loss, NATS)}"
    evaluations = [e for e in report.evaluations if e.window == last.window]
    return ", ".join(
        [loss, *(f"{e.split} loss {cell(e.replayed_loss, NATS)}" for e in evaluations)]
    )


def _agreement(report: ReplayReport) -> str | None:
    difference = report.first_difference
    if report.verdict is Verdict.IDENTICAL:
        return None
    if difference is None:
        return f"All that was compared is equal bit for bit: {_compared(report)}."
    sentence = (
        f"The first difference from the record is {difference.fact} in {difference.place}:"
        f" {_short(difference.recorded)} on record, {_short(difference.replayed)} now."
    )
    if report.change is None and (largest := _largest_difference(report)) is not None:
        sentence += f" Finite losses differ by at most {largest:.1e} of their value."
    return sentence


def _compared(report: ReplayReport) -> str:
    windows, evaluations = len(report.windows), len(report.evaluations)
    return f"{_counted(windows, 'window')}, {_counted(evaluations, 'evaluation')}"


def _counted(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _largest_difference(report: ReplayReport) -> float | None:
    pairs = [(pair.recorded_loss, pair.replayed_loss) for pair in report.windows]
    both = [(a, b) for a, b in pairs if isinstance(a, float) and isinstance(b, float) and a]
    return max((math.fabs(b - a) / math.fabs(a) for a, b in both), default=None)


def _nonfinite(place: Nonfinite) -> str:
    if place.micro_batch is None:
        return (
            f"Window {place.window}: all was finite until the update; after it {place.weight} holds"
            " values that are not."
        )
    facts = [
        "its loss is not finite" if place.is_loss else "its loss is finite",
        f"the first module with an output that is not: {place.module or 'none'}",
        f"the first gradient: {place.gradient or 'none'}",
        f"the first weight: {place.weight or 'none'}",
    ]
    return (
        f"Window {place.window}, micro-batch {place.micro_batch} ({_records(place.records)}):"
        f" {'; '.join(facts)}."
    )


def _steepest(place: Steepest) -> str:
    share = f", {place.share:.0%} of the squared norm" if isinstance(place.share, float) else ""
    return (
        f"Everything was finite. In window {place.window} the loss was highest in micro-batch"
        f" {place.micro_batch} ({_records(place.records)}), {cell(place.loss, NATS)} {NATS}; the"
        f" largest gradient was that of {place.tensor}{share}."
    )


def _short(fact: str) -> str:
    """Returns a fact whole, a digest by its beginning."""
    return fact if len(fact) < _DIGEST_CHARACTERS else f"{fact[:12]}..."


def _records(records: Sequence[int]) -> str:
    shown = ", ".join(map(str, records[:SHOWN_RECORDS]))
    more = len(records) - SHOWN_RECORDS
    name = "record" if len(records) == 1 else "records"
    return f"{name} {shown}" + (f" and {more} more" if more > 0 else "")
