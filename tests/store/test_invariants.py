"""Whatever is claimed, finished, lost and renewed in whatever order: one owner per cell."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore

WORKERS = st.sampled_from(["w1", "w2", "w3"])
REASONS = st.sampled_from(
    [Reason.BUDGET_REACHED, Reason.DIVERGED, Reason.KILLED, Reason.PREEMPTED, Reason.CODE_ERROR]
)
MAX_RESUMES = 2
LOST = {Reason.KILLED, Reason.PREEMPTED}
"""No attempt here makes a checkpoint, so that a preemption is a loss like any other."""
FINAL = {Reason.BUDGET_REACHED, Reason.DIVERGED, Reason.CODE_ERROR}


class Cell:
    def __init__(self, arm, seed):
        self.id = f"{arm}/{seed}"
        self.arm = arm
        self.seed = seed
        self.value = 0.1
        self.round = 0


STUDY = RecordedStudy(
    name="s",
    fingerprint="f",
    protocol={},
    study_yaml="",
    factor_key="training.learning_rate",
    arms={"baseline": 0.1, "half": 0.05},
    seeds=(0, 1),
    budget_target_tokens=1,
)
CELLS = [Cell("baseline", 0), Cell("half", 0), Cell("baseline", 1)]


class Ownership(RuleBasedStateMachine):
    """Compares the store with a dictionary of who owns what."""

    def __init__(self, url=None):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = StudyStore.create(url or f"sqlite:///{self.folder / 'study.db'}")
        self.store.record_study(STUDY)
        self.store.add_cells(CELLS)
        self.cells = [cell.id for cell in CELLS]
        self.every_claim = []
        self.owned = {}
        self.ended = set()
        self.losses = dict.fromkeys(self.cells, 0)

    def teardown(self):
        self.store.delete()
        shutil.rmtree(self.folder)

    def free(self):
        return [c for c in self.cells if c not in self.owned and c not in self.ended]

    def record_loss(self, cell):
        self.losses[cell] += 1
        if self.losses[cell] > MAX_RESUMES:
            self.ended.add(cell)

    @rule(worker=WORKERS, reverse=st.booleans())
    def claim(self, worker, reverse):
        owner = Owner(worker=worker, host="here", pid=int(worker[1]), started_at="0")
        free = self.free()
        claim = self.store.claim(owner, "cpu0", reverse=reverse)
        assert (None if claim is None else claim.cell) == (
            free[-1 if reverse else 0] if free else None
        )
        if claim is not None:
            self.owned[claim.cell] = claim
            self.every_claim.append(claim)

    @precondition(lambda self: self.every_claim)
    @rule(choice=st.data(), reason=REASONS)
    def finish_any_claim_ever_made(self, choice, reason):
        claim = choice.draw(st.sampled_from(self.every_claim))
        is_owner = self.owned.get(claim.cell) == claim
        recorded = self.store.outcome(claim)
        done = self.store.finish(
            claim, Outcome(reason=reason, detail=reason.value), max_resumes=MAX_RESUMES
        )
        if not is_owner:
            assert self.store.outcome(claim) == recorded
            assert done == (recorded.reason is reason)
            return
        assert done
        del self.owned[claim.cell]
        if reason in FINAL:
            self.ended.add(claim.cell)
        if reason in LOST:
            self.record_loss(claim.cell)

    @precondition(lambda self: self.every_claim)
    @rule(choice=st.data())
    def renew_any_claim_ever_made(self, choice):
        claim = choice.draw(st.sampled_from(self.every_claim))
        assert self.store.renew(claim) == (self.owned.get(claim.cell) == claim)

    @rule(worker=WORKERS)
    def a_worker_dies(self, worker):
        theirs = [c for c, claim in self.owned.items() if claim.owner.worker == worker]
        lost = self.store.lose_dead(lambda owner: owner.worker == worker, max_resumes=MAX_RESUMES)
        assert sorted(attempt.claim.cell for attempt in lost) == sorted(theirs)
        for cell in theirs:
            del self.owned[cell]
            self.record_loss(cell)

    @invariant()
    def every_cell_has_the_owner_it_should_have_and_no_other(self):
        live = self.store.live_attempts()
        assert {attempt.claim.cell: attempt.claim for attempt in live} == self.owned
        assert len(live) == len(self.owned)

    @invariant()
    def attempts_without_an_end_are_the_live_ones(self):
        open_ones = [
            (row["trial"], row["attempt"])
            for row in self.store.attempts()
            if row["outcome"] is None
        ]
        assert sorted(open_ones) == sorted(
            (claim.cell, claim.attempt) for claim in self.owned.values()
        )

    @invariant()
    def attempts_and_fencing_numbers_grow_by_one(self):
        for cell in self.cells:
            rows = self.store.attempts(cell)
            expected = list(range(1, len(rows) + 1))
            assert [row["attempt"] for row in rows] == expected
            assert [row["fencing_number"] for row in rows] == expected

    @invariant()
    def cells_stand_where_they_should(self):
        assert {cell.cell: cell.status.value for cell in self.store.cells()} == {
            cell: "ended"
            if cell in self.ended
            else ("running" if cell in self.owned else "waiting")
            for cell in self.cells
        }


SETTINGS = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestOwnership = Ownership.TestCase
TestOwnership.settings = SETTINGS


@pytest.mark.slow
def test_ownership_on_a_server(postgres):
    few = settings(SETTINGS, max_examples=8)

    run_state_machine_as_test(lambda: Ownership(postgres.new_schema_url()), settings=few)
