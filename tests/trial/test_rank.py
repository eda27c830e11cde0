"""`python -m sweeper.trial FOLDER` with two ranks: real processes, from the spec to the files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from waiting import within

from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
    Outcome,
    Reason,
    Resumed,
    Started,
    Update,
    decode,
)
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("restored_torch")]

BUDGET = 2000
"""Of some 90 windows with two micro-batches each: one for each rank."""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts an attempt as its supervisor does; nothing of it is left at the end."""
    started = []

    def process(spec):
        folder = AttemptFolder(tmp_path_factory.mktemp("attempt"))
        folder.spec.write_text(spec.to_json(), encoding="utf-8")
        with folder.stderr.open("wb") as err:
            child = subprocess.Popen(
                [sys.executable, "-m", "sweeper.trial", str(folder.path)],
                stdin=subprocess.PIPE,
                stderr=err,
                start_new_session=True,
                env={"PATH": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            )
        started.append(child)
        return child, folder

    yield process
    for child in started:
        with child:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def shared(bench):
    """The spec of a trial on two ranks, with dropout."""
    checkpoint = CheckpointOptions(every=CheckpointEvery(windows=20))
    return bench.spec(budget=BUDGET, ranks=2, checkpoint=checkpoint)


@pytest.fixture(scope="module")
def completed(shared, start):
    child, folder = start(shared)
    assert child.wait(120) == 0, folder.stderr.read_text()
    return folder


@pytest.fixture(scope="module")
def preempted(shared, start):
    """The same trial, its whole group asked to end at some window."""
    child, folder = start(shared)
    within(120, lambda: updates_of(folder))
    os.killpg(child.pid, signal.SIGTERM)
    assert child.wait(60) == 0, folder.stderr.read_text()
    return folder


@pytest.fixture(scope="module")
def alone(shared, tmp_path_factory):
    """The same trial in one process: this one."""
    folder = AttemptFolder(tmp_path_factory.mktemp("alone"))
    spec = shared.model_copy(update={"ranks": 1})
    folder.spec.write_text(spec.to_json(), encoding="utf-8")
    run(folder, interrupted=lambda: False)
    return folder


def records_of(folder):
    if not folder.events.exists():
        return []
    lines = folder.events.read_text("utf-8").split("\n")[:-1]
    return [decode(line).record for line in lines]


def updates_of(folder):
    return [record for record in records_of(folder) if isinstance(record, Update)]


def one(kind, folder):
    (record,) = [record for record in records_of(folder) if isinstance(record, kind)]
    return record


def numbers_of(folder):
    """Everything that was computed, bit by bit, and nothing that was timed."""
    return [
        (record.window, record.loss, record.gradient_norm, record.record_digest)
        if isinstance(record, Update)
        else (record.split, record.index, record.loss)
        for record in records_of(folder)
        if isinstance(record, Update | Evaluation)
    ]


def files_of(folder):
    return sorted(str(path.relative_to(folder.path)) for path in folder.path.rglob("*"))


def processes_of(folder):
    """Every live process that was told the folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(folder.path) in (process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def ranks_of(folder):
    return {
        process.info["cmdline"][-1]: process
        for process in processes_of(folder)
        if "sweeper.trial.rank" in process.info["cmdline"]
    }


def test_two_ranks_complete_a_trial_and_leave_the_files_that_one_leaves(completed, alone):
    assert records_of(completed)[-1].reason is Reason.BUDGET_REACHED
    assert updates_of(completed)[-1].target_tokens_read == BUDGET
    assert files_of(completed) == sorted([*files_of(alone), "stderr.log"])
    assert one(Started, completed).environment["ranks"] == "2"
    assert one(Started, alone).environment["ranks"] == "1"


def test_both_start_from_the_same_weights_and_read_the_same_records(completed, alone):
    """Each rank draws its own dropout, so losses are equal before the first update only."""
    assert one(Started, completed).initial_digest == one(Started, alone).initial_digest
    assert numbers_of(completed)[:2] == numbers_of(alone)[:2]
    assert [update.record_digest for update in updates_of(completed)] == [
        update.record_digest for update in updates_of(alone)
    ]


def test_the_history_has_one_line_of_phases_and_says_who_wrote_to_the_log(completed):
    phases = [line for line in completed.events.read_text().splitlines() if '"phase"' in line]

    assert '"loading", "seconds": {}' in phases[0]
    assert '"ending"' in phases[-1]
    assert len([line for line in phases if '"loading", "seconds"' in line]) == 1


def test_signal_15_to_the_group_leaves_one_checkpoint_of_the_last_window(preempted):
    records = records_of(preempted)
    last = updates_of(preempted)[-1].window

    assert records[-1].reason is Reason.PREEMPTED
    made = [record for record in records if isinstance(record, CheckpointMade)]
    assert [record.window for record in made][-1] == last
    assert len({record.window for record in made}) == len(made)
    assert not any(isinstance(record, Artifact) for record in records)


def test_a_trial_on_two_ranks_goes_on_to_the_bit(preempted, completed, shared, start):
    resuming = shared.model_copy(update={"attempt": 2, "resume_from": str(preempted.path)})

    child, resumed = start(resuming)

    assert child.wait(120) == 0, resumed.stderr.read_text()
    assert one(Resumed, resumed).after_window == updates_of(preempted)[-1].window
    assert one(Resumed, resumed).differences == ()
    assert numbers_of(preempted) + numbers_of(resumed) == numbers_of(completed)
    weights = [folder.adapter / "adapter_model.safetensors" for folder in (resumed, completed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_going_on_with_another_number_of_ranks_is_refused_and_both_are_named(
    preempted, shared, attempt
):
    changes = {"attempt": 2, "resume_from": str(preempted.path), "ranks": 1}
    folder = attempt(shared.model_copy(update=changes))

    run(folder, interrupted=lambda: False)

    assert one(Outcome, folder).reason is Reason.CODE_ERROR
    assert "the number of ranks was 2, now 1" in one(Outcome, folder).detail
    assert updates_of(folder) == []


def test_asked_to_it_goes_on_with_another_number_of_ranks_and_is_marked(preempted, shared, attempt):
    changes = {"attempt": 2, "resume_from": str(preempted.path), "ranks": 1}
    folder = attempt(shared.model_copy(update=changes | {"resume_elsewhere": True}))

    run(folder, interrupted=lambda: False)

    assert one(Outcome, folder).reason is Reason.BUDGET_REACHED
    assert one(Resumed, folder).differences == ("the number of ranks was 2, now 1",)
    assert updates_of(folder)[0].window == updates_of(preempted)[-1].window + 1


def test_a_rank_that_is_killed_ends_the_attempt_within_seconds_and_leaves_no_process(bench, start):
    child, folder = start(bench.spec(budget=100_000, ranks=2))
    within(120, lambda: updates_of(folder))
    ranks = ranks_of(folder)
    listening = {
        connection.laddr.ip
        for rank in ranks.values()
        for connection in rank.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    interfaces = [rank.environ()["GLOO_SOCKET_IFNAME"] for rank in ranks.values()]
    began = time.monotonic()

    ranks["1"].kill()

    assert child.wait(60) == 1
    assert time.monotonic() - began < 10
    assert one(Outcome, folder).reason is Reason.KILLED
    assert one(Outcome, folder).detail == "rank 1: killed by SIGKILL, which sweeper did not send"
    assert processes_of(folder) == []
    assert not folder.meeting.exists()
    assert (listening, interfaces) == ({"127.0.0.1"}, ["lo", "lo"]), "who can reach the ranks"


@pytest.fixture
def loading(bench, start):
    """An attempt whose ranks have begun to load their libraries."""
    child, folder = start(bench.spec(ranks=2))
    within(120, lambda: len(ranks_of(folder)) == 2)
    return child, folder


def test_killing_the_group_leaves_no_rank(loading):
    child, folder = loading
    groups = {os.getpgid(rank.pid) for rank in ranks_of(folder).values()}

    os.killpg(child.pid, signal.SIGKILL)

    assert groups == {child.pid}

    within(5, lambda: not processes_of(folder))


def test_ranks_end_when_the_process_that_started_them_is_gone(loading):
    child, folder = loading

    child.kill()

    within(10, lambda: not processes_of(folder))


def test_what_stops_a_rank_is_said_on_its_standard_output_before_it_leaves(tmp_path):
    """There is no spec in the folder."""
    argv = [sys.executable, "-m", "sweeper.trial.rank", str(tmp_path), "1"]

    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    outcome = decode(done.stdout.decode()).record
    assert done.returncode == 1
    assert outcome.reason is Reason.CODE_ERROR
    assert outcome.evidence["error"] == "FileNotFoundError"
    assert outcome.evidence["traceback"].startswith("Traceback")
