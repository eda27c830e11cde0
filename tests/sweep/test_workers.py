"""Workers on several hosts share one study; the hosts are processes with other host names."""

import contextlib
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import optuna
import pytest
from waiting import within

from sweeper.errors import StudyBusy, StudyConflict
from sweeper.records import Reason, Update, decode
from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.sweep import slot_loop
from sweeper.sweep.founding import refuse_single_host
from sweeper.sweep.leases import LeaseTerms
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import rebuild
from sweeper.sweep.stop_request import StopRequest
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.supervision import Supervision

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("small_worker.py")
SHORT = LeaseTerms(seconds=1.5, kill_grace_seconds=0.5)
LONG = LeaseTerms(seconds=60.0)
UNHURRIED = LeaseTerms(seconds=60.0, kill_grace_seconds=3.0)
"""Its owner renews it after 12 seconds, and on a busy machine has 4 more."""
LONG_AGO = "2026-01-01T00:00:00.000Z"
ELSEWHERE = Owner(worker="worker", host="another-host", pid=1, started_at="1.0")


@pytest.fixture
def storage(postgres, monkeypatch):
    """The `run.storage` of a study on a server, with its password in the environment."""
    monkeypatch.setenv("STUDY_PASSWORD", postgres.PASSWORD)
    yield f"postgresql+psycopg://{postgres.USER}:${{STUDY_PASSWORD}}@{postgres.place}"
    postgres.execute('DROP SCHEMA IF EXISTS "sweeper_small" CASCADE')


@dataclass
class Box:
    """A worker on a host of its own."""

    process: subprocess.Popen
    log: Path

    def told(self):
        return self.log.read_text()

    def wait(self, seconds=60):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it does not end: {self.told()}")


@pytest.fixture
def box(on_host, tmp_path):
    """Starts a worker on a host of that name; what still runs at the end is killed."""
    started = []

    def start(host, study, lease):
        log = tmp_path / f"{host}.log"
        words = [sys.executable, SCRIPT, study.place, lease.seconds, lease.kill_grace_seconds]
        with log.open("w") as stream:
            process = subprocess.Popen(
                [*on_host(host), *map(str, words)],
                stdout=stream,
                stderr=stream,
                cwd=Path(__file__).parents[2],
            )
        started.append(process)
        return Box(process, log)

    yield start
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition):
    def holds():
        with contextlib.suppress(Exception):  # the database may not be there yet
            return condition()

    within(30, holds)


def rows(study, table="attempts", *arguments):
    with StudyStore.read(study.url) as store:
        return getattr(store, table)(*arguments)


def attempts(study):
    return [(row["trial"], row["host"], row["reason"]) for row in rows(study)]


def has_trained(study, cell, number=1):
    return any(row["attempt"] == number for row in rows(study, "updates", cell))


def twins(small, tmp_path, storage, **settings):
    """The same study in two folders, as on two hosts with disks of their own."""
    return [small(tmp_path / name, storage=storage, **settings) for name in ("a", "b")]


def test_two_hosts_run_every_cell_once_and_the_first_trial_alone(
    small, tmp_path, storage, box, optuna_trials
):
    cells = ["baseline/0", "half/0", "baseline/1", "half/1"]
    one, other = twins(small, tmp_path, storage, seeds="[0, 1]")
    one.behave({cell: ["unhurried"] for cell in cells})
    other.behave({cell: ["unhurried"] for cell in cells})

    boxes = [box("boxa", one, LONG), box("boxb", other, LONG)]

    assert [each.wait() for each in boxes] == [0, 0], [each.told() for each in boxes]
    ran = attempts(one)
    assert sorted(cell for cell, _, _ in ran) == sorted(cells)
    assert {host for _, host, _ in ran} == {"boxa", "boxb"}
    assert {reason for _, _, reason in ran} == {"budget_reached"}
    assert {trial.state for trial in optuna_trials(one).values()} == {
        optuna.trial.TrialState.COMPLETE
    }
    first, second, *_ = sorted(rows(one), key=lambda row: row["claimed_at"])
    proof = rows(one, "updates", first["trial"])[0]["at"]
    assert first["claimed_at"] < proof < second["claimed_at"]


def windows_in(study, attempt):
    """The windows that an attempt has in its folder."""
    file = study.folder.path / attempt["folder"] / "events.jsonl"
    records = [decode(line).record for line in file.read_text().splitlines()]
    return [record.window for record in records if isinstance(record, Update)]


def test_a_first_trial_that_fails_on_one_host_ends_the_study_on_the_other(
    small, tmp_path, storage, box
):
    one, other = twins(small, tmp_path, storage)
    one.behave({"baseline/0": ["code_error_when_told"]})
    failing = box("boxa", one, LONG)
    wait_for(lambda: rows(one))
    waiting = box("boxb", other, LONG)
    wait_for(lambda: "waiting for what runs on boxa" in waiting.told())

    (one.place / "go_on").touch()

    assert (failing.wait(), waiting.wait()) == (3, 3)
    assert attempts(one) == [("baseline/0", "boxa", "code_error")]
    assert [str(cell.status) for cell in rows(one, "cells")] == ["ended", "not_run"]


