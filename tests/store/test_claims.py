"""One owner per cell, whoever asks, and in whatever order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import datetime

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Process
from sweeper.store.engine import open_engine
from sweeper.store.tables import ATTEMPT

pytestmark = pytest.mark.every_database


def test_six_processes_claim_sixty_cells_once_each(
    store, url, make_cell, start_children, run_together
):
    more = [make_cell(f"arm/{seed}", "arm", seed, 0.1) for seed in range(56)]
    store.add_cells(more)

    claimed = run_together(start_children(6, "claim_all.py", url))

    assert sorted(claimed) == sorted(cell.cell for cell in store.cells())
    assert len(claimed) == 60
    assert [row["attempt"] for row in store.attempts()] == [1] * 60


def test_two_processes_that_saw_the_same_free_cell_do_not_both_get_it(
    store, url, start_children, run_together
):
    claimed = run_together(start_children(2, "take_seen.py", url, "guarded"))

    assert Counter(claimed) == {"baseline/0": 1}


def test_without_the_condition_that_the_cell_is_free_both_would_get_it(
    store, url, start_children, run_together
):
    """Shows that the test above can fail."""
    claimed = run_together(start_children(2, "take_seen.py", url, "unguarded"))

    assert Counter(claimed) == {"baseline/0": 2}


def test_cells_are_claimed_in_plan_order(store, owner):
    claims = [store.claim(owner, "cpu0") for _ in range(5)]

    assert [claim and claim.cell for claim in claims] == [
        "baseline/0",
        "double/0",
        "baseline/1",
        "double/1",
        None,
    ]


def test_the_order_can_be_reversed(store, owner):
    claims = [store.claim(owner, "cpu0", reverse=True) for _ in range(2)]

    assert [claim.cell for claim in claims] == ["double/1", "baseline/1"]


def test_cells_that_are_barred_are_left_to_others(store, owner):
    barred = ["baseline/0", "baseline/1", "double/1"]

    assert store.claim(owner, "cpu0", barred=barred).cell == "double/0"
    assert store.claim(owner, "cpu0", barred=barred) is None
    assert store.claim(owner, "cpu1", barred=["double/1"]).cell == "baseline/0"


def test_a_given_cell_that_is_barred_is_not_claimed(store, owner):
    assert store.claim(owner, "cpu0", cell="double/1", barred=["double/1"]) is None


def test_a_given_cell_is_claimed_only_while_it_is_free(store, owner):
    assert store.claim(owner, "cpu0", cell="double/1").cell == "double/1"
    assert store.claim(owner, "cpu0", cell="double/1") is None


def test_a_claim_says_whose_it_is_and_where_the_attempt_belongs(store, owner):
    claim = store.claim(owner, "gpu-3", cell="double/1")

    assert (claim.arm, claim.seed, claim.attempt, claim.fencing_number) == ("double", 1, 1, 1)
    assert (claim.owner, claim.slot) == (owner, "gpu-3")
    assert claim.folder == "trials/double-1/attempts/1"


def test_the_attempt_is_on_record_from_the_moment_of_the_claim(store, owner):
    store.claim(owner, "gpu-3")

    (row,) = store.attempts()
    assert (row["worker"], row["host"], row["pid"]) == ("w1", "here", 4711)
    assert (row["process_started_at"], row["slot"]) == ("1700000000.25", "gpu-3")
    assert (row["outcome"], row["ended_at"]) == (None, None)


def test_a_lease_lasts_five_minutes_by_the_clock_of_the_database(store, owner):
    store.claim(owner, "cpu0")

    (row,) = store.attempts()
    claimed = datetime.fromisoformat(row["claimed_at"])
    expires = datetime.fromisoformat(row["lease_expires_at"])
    assert 300 <= (expires - claimed).total_seconds() < 301


def test_renewing_extends_the_lease_from_now(store, owner):
    claim = store.claim(owner, "cpu0", lease_seconds=-60)
    assert store.live_attempts()[0].overdue

    assert store.renew(claim, lease_seconds=60)

    assert not store.live_attempts()[0].overdue


def test_renewing_is_refused_after_somebody_took_the_cell_over(store, owner, other_owner):
    old = store.claim(owner, "cpu0")
    store.lose_dead(lambda _owner: True, max_resumes=3)
    new = store.claim(other_owner, "cpu1")

    assert not store.renew(old)
    assert store.renew(new)
    assert new.cell == old.cell


def test_renewing_is_refused_after_the_end(store, owner, completed):
    claim = store.claim(owner, "cpu0")
    store.finish(claim, completed, max_resumes=3)

    assert not store.renew(claim)


def test_renewing_is_refused_to_an_older_fencing_number_of_the_same_attempt(store, owner):
    claim = store.claim(owner, "cpu0")

    assert not store.renew(dataclasses.replace(claim, fencing_number=0))


def test_every_attempt_has_the_next_number_and_the_next_fencing_number(store, owner, ended):
    first = store.claim(owner, "cpu0", cell="double/0")
    store.finish(first, ended(Reason.KILLED), max_resumes=3)

    second = store.claim(owner, "cpu0", cell="double/0")

    assert (second.attempt, second.fencing_number) == (2, 2)
    assert second.folder == "trials/double-0/attempts/2"


def test_the_database_refuses_a_fencing_number_twice(store, url, owner):
    store.claim(owner, "cpu0")
    engine = open_engine(url)
    with engine.connect() as connection:
        row = dict(connection.execute(select(ATTEMPT)).mappings().one())

    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(insert(ATTEMPT).values(**(row | {"attempt": 2})))
    engine.dispose()


def test_the_processes_of_an_attempt_are_recorded_as_they_start(store, owner):
    claim = store.claim(owner, "cpu0")
    supervisor = Process(pid=11, started_at="1.5")
    child = Process(pid=12, started_at="2.5")

    store.record_processes(claim, supervisor=supervisor)
    store.record_processes(claim, child=child)

    (live,) = store.live_attempts()
    assert (live.supervisor, live.child) == (supervisor, child)


def test_whoever_is_to_be_alone_claims_only_while_nobody_runs_anything(store, owner, other_owner):
    assert store.claim(owner, "cpu0", alone_after=1) is None, "none has begun, and he knew of one"
    first = store.claim(owner, "cpu0", alone_after=0)

    assert first.cell == "baseline/0"
    assert store.claim(other_owner, "cpu1", alone_after=0) is None
    assert store.claim(other_owner, "cpu1", alone_after=1) is None, "it runs"

    store.finish(first, Outcome(reason=Reason.KILLED, detail=""), max_resumes=3)
    assert store.claim(other_owner, "cpu1", alone_after=0) is None, "it has run since"
    assert store.claim(other_owner, "cpu1", alone_after=1).attempt == 2


def test_of_three_processes_that_are_to_be_alone_one_claims(
    store, url, start_children, run_together
):
    claimed = run_together(start_children(3, "claim_alone.py", url))

    assert len(claimed) == 1
