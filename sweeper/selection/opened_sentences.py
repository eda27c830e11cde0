"""What is said of the opened test split, and of an opening that is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from sweeper.selection.evidence import BASELINE
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, OpenedOverlap, Openings
from sweeper.selection.statistics import Interval
from sweeper.selection.test_verdict import (
    Confirmation,
    Gap,
    OpenedDifference,
    OpenedRule,
    OpenedVerdict,
)
from sweeper.selection.wording import (
    amount,
    away,
    interval_text,
    listing,
    p_text,
    plain,
    seeds_text,
    signed,
)

SPENT = (
    "The test split is spent: it was opened for another choice before. A new sealed test split is "
    "needed for a number that confirms anything."
)

_SHOWN_NUMBERS = 5


def verdict_sentences(verdict: OpenedVerdict) -> tuple[str, ...]:
    """Returns what the test split says: of the difference, of the gaps, of what is left out."""
    return tuple(_verdict_sentences(verdict))


def times_evaluated(openings: Openings) -> str | None:
    """Returns the mark of a test split that was evaluated more than once; None if it was not."""
    count = len(openings.results)
    if count < 2:
        return None
    reasons = [result.reason for result in openings.results if result.reason]
    why = f" Reasons given: {'; '.join(reasons)}." if reasons else ""
    return (
        f"The test split was evaluated {count} times; only the first counts, later ones are "
        f"exploratory.{why}"
    )


def aborted_openings(openings: Openings) -> str | None:
    """Returns what is said of openings that no result followed; None where there is none."""
    count, begun = openings.aborted, openings.unfinished
    sentences = []
    if count:
        which = (
            "An opening of the test split was"
            if count == 1
            else f"{count} openings of the test split were"
        )
        sentences.append(f"{which} aborted before a result was on record.")
    if begun is not None:
        sentences.append(
            f"An opening of the test split was begun at {begun.at} and has no result yet: it is "
            "still going on, or it was aborted."
        )
    return " ".join(sentences) or None


def leak_sentence(leaks: Sequence[OpenedOverlap], *, records: int) -> str | None:
    """Returns what is said of test records that were trained on or selected with; None of none.

    Args:
        leaks: See `Opened.leaks`.
        records: How many test records there are.
    """
    if not leaks:
        return None
    found = listing([_leak(each, records) for each in leaks])
    less = "Losses on it confirm less than they seem to"
    return f"The test split is not unseen data: {found}. {less}."


def overlap_sentences(opened: Opened) -> tuple[str, ...]:
    """Returns what the test split has in common with the others, split by split."""
    return tuple(_overlap_sentence(overlap) for overlap in opened.overlaps)


def _verdict_sentences(verdict: OpenedVerdict) -> Iterator[str]:
    leaked = leak_sentence(verdict.leaks, records=verdict.records)
    yield " ".join(filter(None, (_of_difference(verdict), leaked)))
    if verdict.gaps:
        yield _of_gaps(verdict)
    if verdict.difference is not None:
        yield _of_shrinkage(verdict.chosen, verdict.difference)
    yield from (_of_left_out(gap) for gap in verdict.gaps if gap.left_out)


def _of_difference(verdict: OpenedVerdict) -> str:
    if verdict.chosen == BASELINE:
        return f"{BASELINE} was kept: there is no difference for the test split to confirm."
    found = verdict.difference
    if found is None:
        return f"No seed has a test loss of both {verdict.chosen} and {BASELINE}: nothing is shown."
    arm, than = verdict.chosen, f"{'higher' if found.mean > 0 else 'lower'} than {BASELINE}"
    size = amount(abs(found.mean), found.standard_error)
    by = f"by {size} nats per target token{_evidence(arm, found)}"
    match verdict.word:
        case Confirmation.CONFIRMED:
            return f"Confirmed: on the test split, too, {arm} is {than}, {by}."
        case Confirmation.REVERSED:
            return f"Reversed: on the test split {arm} is {than} {by}."
        case Confirmation.SAME_SIGN:
            why_not = _why_not(verdict.rule, found)
            return f"Same sign, not reliable: on the test split {arm} is {than} {by}{why_not}."
        case None:
            nothing = f"Nothing to confirm: no improvement was claimed for {arm}."
            return f"{nothing} On the test split it is {than} {by}."


def _why_not(rule: OpenedRule, found: OpenedDifference) -> str:
    """Says what is missing where p alone does not show it."""
    if found.p is None and found.n > 1:
        return ", and all seeds gave the same difference"
    if abs(found.mean) < rule.smallest_difference:
        return f", which is less than the {plain(rule.smallest_difference)} declared to matter"
    if abs(found.mean) < rule.noise_floor:
        return (
            f", which is less than the {plain(rule.noise_floor)} by which two runs of {BASELINE} "
            "with the same seed differ"
        )
    if found.n < 3:
        return f"; {seeds_text(found.n)} cannot show whether this is more than chance"
    if found.n < 5:
        return f"; {seeds_text(found.n)} allow only a provisional statement"
    return ""


def _evidence(chosen: str, found: OpenedDifference) -> str:
    paired = f"paired over {seeds_text(found.n)}"
    parts = [paired, f"lower in {found.lower_in} of {found.n}"]
    if found.p is not None:
        parts.insert(1, p_text(found.p))
    if found.interval_95 is not None:
        parts.insert(0, _interval(chosen, found.interval_95, found))
    return f" ({', '.join(parts)})"


def _interval(chosen: str, interval: Interval, found: OpenedDifference) -> str:
    """An interval on one side of 0 is that of the amount; any other says what it is of."""
    if interval.holds(0.0):
        shown = interval_text(interval, found.standard_error)
        return f"95 % interval of {chosen} - {BASELINE} {shown}"
    shown = interval_text(away(interval, found.mean), found.standard_error)
    return f"95 % interval {shown}"


def _of_gaps(verdict: OpenedVerdict) -> str:
    listed = listing([f"{_name(gap)} {signed(gap.gap)}" for gap in verdict.gaps])
    sentence = f"Test loss - validation loss, nats per target token: {listed}."
    if verdict.split_difficulty is None or verdict.selection_part is None:
        return sentence
    harder = "harder" if verdict.split_difficulty > 0 else "easier"
    return (
        f"{sentence} Nothing was selected with the untrained model, so the test split is "
        f"{abs(verdict.split_difficulty):.4f} {harder}; {signed(verdict.selection_part)} of the "
        f"gap of {verdict.chosen} is left for selecting and fitting."
    )


def _of_shrinkage(chosen: str, found: OpenedDifference) -> str:
    return (
        f"{chosen} - {BASELINE}: {signed(found.validation_mean)} on the validation split, "
        f"{signed(found.mean)} on the test split, a change of {signed(found.shrinkage)}."
    )


def _of_left_out(gap: Gap) -> str:
    return (
        f"{_name(gap)}: the test loss is not finite in {seeds_text(gap.left_out)}, which "
        f"{'is' if gap.left_out == 1 else 'are'} left out."
    )


def _name(gap: Gap) -> str:
    return "untrained model" if gap.role is Role.INITIAL or gap.arm is None else gap.arm


def _leak(overlap: OpenedOverlap, records: int) -> str:
    where = _NAMES.get(overlap.split, overlap.split)
    count = overlap.test_records
    if count is None:
        noun, verb = ("record", "is") if overlap.count == 1 else ("records", "are")
        return f"{overlap.count} {noun} of the {where} split {verb} among its {records}"
    return f"{count} of {records} test records {'is' if count == 1 else 'are'} in the {where} split"


_NAMES = MappingProxyType({"train": "training"})


def _overlap_sentence(overlap: OpenedOverlap) -> str:
    where = "also in the test split"
    noun, remark = (
        ("record", "") if overlap.kind == "exact" else ("prompt", ", with another answer,")
    )
    if overlap.count is None:
        return (
            f"{overlap.split}: whether its {noun}s are{remark} {where} cannot be checked any more."
        )
    if overlap.count == 0:
        return f"{overlap.split}: none of its {noun}s is{remark} {where}."
    shown = [str(number) for number in overlap.record_numbers[:_SHOWN_NUMBERS]]
    if overlap.count > len(shown):
        shown.append(f"{overlap.count - len(shown)} more")
    verb = f"{noun} is" if overlap.count == 1 else f"{noun}s are"
    return f"{overlap.split}: {overlap.count} {verb}{remark} {where} (number {listing(shown)})."
