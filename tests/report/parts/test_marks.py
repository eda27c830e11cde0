"""What has to be known first: marks, the gravest first."""

import dataclasses

import pytest

from sweeper.report.parts.marks import marks
from sweeper.selection.chain import EntryKind, Link, link_after
from sweeper.selection.frozen import Frozen, Tables
from sweeper.selection.opened import Opened, OpenedOverlap, Openings

FROZEN = Frozen(
    number=2, arm="half", sentence="half is chosen.", answer="Yes.", protocol="f" * 64,
    tables=Tables(trials="a", arms="b", differences="c"), checkpoints=(), metric="validation loss",
    environment="e", reasons=("a trial was added",), is_spent=True,
)  # fmt: skip
RESULT = Opened(
    opening=1, frozen="d", chosen="half", records_digest="r", records_read=3, records=3,
    target_tokens=30, set_digest="s", overlaps=(), losses=(),
)  # fmt: skip


def as_found(dossier):
    """A frozen choice that the comparison agrees with."""
    choice, answer = dossier.comparison.choice, dossier.comparison.answer
    return dataclasses.replace(
        FROZEN, arm=choice.arm, sentence=choice.sentence, answer=answer.sentence
    )


def words(dossier):
    return [mark.word for mark in marks(dossier)]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("answered", []),
        ("young", ["In progress"]),
        ("cut_short", ["Partial"]),
        ("extended", ["Not comparable"]),
    ],
)
def test_a_study_has_the_marks_that_apply(kind, found, dossiers):
    assert words(dossiers[kind]) == found


def test_three_seeds_are_marked_as_provisional(dossiers):
    found = dossiers["answered"].comparison
    verdict = dataclasses.replace(found.arms[0].verdict, is_provisional=True)
    arm = dataclasses.replace(found.arms[0], verdict=verdict)
    few = dataclasses.replace(found, arms=(arm,), seeds=(0, 1, 2))

    (mark,) = marks(dataclasses.replace(dossiers["answered"], comparison=few))

    assert (mark.word, mark.sentence) == (
        "Provisional",
        "3 seeds stand behind it: too few to act on.",
    )


def test_a_second_opening_and_an_aborted_one_come_before_anything_else(dossiers):
    again = dataclasses.replace(RESULT, opening=2, reason="to be sure")
    openings = Openings(aborted=1, results=(RESULT, again))
    dossier = dataclasses.replace(
        dossiers["cut_short"], openings=openings, frozen=as_found(dossiers["cut_short"])
    )

    found = marks(dossier)

    assert [mark.word for mark in found] == [
        "Test split evaluated 2 times",
        "Test split spent",
        "Opening aborted",
        "Partial",
        "Frozen 2 times",
    ]
    assert "only the first counts" in found[0].sentence
    assert "to be sure" in found[0].sentence


def test_a_record_that_concludes_otherwise_than_was_frozen_is_marked(dossiers):
    found = dossiers["answered"].comparison
    frozen = dataclasses.replace(as_found(dossiers["answered"]), number=1, is_spent=False)
    other = dataclasses.replace(frozen, answer="No.")

    (mark,) = marks(dataclasses.replace(dossiers["answered"], frozen=other))

    assert marks(dataclasses.replace(dossiers["answered"], frozen=frozen)) == []
    assert mark.word == "Not as it was frozen"
    assert mark.sentence == (
        f"The record now gives another answer: {found.answer.sentence} Answer and choice are shown "
        "as they were frozen, and everything else from the record as it is now: `sweeper audit "
        "STUDY` says what does not agree."
    )


def test_test_records_that_were_trained_on_are_counted_of_the_first_opening(dossiers):
    leak = OpenedOverlap(kind="exact", split="train", count=2, test_records=2)
    leaked = dataclasses.replace(RESULT, overlaps=(leak,))
    openings = Openings(results=(leaked, dataclasses.replace(leaked, opening=2)))
    dossier = dataclasses.replace(dossiers["answered"], openings=openings)

    first, second = marks(dossier)

    assert first.word == "Test records leaked"
    assert first.sentence == (
        "The test split is not unseen data: 2 of 3 test records are in the training split. Losses "
        "on it confirm less than they seem to."
    )
    assert second.word == "Test split evaluated 2 times"


def test_a_chain_that_was_tampered_with_is_the_first_mark(dossiers):
    first = link_after(None, EntryKind.NOTE, {"loss": 1.5914}, at="2026-03-01T12:00:00")
    edited = Link(**{**dataclasses.asdict(first), "entry": first.entry.replace("1.5914", "1.5913")})

    assert words(dataclasses.replace(dossiers["young"], links=(edited,))) == [
        "Tampered with",
        "In progress",
    ]
