"""What has to be known first: marks, the gravest first."""

import dataclasses

import pytest

from sweeper.report.parts.marks import marks
from sweeper.selection.chain import EntryKind, Link, link_after
from sweeper.selection.frozen import Frozen, Tables
from sweeper.selection.opened import Opened, Openings

FROZEN = Frozen(
    number=2, arm="half", sentence="half is chosen.", answer="Yes.", protocol="f" * 64,
    tables=Tables(trials="a", arms="b", differences="c"), checkpoints=(), metric="validation loss",
    environment="e", reasons=("a trial was added",), is_spent=True,
)  # fmt: skip
RESULT = Opened(
    opening=1, frozen="d", chosen="half", records_digest="r", records_read=3, records=3,
    target_tokens=30, set_digest="s", overlaps=(), losses=(),
)  # fmt: skip


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
    dossier = dataclasses.replace(dossiers["cut_short"], openings=openings, frozen=FROZEN)

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


def test_a_chain_that_was_tampered_with_is_the_first_mark(dossiers):
    first = link_after(None, EntryKind.NOTE, {"loss": 1.5914}, at="2026-03-01T12:00:00")
    edited = Link(**{**dataclasses.asdict(first), "entry": first.entry.replace("1.5914", "1.5913")})

    assert words(dataclasses.replace(dossiers["young"], links=(edited,))) == [
        "Tampered with",
        "In progress",
    ]