def test_a_killed_worker_s_trial_is_taken_over_after_lease_and_grace_and_goes_on(
    small, tmp_path, storage, box, trials
):
    """Both hosts see the run folder, so that the trial goes on from its checkpoint."""
    study = small(tmp_path, storage=storage)
    study.behave({"baseline/0": ["checkpoint_then_wait", "complete"]})
    killed = box("boxa", study, SHORT)
    wait_for(lambda: rows(study)[0]["checkpoint_window"] == 1)
    left = box("boxb", study, SHORT)
    wait_for(lambda: "half/0 ended" in left.told())

    killed.process.kill()

    assert left.wait() == 0, left.told()
    lost, again = rows(study, "attempts", "baseline/0")
    assert (lost["host"], lost["reason"]) == ("boxa", "worker_lost")
    assert (again["host"], again["reason"]) == ("boxb", "budget_reached")
    assert again["resumed_after_window"] == 1
    assert windows_in(study, lost) == [1]
    assert windows_in(study, again) == [2, 3, 4]
    silent = datetime.fromisoformat(again["claimed_at"]) - datetime.fromisoformat(
        lost["lease_expires_at"]
    )
    assert silent.total_seconds() > SHORT.overdue_seconds
    assert "baseline/0: taken over from boxa, overdue" in left.told()
    assert {row["outcome"] for row in trials(study).values()} == {"completed"}


def test_a_frozen_worker_is_fenced_and_goes_on_with_other_cells(small, tmp_path, storage, box):
    """Its trial does not outlive the lease: the supervisor, which is not frozen, sees to that."""
    one, other = twins(small, tmp_path, storage, seeds="[0, 1]")
    one.behave({"baseline/0": ["slow"]})
    later = {cell: ["unhurried"] for cell in ("half/0", "baseline/1", "half/1")}
    other.behave({"baseline/0": ["slow", "unhurried"], **later})
    frozen = box("boxa", one, SHORT)
    wait_for(lambda: has_trained(one, "baseline/0"))
    frozen.process.send_signal(signal.SIGSTOP)
    taker = box("boxb", other, SHORT)
    wait_for(lambda: has_trained(one, "baseline/0", number=2))

    frozen.process.send_signal(signal.SIGCONT)

    assert (frozen.wait(), taker.wait()) == (0, 0), frozen.told() + taker.told()
    first, second = rows(one, "attempts", "baseline/0")
    assert (first["host"], first["reason"]) == ("boxa", "worker_lost")
    assert (second["host"], second["reason"]) == ("boxb", "budget_reached")
    (late,) = rows(one, "late_results")
    assert (late.cell, late.attempt, late.outcome.reason) == ("baseline/0", 1, Reason.PREEMPTED)
    assert late.outcome.detail == "its coordinator has not renewed its lease of 1.5 s"
    assert "baseline/0: attempt 1 had been taken over" in frozen.told()
    assert [cell for cell, *rest in attempts(one) if rest == ["boxa", "budget_reached"]]
    left = AttemptFolder(one.folder.path / first["folder"])
    assert Supervision.read(left.supervision).ended_at.isoformat() < second["claimed_at"]
    assert not (one.folder.path / second["folder"]).exists()
    assert second["resumed_after_window"] == 0, "its checkpoint lies on the other host's disk"
    assert "baseline/0 starts over: there was no checkpoint to go on from" in taker.told()


def test_a_trial_whose_lease_cannot_be_renewed_is_stopped_and_goes_on_when_it_can(
    small, tmp_path, storage, recorder, postgres, monkeypatch
):
    """The server is away for longer than a lease; another host might take the trial over."""
    monkeypatch.setattr(slot_loop, "PAUSES_SECONDS", (0.1, 0.2))
    study = small(tmp_path, storage=storage)
    study.behave({"baseline/0": ["slow", "complete"]})
    outage = threading.Timer(4.0, postgres.start)

    def begin_once():
        if not outage.is_alive() and not outage.finished.is_set():
            postgres.stop()
            outage.start()

    observer = recorder(progress=begin_once)

    end = study.run(joins=True, lease=LeaseTerms(seconds=1.0), observer=observer)

    outage.join()
    assert end.counts == {"completed": 2}
    assert [(cell, reason) for cell, _, reason in attempts(study)] == [
        ("baseline/0", "preempted"),
        ("baseline/0", "budget_reached"),
        ("half/0", "budget_reached"),
    ]
    assert "baseline/0 goes on after window 1 of attempt 1" in observer.messages


