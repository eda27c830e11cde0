"""An attempt's end on record, from the files it left."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest
from trial_records import evaluation, update

from sweeper.records import (
    Artifact,
    Event,
    Outcome,
    OutcomeKind,
    Reason,
    encode,
)
from sweeper.store.claims import Owner
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.plan import Cell
from sweeper.sweep.finishing import Terms, finish_attempt
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.supervision import Cause, Supervision
from sweeper.workers.tail import EventTail

AT = datetime(2026, 3, 1, tzinfo=UTC)
TERMS = Terms(budget_target_tokens=10, max_resumes=3)
ENDED = Supervision(
    cause=Cause.EXITED,
    pid=101,
    started_at=11.5,
    exit_status=0,
    signal=None,
    wall_seconds=2.5,
    peak_memory_bytes=1024,
    supervisor_pid=100,
    supervisor_started_at=10.25,
    began_at=AT,
    ended_at=AT,
)
UPDATE = update(loss=2.0)
EVALUATION = evaluation(index=1, window=1, target_tokens_read=10, updates=1, loss=1.5)
SAVED = Artifact(kind="adapter", path="adapter", sha256="a0")
DONE = Outcome(reason=Reason.BUDGET_REACHED, detail="read it all")


@pytest.fixture
def store(tmp_path):
    with StudyStore.create(f"sqlite:///{tmp_path}/study.db") as store:
        store.record_study(
            RecordedStudy(
                name="s",
                fingerprint="f0",
                protocol={},
                study_yaml="",
                factor_key="training.learning_rate",
                arms={"baseline": 1e-4},
                seeds=(0,),
                budget_target_tokens=10,
            )
        )
        store.add_cells([Cell(id="baseline/0", arm="baseline", seed=0, value=1e-4)])
        yield store


@pytest.fixture
def claim(store):
    owner = Owner(worker="local", host="h", pid=1, started_at="1.0")
    return store.claim(owner, "cpu 1")


@pytest.fixture
def folder(tmp_path, claim):
    folder = AttemptFolder(tmp_path / claim.folder)
    folder.path.mkdir(parents=True)
    folder.adapter.mkdir()
    return folder


def write(folder, *records, rest=""):
    events = [Event(sequence=n, at=AT, record=r) for n, r in enumerate(records, start=1)]
    text = "".join(encode(event) + "\n" for event in events)
    folder.events.write_text(text + rest, encoding="utf-8")


def test_a_complete_trial_is_on_record_with_what_it_cost(store, claim, folder):
    write(folder, UPDATE, EVALUATION, SAVED, DONE)

    outcome = finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    assert outcome.reason is Reason.BUDGET_REACHED
    (trial,) = store.trials()
    assert (trial["outcome"], trial["validation_loss"]) == ("completed", 1.5)
    assert trial["adapter_path"] == "trials/baseline-0/attempts/1/adapter"
    (attempt,) = store.attempts()
    assert (attempt["wall_seconds"], attempt["peak_memory_bytes"]) == (2.5, 1024)
    assert (attempt["exit_status"], attempt["child_pid"], attempt["supervisor_pid"]) == (
        0,
        101,
        100,
    )
    assert (attempt["child_started_at"], attempt["supervisor_started_at"]) == ("11.5", "10.25")
    assert json.loads(attempt["evidence"])["last_finite_loss"] == "2.0"


def test_finishing_again_changes_nothing(store, claim, folder):
    write(folder, UPDATE, EVALUATION, SAVED, DONE)
    finish_attempt(store, claim, folder, ENDED, terms=TERMS)
    before = (store.trials(), store.attempts(), store.updates(), store.evaluations())

    finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    assert (store.trials(), store.attempts(), store.updates(), store.evaluations()) == before


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((UPDATE, SAVED, DONE), Reason.RESULT_MISSING),
        (
            (UPDATE, dataclasses.replace(EVALUATION, loss=float("nan")), SAVED, DONE),
            Reason.RESULT_MISSING,
        ),
        (
            (dataclasses.replace(UPDATE, target_tokens_read=9), EVALUATION, SAVED, DONE),
            Reason.BUDGET_MISMATCH,
        ),
        ((UPDATE, EVALUATION, DONE), Reason.RESULT_MISSING),
        (
            (UPDATE, EVALUATION, dataclasses.replace(SAVED, path="elsewhere"), DONE),
            Reason.RESULT_MISSING,
        ),
        ((UPDATE, EVALUATION, SAVED), Reason.RESULT_MISSING),
    ],
)
def test_a_claim_to_be_complete_needs_all_its_evidence(store, claim, folder, records, reason):
    write(folder, *records)

    outcome = finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    assert outcome.reason is reason
    assert store.trials()[0]["validation_loss"] is None


BEST = Artifact(kind="best", path="best", sha256="b0")
EVIDENCE = Artifact(kind="evidence", path="evidence", sha256="e0")


@pytest.mark.parametrize(
    ("artifacts", "detail"),
    [
        ((SAVED,), "it left no weights of its lowest validation loss"),
        ((SAVED, BEST), "best is not there"),
        ((EVIDENCE,), "evidence is not there"),
        ((dataclasses.replace(EVIDENCE, path="adapter"),), "it left no weights"),
    ],
)
def test_a_study_of_the_best_validation_needs_both_kinds_of_weights(
    store, claim, folder, artifacts, detail
):
    write(folder, UPDATE, EVALUATION, *artifacts, DONE)
    terms = dataclasses.replace(TERMS, keeps_best=True)

    outcome = finish_attempt(store, claim, folder, ENDED, terms=terms)

    assert outcome.reason is Reason.RESULT_MISSING
    assert outcome.detail == f"it claims to be complete, but {detail}"


def test_a_trial_with_both_kinds_of_weights_is_complete_where_both_are_kept(store, claim, folder):
    (folder.path / "best").mkdir(parents=True)
    write(folder, UPDATE, EVALUATION, SAVED, BEST, DONE)
    terms = dataclasses.replace(TERMS, keeps_best=True)

    assert finish_attempt(store, claim, folder, ENDED, terms=terms).reason is Reason.BUDGET_REACHED


def test_an_exit_status_other_than_0_is_not_complete(store, claim, folder):
    write(folder, UPDATE, EVALUATION, SAVED, DONE)
    supervision = dataclasses.replace(ENDED, exit_status=3)

    outcome = finish_attempt(store, claim, folder, supervision, terms=TERMS)

    assert outcome.kind is OutcomeKind.FAILED
    assert store.attempts()[0]["exit_status"] == 3


def test_a_killed_trial_is_lost_with_what_it_wrote_and_its_cell_waits(store, claim, folder):
    write(folder, UPDATE, rest='{"sequence": 2, "at"')
    supervision = dataclasses.replace(ENDED, exit_status=None, signal=9)

    outcome = finish_attempt(store, claim, folder, supervision, terms=TERMS)

    assert outcome.reason is Reason.KILLED
    assert store.cells()[0].status == "waiting"
    assert store.attempts()[0]["exit_status"] == -9
    assert len(store.updates()) == 1


def test_damaged_events_are_named_and_what_is_whole_before_them_is_kept(store, claim, folder):
    write(folder, UPDATE, rest="not an event\n")

    outcome = finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    assert outcome.reason is Reason.RESULT_MISSING
    assert "events.jsonl" in outcome.evidence["events"]
    assert len(store.updates()) == 1


def test_an_end_that_the_user_asked_for_is_the_users(store, claim, folder):
    write(folder, UPDATE, Outcome(reason=Reason.PREEMPTED, detail="signal 15"))
    supervision = dataclasses.replace(ENDED, cause=Cause.STOPPED)

    outcome = finish_attempt(
        store, claim, folder, supervision, terms=TERMS, asked=Reason.USER_CANCELLED
    )

    assert outcome.reason is Reason.USER_CANCELLED
    assert store.cells()[0].status == "waiting"


def test_a_result_of_a_cell_that_was_taken_over_is_stored_apart(store, claim, folder):
    store.lose_dead(lambda _: True, max_resumes=3)
    store.claim(Owner(worker="local", host="h", pid=2, started_at="2.0"), "cpu 1")
    write(folder, UPDATE, EVALUATION, SAVED, DONE)

    finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    assert store.cells()[0].status == "running"
    (late,) = store.late_results()
    assert (late.attempt, late.outcome.reason) == (1, Reason.BUDGET_REACHED)


@pytest.mark.parametrize("left", [0, 1], ids=["gone", "cut"])
def test_events_that_were_on_record_and_are_gone_are_named(store, claim, folder, left):
    write(folder, UPDATE, EVALUATION, SAVED, DONE)
    store.ingest(claim, EventTail(folder.events).read())
    write(folder, *(UPDATE, EVALUATION)[:left])

    outcome = finish_attempt(store, claim, folder, ENDED, terms=TERMS)

    gone = f"events.jsonl holds {left} events, 4 are on record: it was cut or removed"
    assert outcome.reason is Reason.RESULT_MISSING
    assert outcome.detail.endswith(f"; {gone}")
    assert outcome.evidence["events"] == gone
    assert store.updates()[0]["window"] == UPDATE.window, "what was recorded stays"
