"""Faults of single records, gathered by kind."""

from __future__ import annotations

from sweeper.data.problems import BadRecord, Place, Tally, counted, listed


def test_a_fault_keeps_what_is_expected_and_what_to_do() -> None:
    tally = Tally()
    problem = BadRecord("it is odd", detail="turn 2", expected="even", hint="Add one")
    tally.add(problem, Place(record=3, line=7))
    (fault,) = tally.faults("f")
    assert str(fault) == "f: it is odd (got record 3 (line 7), turn 2; expected even). Add one."


def test_kinds_beyond_the_twentieth_are_counted() -> None:
    tally = Tally()
    for number in range(23):
        tally.add(BadRecord(f"kind {number}"), Place(record=1, line=1))
    faults = tally.faults("f")
    assert len(faults) == 21
    assert faults[-1].what == "3 further kinds of fault are left out here"


def test_numbers_are_listed_up_to_five_with_the_rest_counted() -> None:
    assert listed((1, 2, 3), 3) == "1, 2, 3"
    assert listed(tuple(range(1, 21)), 40) == "1, 2, 3, 4, 5 and 35 more"


def test_a_count_goes_with_its_noun() -> None:
    assert (counted(1), counted(2), counted(0)) == ("1 record", "2 records", "0 records")


def test_a_fault_that_knows_nothing_better_says_how_to_mend_the_file() -> None:
    tally = Tally()
    tally.add(BadRecord("the answer is missing"), Place(record=1, line=1))
    (fault,) = tally.faults("f")
    assert fault.hint == "Mend the records, or take them out of the file"