def test_a_host_with_other_data_or_options_is_refused_with_both_values(small, tmp_path, storage):
    small(tmp_path / "a", storage=storage).run(joins=True)
    other = small(tmp_path / "b", storage=storage, rate="3e-4")

    with pytest.raises(StudyConflict) as refusal:
        other.run(joins=True)

    rate, whole = refusal.value.faults
    assert (rate.where, rate.got, rate.expected) == ("training.learning_rate", "0.0003", "0.0002")
    assert whole.hint.startswith("Give this host the study file, data and model")
    assert not other.folder.recorded_study.exists()


def test_a_host_with_other_limits_is_refused(small, tmp_path, storage):
    small(tmp_path / "a", storage=storage).run(joins=True)
    other = small(tmp_path / "b", storage=storage)
    text = other.file.path.read_text()
    other.file.path.write_text(text.replace("max_resumes: 1", "limits: {wall_clock: 1h}"))

    with pytest.raises(StudyConflict, match="agreed before the first trial") as refusal:
        small(tmp_path / "b").run(joins=True)

    (fault,) = refusal.value.faults
    assert (fault.where, fault.got, fault.expected) == ("run.limits.wall_clock", "1h", "null")


def test_a_host_that_joins_an_ended_study_finds_nothing_to_do(small, tmp_path, storage):
    one, other = twins(small, tmp_path, storage)
    one.run(joins=True)

    end = other.run(joins=True)

    assert end.did_nothing
    assert other.folder.recorded_study.read_text() == other.file.text


def test_a_worker_of_an_sqlite_study_is_refused_with_the_way_out(study):
    with pytest.raises(StudyConflict) as refusal:
        refuse_single_host(study.file, study.folder)

    (fault,) = refusal.value.faults
    assert fault.where == "run.storage"
    assert fault.expected == "postgresql+psycopg://USER:${PASSWORD}@HOST/DATABASE"
    assert "`sweeper run`" in fault.hint


def test_a_step_of_the_server_s_clock_takes_no_trial_from_a_worker_that_lives(
    small, tmp_path, storage, box, postgres
):
    """By months: every lease is over for long, until its owner renews it.

    The step comes just after a renewal, so that the next one is as far away as it can be.
    """
    one, other = twins(small, tmp_path, storage)
    one.behave({"baseline/0": ["checkpoint_then_wait"]})
    box("boxa", one, UNHURRIED)
    wait_for(lambda: has_trained(one, "baseline/0"))
    waiting = box("boxb", other, UNHURRIED)
    wait_for(lambda: "waiting for what runs on boxa" in waiting.told())

    first = rows(one)[0]["lease_expires_at"]
    wait_for(lambda: rows(one)[0]["lease_expires_at"] != first)
    postgres.execute(
        f"UPDATE sweeper_small.sweeper_attempt SET lease_expires_at = '{LONG_AGO}' "
        "WHERE cell = 'baseline/0'"
    )
    wait_for(lambda: rows(one)[0]["lease_expires_at"] != LONG_AGO or len(rows(one)) > 2)

    assert sorted(attempts(one)) == [
        ("baseline/0", "boxa", None),
        ("half/0", "boxb", "budget_reached"),
    ]


def test_a_run_takes_up_what_another_host_left_once_it_had_the_time_to_renew_its_lease(
    small, tmp_path, storage, recorder
):
    study = small(tmp_path, storage=storage)
    ended = StopRequest()
    ended.ask()
    study.run(stop=ended)
    with StudyStore.open(study.url) as store:
        store.claim(ELSEWHERE, "cpu 1", lease_seconds=-3600.0)
    observer = recorder()

    end = study.run(lease=SHORT, observer=observer)

    assert end.counts == {"completed": 2}
    over, taken = observer.messages[:2]
    assert over.startswith("the leases of what runs on another-host are over")
    assert taken == "baseline/0: taken over from another-host, overdue"


def test_a_whole_database_is_not_replaced_while_another_host_trains_by_it(
    small, tmp_path, storage, box, postgres
):
    one, other = twins(small, tmp_path, storage)
    ended = StopRequest()
    ended.ask()
    one.run(joins=True, stop=ended)
    other.behave({"baseline/0": ["slow"]})
    training = box("boxb", other, LONG)
    wait_for(lambda: has_trained(one, "baseline/0"))

    with pytest.raises(StudyBusy, match="trial baseline/0 is being run by another coordinator"):
        rebuild(one.folder, replace=True, observer=SilentObserver())

    assert attempts(one) == [("baseline/0", "boxb", None)]
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sweeper\\_small%'"
    assert postgres.execute(schemas) == [("sweeper_small",)]
    training.process.send_signal(signal.SIGINT)
    training.wait()


def test_a_run_beside_a_worker_is_told_to_be_a_worker(small, tmp_path, storage):
    study = small(tmp_path, storage=storage)
    study.run()
    with StudyStore.open(study.url) as store:
        store.reopen("half/0", from_the_start=True)
        store.claim(ELSEWHERE, "cpu 1")

    with pytest.raises(StudyBusy, match="`sweeper worker STUDY` joins those who run it"):
        study.run()
