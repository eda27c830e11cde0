"""A connection that ends at a COMMIT, before or after the server has it: nothing is done twice."""

from __future__ import annotations

import contextlib

import pytest

from sweeper.errors import StoreUnavailable
from sweeper.records import Reason
from sweeper.store import database as transactions
from sweeper.store.database import Database
from sweeper.store.interventions import Intervention
from sweeper.store.receipt import Receipt, has_taken_effect
from sweeper.store.schema import check_schema
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.costly


@pytest.fixture(autouse=True)
def _fast_tries(monkeypatch):
    monkeypatch.setattr(transactions, "PAUSES_SECONDS", (0.01, 0.01, 0.01))


@pytest.fixture
def url(postgres):
    return postgres.new_schema_url()


@pytest.fixture
def far(store, postgres, line, url):
    """The same store, opened over the line."""
    with StudyStore.open(postgres.by_way_of(line.port, url)) as far:
        yield far


@pytest.fixture(params=[True, False], ids=["answer lost", "commit lost"])
def cut(request, line):
    """Says that the line is cut at the next commit."""

    def at_the_next() -> None:
        line.delivers = request.param
        line.cut_at = 1

    yield at_the_next
    assert line.cuts == 1


@pytest.fixture
def interventions(postgres, url):
    """Reads the kinds of the interventions on record."""
    schema = url.partition("%22")[2].partition("%22")[0]

    def read() -> list[str]:
        query = f'SELECT kind FROM "{schema}".sweeper_intervention ORDER BY number'
        return [kind for (kind,) in postgres.execute(query)]

    return read


def test_a_claim_is_made_once_and_found_again(far, store, owner, cut):
    cut()

    claim = far.claim(owner, "cpu0")

    assert (claim.cell, claim.attempt) == ("baseline/0", 1)
    assert [(a.claim.cell, a.claim.attempt) for a in store.live_attempts()] == [("baseline/0", 1)]


def test_a_claim_whose_answer_was_lost_for_good_is_what_the_slot_gets_next(
    far, store, owner, other_owner, line, monkeypatch
):
    """Whoever else asks in the meantime gets other cells."""
    monkeypatch.setattr(transactions, "PAUSES_SECONDS", ())
    line.cut_at = 1
    with pytest.raises(StoreUnavailable):
        far.claim(owner, "cpu0")
    assert len(store.live_attempts()) == 1

    cells = [
        claim.cell
        for claim in (
            store.claim(other_owner, "cpu0"),
            far.claim(owner, "cpu1"),
            far.claim(owner, "cpu0", barred=["baseline/0"]),
            far.claim(owner, "cpu0"),
        )
    ]

    assert cells == ["double/0", "baseline/1", "baseline/0", "double/1"]
    assert [a.claim.attempt for a in store.live_attempts()] == [1, 1, 1, 1]


def test_a_lost_claim_that_was_taken_over_meanwhile_is_not_given_back(
    far, store, owner, other_owner, line, monkeypatch
):
    monkeypatch.setattr(transactions, "PAUSES_SECONDS", ())
    line.cut_at = 1
    with pytest.raises(StoreUnavailable):
        far.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)
    taken = store.claim(other_owner, "cpu0")

    assert taken.cell == "baseline/0"
    assert far.claim(owner, "cpu0").cell == "double/0"


def test_events_are_stored_once(far, store, owner, numbered, update, cut):
    claim = far.claim(owner, "cpu0")
    cut()

    assert far.ingest(claim, numbered(update(), update(window=2))) == 2

    assert [row["window"] for row in store.updates()] == [1, 2]


def test_an_ending_is_on_record_once_and_none_is_kept_apart(far, store, owner, completed, cut):
    claim = far.claim(owner, "cpu0")
    cut()

    assert far.finish(claim, completed, max_resumes=3)

    assert store.late_results() == ()
    assert [row["outcome"] for row in store.attempts()] == ["completed"]


