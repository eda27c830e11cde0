"""What a freeze would come to from what is on record now, against what was frozen.

A frozen study is closed, so that nothing in it changes: whatever differs was changed behind it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sweeper.selection.comparison import Comparison, compare
from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.frozen import Frozen, environment_digest, tables_of

NOT_AS_FROZEN = "Not as it was frozen"
"""What a record is called that concludes otherwise than was frozen."""

SHOWN_AS_FROZEN = (
    "Answer and choice are shown as they were frozen, and everything else from the record as it is "
    "now: `sweeper audit STUDY` says what does not agree."
)


def departures(frozen: Frozen, evidence: StudyEvidence) -> tuple[str, ...]:
    """Returns what of a frozen choice the record does not give any more, as sentences.

    Args:
        evidence: As it is on record; it counts as closed, as it did when the choice was frozen.
    """
    closed = dataclasses.replace(evidence, closed=True)
    found = compare(closed)
    return (*_other_tables(frozen, closed, found), *other_conclusions(frozen, found))


def other_conclusions(frozen: Frozen, found: Comparison) -> tuple[str, ...]:
    """Returns what a comparison concludes otherwise than was frozen, as sentences."""
    return tuple(_other_conclusions(frozen, found))


def _other_conclusions(frozen: Frozen, found: Comparison) -> Iterator[str]:
    choice, answer = found.choice, found.answer
    if choice.arm != frozen.arm:
        yield f"The record now gives the choice {choice.arm or 'none'}; {frozen.arm} was frozen."
    if choice.sentence != frozen.sentence:
        yield f"The record now gives another reason for the choice: {choice.sentence}"
    if answer.sentence != frozen.answer:
        yield f"The record now gives another answer: {answer.sentence}"


def _other_tables(frozen: Frozen, evidence: StudyEvidence, found: Comparison) -> Iterator[str]:
    now, then = tables_of(evidence, found), frozen.tables
    if now.trials != then.trials:
        yield "The outcomes and losses of trials on record are not those that it was frozen from."
    if now.arms != then.arms:
        yield "The summaries of the arms that the record now gives are not those that were frozen."
    if now.differences != then.differences:
        yield (
            "The differences from the baseline that the record now gives are not those that were "
            "frozen."
        )
    trained = [(each.arm, each.seed) for each in frozen.checkpoints if each.arm is not None]
    if environment_digest(evidence, trained) != frozen.environment:
        yield "What the frozen trials ran in is on record otherwise than it was frozen."
