"""An opening survives the chain, and the chain says how often the test split was opened."""

import json

import pytest

from sweeper.selection.chain import EntryKind, link_after
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, OpenedOverlap, openings_in

AT = "2026-01-02T03:04:05.000Z"


def chained(*entries):
    links = []
    for kind, facts in entries:
        links.append(link_after(links[-1] if links else None, kind, facts, at=AT))
    return links


FREEZE = (EntryKind.SELECTION_FROZEN, {"arm": "half"})
INTENT = (EntryKind.TEST_INTENT, {"frozen": "f" * 64})
REPEAT = (EntryKind.TEST_REPEAT, {"frozen": "f" * 64, "reason": "the first ran on another GPU"})


@pytest.fixture
def an_opening(openings):
    overlap = OpenedOverlap(kind="exact", split="train", count=2, record_numbers=(3, 8))
    return openings.opened(openings.losses(Role.CHOSEN, "half", [1.5], [None]), overlaps=(overlap,))


@pytest.fixture
def result(an_opening):
    return (EntryKind.TEST_RESULT, an_opening.to_entry())


def test_an_opening_comes_back_from_an_entry_as_it_was(an_opening):
    text = json.dumps(an_opening.to_entry(), allow_nan=False)

    assert Opened.from_entry(json.loads(text)) == an_opening


def test_an_entry_from_before_test_records_were_counted_is_read(an_opening):
    entry = an_opening.to_entry()
    entry["overlaps"] = [
        {"kind": "exact", "split": "train", "count": 2, "record_numbers": [3, 8]},
    ]

    assert Opened.from_entry(entry) == an_opening


def test_a_leak_is_an_equal_record_of_a_split_that_decided_about_the_weights(openings):
    train, validation, *others = (
        OpenedOverlap(kind="exact", split="train", count=2),
        OpenedOverlap(kind="exact", split="validation", count=1),
        OpenedOverlap(kind="exact", split="retention", count=1),
        OpenedOverlap(kind="prompt", split="train", count=1),
        OpenedOverlap(kind="exact", split="train", count=0),
    )

    assert openings.opened(overlaps=(train, validation, *others)).leaks == (train, validation)
    assert openings.opened(overlaps=tuple(others)).leaks == ()


@pytest.mark.parametrize("damage", [{"losses": None}, {"overlaps": 3}, {"more": 1}])
def test_an_entry_that_is_none_is_refused(an_opening, damage):
    with pytest.raises(ValueError, match="no result of an opening"):
        Opened.from_entry(an_opening.to_entry() | damage)


def test_before_a_freeze_there_is_nothing(openings):
    found = openings_in(chained((EntryKind.STUDY_CREATED, {})))

    assert (found.frozen, found.unfinished, found.aborted, found.results) == (None, None, 0, ())


def test_the_last_freeze_counts():
    links = chained(FREEZE, (EntryKind.SELECTION_FROZEN, {"arm": "double"}))

    assert openings_in(links).frozen == links[1]


def test_an_intent_without_a_result_is_unfinished():
    links = chained(FREEZE, INTENT)

    found = openings_in(links)

    assert (found.unfinished, found.aborted) == (links[1], 0)


def test_an_intent_after_an_unfinished_one_leaves_that_aborted():
    links = chained(FREEZE, INTENT, INTENT)

    found = openings_in(links)

    assert (found.unfinished, found.aborted) == (links[2], 1)


def test_a_result_finishes_the_intent_and_leaves_those_before_aborted(result, an_opening):
    found = openings_in(chained(FREEZE, INTENT, INTENT, result))

    assert (found.unfinished, found.aborted, found.results) == (None, 1, (an_opening,))


def test_a_repeat_is_unfinished_until_it_has_a_result_of_its_own(result):
    links = chained(FREEZE, INTENT, result, REPEAT)

    assert openings_in(links).unfinished == links[3]
    assert len(openings_in(chained(FREEZE, INTENT, result, REPEAT, result)).results) == 2