def test_a_loss_is_told_and_counted_once(far, store, owner, cut):
    far.claim(owner, "cpu0")
    dead = far.live_attempts()
    cut()

    lost = far._lose(dead, why="is gone", max_resumes=3)

    assert [attempt.claim.cell for attempt in lost] == ["baseline/0"]
    assert [row["reason"] for row in store.attempts()] == ["worker_lost"]


def test_a_renewed_lease_and_recorded_processes_are_ours(far, owner, cut):
    claim = far.claim(owner, "cpu0")
    cut()

    assert far.renew(claim)


def test_cells_are_added_once(far, store, make_cell, cut):
    cut()

    far.add_cells([make_cell("half/0", "half", 0, 0.0001)])

    assert [cell.cell for cell in store.cells()][-2:] == ["double/1", "half/0"]


def test_a_study_is_recorded_once(postgres, line, study, cut):
    url = postgres.new_schema_url()
    with StudyStore.create(postgres.by_way_of(line.port, url)) as store:
        cut()

        store.record_study(study)

        assert store.study().name == "rates"


def test_a_schema_is_created_once(postgres, line, cut):
    cut()

    with StudyStore.create(postgres.by_way_of(line.port, postgres.new_schema_url())) as store:
        assert store.find_study() is None


@pytest.fixture
def failed(far, owner, ended):
    """One cell has failed, three wait."""
    far.finish(far.claim(owner, "cpu0"), ended(Reason.CODE_ERROR), max_resumes=3)
    return far


def test_a_cell_is_opened_again_once(failed, interventions, cut):
    cut()

    assert failed.reopen("baseline/0", from_the_start=True)

    assert interventions() == [Intervention.RETRY]


def test_limits_are_amended_once(failed, interventions, cut):
    cut()

    failed.amend({"wall_clock": "2h"}, ["baseline/0"])

    assert interventions() == [Intervention.AMEND, Intervention.AMEND], "the limits, and the cell"
    assert failed.amended_limits() == {"wall_clock": "2h"}


def test_a_cell_is_cancelled_once(failed, interventions, cut):
    cut()

    assert failed.cancel("double/0", "not needed")

    assert interventions() == [Intervention.CANCEL]


def test_a_study_is_closed_once_and_says_what_it_ended(failed, interventions, cut):
    cut()

    assert failed.close_study("enough") == ("double/0", "baseline/1", "double/1")

    assert interventions() == [Intervention.CLOSE]


def test_cells_that_are_not_run_are_counted(failed, cut):
    cut()

    assert failed.close_not_run("the baseline failed") == 3


def test_cells_that_wait_again_are_counted(failed, cut):
    failed.close_not_run("the baseline failed")
    cut()

    assert failed.reopen_study() == 3


def test_a_cleaning_is_recorded_once(failed, interventions, cut):
    cut()

    failed.record_cleaning(checkpoints=2, size_bytes=10)

    assert interventions() == [Intervention.CLEAN]


def test_a_study_is_deleted(failed, postgres, url, cut):
    cut()

    failed.delete()

    schema = url.partition("%22")[2].partition("%22")[0]
    assert not postgres.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'")


def test_what_a_session_without_a_client_holds_is_given_back(far, store, owner, line):
    """The server was not told that the client is gone; its locks would stay."""
    claim = far.claim(owner, "cpu0")
    line.delivers, line.cut_at = False, 1

    assert far.renew(claim)

    assert store.renew(claim)


def test_a_transaction_that_the_server_took_back_has_not_taken_effect(store, url, postgres):
    """Its session was ended before it could commit."""
    database = Database.for_writing(url, check_schema)
    with contextlib.closing(database), database._writer.connect() as connection:
        connection.exec_driver_sql("UPDATE sweeper_study SET name = 'x'")
        number, session = connection.exec_driver_sql(
            "SELECT pg_current_xact_id()::text, pg_backend_pid()"
        ).one()

        assert not has_taken_effect(database._writer, Receipt(transaction=number, session=session))

        connection.invalidate()
    assert store.study().name == "rates"
