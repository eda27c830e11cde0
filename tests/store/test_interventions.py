"""What a user changes by hand: conditional on what the cell is, and always on record."""

import sqlite3

import pytest

from sweeper.records import Outcome, Reason

FAILED = Outcome(reason=Reason.CODE_ERROR, detail="KeyError", evidence={})


@pytest.fixture
def entries(database):
    """Reads what is on record of interventions."""

    def read():
        connection = sqlite3.connect(database)
        rows = connection.execute(
            "SELECT number, kind, cell, after_attempt, from_the_start, detail"
            " FROM sweeper_intervention ORDER BY number"
        ).fetchall()
        connection.close()
        return rows

    return read


@pytest.fixture
def failed(store, owner):
    """The first cell's only attempt failed, and the study ended."""
    store.finish(store.claim(owner, "cpu0"), FAILED, max_resumes=0)
    store.close_not_run("the first trial failed")
    return store


def test_a_reopened_cell_waits_for_its_next_attempt_and_so_does_all_that_was_not_run(
    failed, owner, entries
):
    assert failed.reopen("baseline/0", from_the_start=True)

    assert {str(cell.status) for cell in failed.cells()} == {"waiting"}
    assert failed.study().ended_why is None
    again = failed.claim(owner, "cpu0")
    assert (again.cell, again.attempt, again.fencing_number) == ("baseline/0", 2, 2)
    assert failed.attempts("baseline/0")[0]["reason"] == "code_error"
    before = '{"detail":"KeyError","outcome":"failed","reason":"code_error"}'
    assert entries() == [(1, "retry", "baseline/0", 1, 1, before)]


def test_a_cell_is_reopened_once(failed, entries):
    failed.reopen("baseline/0", from_the_start=True)

    assert not failed.reopen("baseline/0", from_the_start=True)
    assert len(entries()) == 1


def test_what_later_attempts_leave_behind_is_known_by_cell(failed):
    assert failed.left_behind("baseline/0") == 0

    failed.reopen("baseline/0", from_the_start=True)

    assert (failed.left_behind("baseline/0"), failed.left_behind("double/0")) == (1, 0)


def test_a_cell_that_goes_on_leaves_nothing_behind(failed):
    failed.reopen("baseline/0", from_the_start=False)

    assert failed.left_behind("baseline/0") == 0


def test_losses_before_a_retry_do_not_count(store, owner):
    lost = Outcome(reason=Reason.KILLED, detail="killed", evidence={})
    store.finish(store.claim(owner, "cpu0"), lost, max_resumes=1)
    store.finish(store.claim(owner, "cpu0"), lost, max_resumes=1)
    assert store.cells()[0].outcome == "lost"
    store.reopen("baseline/0", from_the_start=False)

    store.finish(store.claim(owner, "cpu0"), lost, max_resumes=1)

    assert store.cells()[0].status == "waiting"


def test_only_a_waiting_cell_is_cancelled(store, owner):
    store.claim(owner, "cpu0", cell="baseline/0")

    assert store.cancel("double/0", "no need")
    assert not store.cancel("baseline/0", "no need")
    assert not store.cancel("double/0", "no need")

    running, cancelled, *_ = store.cells()
    assert str(running.status) == "running"
    assert (cancelled.outcome, cancelled.reason) == ("cancelled", "user_cancelled")
    assert cancelled.detail == "no need"


def test_a_closed_study_has_no_cell_left_to_claim(store, owner, entries):
    assert not store.is_closed()

    assert store.close_study("enough") == ("baseline/0", "double/0", "baseline/1", "double/1")

    assert store.is_closed()
    assert store.study().ended_why == "enough"
    assert store.claim(owner, "cpu0") is None
    assert [entry[1:4] for entry in entries()] == [("close", None, None)]


def test_a_database_from_before_there_were_interventions_gets_their_table(store, url, database):
    connection = sqlite3.connect(database)
    connection.execute("DROP TABLE sweeper_intervention")
    connection.close()

    with type(store).create(url) as again:
        assert not again.is_closed()
