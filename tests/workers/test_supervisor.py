"""Each way a trial can end, with a real child process, judged from what it left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweeper.records import Reason
from sweeper.workers.ending import judge, listen
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.launchers import local
from sweeper.workers.limits import TrialLimits
from sweeper.workers.liveness import started_at
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause, Supervision

CHILD = Path(__file__).parent / "child.py"
SLOT = Slot(name="cpu 1", device=None)
GPU_SLOT = Slot(name="gpu", device="GPU-a")
QUICK = TrialLimits(grace_seconds=0.3)

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("survivors")]


@pytest.fixture
def run(behaving, new_folder, said, eventually):
    """Runs one attempt to its end and returns its outcome and its supervision."""

    def to_the_end(behaviour, limits=QUICK, slot=SLOT):
        folder = new_folder()
        running = behaving(behaviour).start(folder, slot, limits)
        supervision = eventually(running.poll)
        records = [event.record for event in said(folder)]
        return judge(listen(records), supervision, planned_target_tokens=10), supervision

    return to_the_end


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """Makes supervisors see one GPU of 1000 bytes; see crowded_supervisor.py."""
    script = Path(__file__).with_name("crowded_supervisor.py")
    command = (sys.executable, str(script), str(tmp_path))
    monkeypatch.setattr(local, "_SUPERVISOR_COMMAND", command)

    def holds(*, own, others, lingers=0):
        device = {"uuid": "GPU-a", "total": 1000, "own": own, "others": others, "lingers": lingers}
        (tmp_path / "gpu.json").write_text(json.dumps([device]))

    return holds


@pytest.mark.parametrize(
    ("behaviour", "reason", "detail"),
    [
        ("completes", Reason.BUDGET_REACHED, "read 10 of 10 target tokens"),
        ("floods_stderr", Reason.BUDGET_REACHED, "read 10 of 10 target tokens"),
        ("reports_a_code_error", Reason.CODE_ERROR, "ValueError: no such layer"),
        ("kills_itself", Reason.KILLED, "killed by SIGKILL, which sweeper did not send"),
        ("segfaults", Reason.CRASHED, "crashed with SIGSEGV"),
        ("exits_0_without_result", Reason.RESULT_MISSING, "exited with 0 and said no outcome"),
        ("exits_3_after_metrics", Reason.CODE_ERROR, "exited with status 3 and said no outcome"),
        (
            "claims_completion_with_nan",
            Reason.RESULT_MISSING,
            "it claims to be complete, but its last validation loss is nan",
        ),
    ],
)
def test_a_trial_that_ends_by_itself_gets_the_reason_of_its_end(run, behaviour, reason, detail):
    outcome, supervision = run(behaviour)

    assert (outcome.reason, outcome.detail) == (reason, detail)
    assert supervision.cause is Cause.EXITED


def test_a_trial_whose_lease_is_not_renewed_ends_in_order_without_its_coordinator(
    behaving, new_folder, eventually, said
):
    """As it does for a coordinator that is frozen, which says nothing and is not gone."""
    folder = new_folder()
    running = behaving("ends_when_asked").start(folder, SLOT, TrialLimits())
    eventually(lambda: said(folder))
    running.renew(seconds=0.5)

    supervision = eventually(running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.detail == "its coordinator has not renewed its lease of 0.5 s"
    assert supervision.signal is None, "it has ended by itself"


def test_one_that_does_not_end_in_order_is_killed_when_the_lease_is_over_for_as_long_again(
    behaving, new_folder, eventually, said
):
    folder = new_folder()
    running = behaving("defies_signal_15_with_grandchildren").start(folder, SLOT, TrialLimits())
    eventually(lambda: said(folder))
    running.renew(seconds=0.5)

    assert eventually(running.poll).signal == signal.SIGKILL


def test_a_lease_that_is_renewed_ends_nothing(behaving, new_folder, eventually, said):
    folder = new_folder()
    running = behaving("saves_for_2_seconds").start(folder, SLOT, TrialLimits())
    eventually(lambda: said(folder))
    running.renew(seconds=0.5)
    running.renew(seconds=60.0)

    assert eventually(running.poll).cause is Cause.EXITED


def test_a_lease_is_that_of_one_trial(behaving, new_folder, eventually, said):
    launcher = behaving("ends_when_asked")
    first = new_folder()
    running = launcher.start(first, SLOT, TrialLimits())
    eventually(lambda: said(first))
    running.renew(seconds=0.5)
    eventually(running.poll)

    again = launcher.start(new_folder(), SLOT, TrialLimits())
    time.sleep(1.0)
    assert again.poll() is None

    again.kill()
    assert eventually(again.poll).cause is Cause.KILLED


def test_a_trial_above_the_host_memory_limit_is_killed_with_the_numbers(run):
    limits = TrialLimits(host_memory_bytes=96 << 20)

    outcome, supervision = run("allocates_memory", limits)

    assert outcome.reason is Reason.HOST_MEMORY
    assert outcome.detail.startswith("host memory of 100663296 bytes reached: the trial's")
    assert supervision.peak_memory_bytes >= 96 << 20
    assert supervision.signal in {signal.SIGTERM, signal.SIGKILL}


def test_a_trial_above_the_device_memory_limit_is_killed_with_the_numbers(run, gpu):
    gpu(own=300, others={})

    outcome, supervision = run("hangs_in_training", TrialLimits(device_memory_bytes=200), GPU_SLOT)

    assert outcome.reason is Reason.DEVICE_MEMORY
    assert outcome.detail == ("device memory of 200 bytes reached: the trial's processes hold 300")
    assert supervision.peak_device_memory_bytes == 300


def test_a_trial_on_cores_is_not_measured_on_the_gpu(run, gpu):
    gpu(own=300, others={})

    outcome, supervision = run("saves_for_2_seconds", TrialLimits(device_memory_bytes=200))

    assert outcome.reason is Reason.BUDGET_REACHED
    assert supervision.peak_device_memory_bytes is None


@pytest.mark.parametrize(
    ("others", "limit_bytes", "reason"),
    [
        ({}, None, Reason.DEVICE_MEMORY),
        ({"1": 600}, None, Reason.FOREIGN_MEMORY),
        ({"1": 600}, 500, Reason.FOREIGN_MEMORY),
        ({"1": 600}, 400, Reason.DEVICE_MEMORY),
    ],
    ids=["alone", "others", "others hold part of the limit", "others leave the limit"],
)
def test_out_of_device_memory_counts_by_who_holds_it(run, gpu, others, limit_bytes, reason):
    gpu(own=300, others=others)
    limits = TrialLimits(device_memory_bytes=limit_bytes)

    outcome, supervision = run("runs_out_of_device_memory", limits, GPU_SLOT)

    assert outcome.reason is reason
    assert outcome.detail.startswith("OutOfMemoryError: CUDA out of memory")
    assert supervision.cause is Cause.EXITED


def test_a_slot_is_free_once_the_memory_of_its_gpu_is_back(
    behaving, new_folder, gpu, eventually, survivors
):
    gpu(own=300, others={}, lingers=500)
    running = behaving("runs_out_of_device_memory").start(new_folder(), GPU_SLOT, QUICK)
    eventually(lambda: not survivors())
    time.sleep(1.0)
    assert running.poll() is None

    gpu(own=300, others={})

    assert eventually(running.poll).memory_left is None


def test_memory_that_does_not_come_back_is_waited_for_no_longer_than_agreed(
    behaving, new_folder, gpu, eventually, monkeypatch
):
    """The supervisor is told to have less patience: thirty seconds are too long for a test."""
    monkeypatch.setenv("TEST_MEMORY_SECONDS", "0.5")
    gpu(own=300, others={}, lingers=500)
    running = behaving("runs_out_of_device_memory").start(new_folder(), GPU_SLOT, QUICK)

    supervision = eventually(running.poll)

    assert supervision.memory_left == (
        "device GPU-a holds 500 bytes, 0 before the trial, 0.5 s after the last process of it was "
        "gone"
    )
    outcome = judge(listen([]), supervision, planned_target_tokens=10)
    assert outcome.evidence["device_memory_left"] == supervision.memory_left


@pytest.mark.usefixtures("gpu")
def test_a_driver_that_is_lost_ends_no_trial(run):
    """There is no `gpu.json`."""
    outcome, supervision = run("saves_for_2_seconds", QUICK, GPU_SLOT)

    assert outcome.reason is Reason.BUDGET_REACHED
    assert supervision.peak_device_memory_bytes is None


def test_a_trial_whose_folder_outgrows_its_limit_is_killed_with_the_numbers(run):
    limits = TrialLimits(disk_bytes=1 << 20, used_disk_bytes=512 << 10)

    outcome, supervision = run("fills_its_folder", limits)

    assert outcome.reason is Reason.DISK
    assert outcome.detail.startswith(
        "disk of 1048576 bytes reached: 524288 bytes in earlier attempts, "
    )
    assert 512 << 10 <= supervision.disk_bytes < 8 << 20
    assert supervision.wall_seconds < 20, "a trial over its limit writes no further checkpoint"


def test_a_trial_that_found_the_disk_full_is_told_with_the_numbers(run):
    outcome, supervision = run("finds_the_disk_full", TrialLimits(needed_disk_bytes=4096))

    assert outcome.reason is Reason.DISK
    assert outcome.evidence["free_disk_bytes"] == str(supervision.free_disk_bytes)
    assert outcome.detail.endswith("a checkpoint and the weights need at least 4096")


def test_a_trial_that_is_silent_while_training_hangs(run):
    outcome, _ = run("hangs_in_training", TrialLimits(hang_seconds=1.0, grace_seconds=0.3))

    assert outcome.reason is Reason.HUNG
    assert outcome.detail.endswith("s while training; 1 s are allowed")


def test_silence_while_saving_has_five_times_the_limit(run):
    outcome, _ = run("saves_for_2_seconds", TrialLimits(hang_seconds=1.0))

    assert outcome.reason is Reason.BUDGET_REACHED


def test_the_wall_clock_counts_what_earlier_attempts_used(run):
    limits = TrialLimits(wall_clock_seconds=3600.0, used_seconds=3599.0, grace_seconds=0.3)

    outcome, supervision = run("ends_when_asked", limits)

    assert outcome.reason is Reason.WALL_CLOCK
    assert outcome.detail.startswith("wall clock of 3600 s reached: 3599.0 s in earlier attempts")
    assert supervision.exit_status == 0


def test_a_wall_clock_that_runs_out_leaves_time_for_a_checkpoint(run):
    """Writing it takes 2 s."""
    limits = TrialLimits(wall_clock_seconds=1.0, grace_seconds=0.3)

    outcome, supervision = run("writes_a_checkpoint_when_asked", limits)

    assert outcome.reason is Reason.WALL_CLOCK
    assert supervision.exit_status == 0


def test_a_trial_that_is_silent_in_a_checkpoint_hangs_after_five_times_the_limit(run):
    limits = TrialLimits(hang_seconds=0.3, grace_seconds=0.3)

    outcome, supervision = run("writes_a_checkpoint_for_ever", limits)

    assert outcome.reason is Reason.HUNG
    assert outcome.detail.endswith("s while checkpointing; 1.5 s are allowed")
    assert supervision.wall_seconds < 20, "no checkpoint is waited for that hangs"


def test_a_group_that_defies_signal_15_is_killed_whole(run):
    """Two grandchildren ignore the signal too, one of them in a session of its own."""
    limits = TrialLimits(wall_clock_seconds=2.0, grace_seconds=0.3)

    outcome, supervision = run("defies_signal_15_with_grandchildren", limits)

    assert outcome.reason is Reason.WALL_CLOCK
    assert supervision.signal == signal.SIGKILL


def test_what_a_finished_trial_leaves_behind_is_ended_before_the_slot_is_free(run, survivors):
    outcome, supervision = run("leaves_a_grandchild_behind")

    assert outcome.reason is Reason.BUDGET_REACHED
    assert supervision.leftovers == 1
    assert survivors() == []


def test_the_end_of_stderr_is_kept(run):
    _, supervision = run("floods_stderr")

    assert supervision.stderr_tail.endswith("reads\nthe last line\n")
    assert len(supervision.stderr_tail) == 4000


def test_supervision_and_heartbeat_lie_in_the_attempts_folder(behaving, new_folder, eventually):
    folder = new_folder()
    running = behaving("completes").start(folder, SLOT, QUICK)

    supervision = eventually(running.poll)

    assert Supervision.read(folder.supervision) == supervision
    beat = Heartbeat.read(folder.heartbeat)
    assert (beat.pid, beat.started_at) == (running.pid, running.started_at)
    assert supervision.began_at < supervision.ended_at


@pytest.fixture
def supervisor(new_folder):
    """A supervisor that this test talks to itself, with a trial started on it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeper.workers.supervisor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )

    def start(behaviour):
        folder = new_folder()
        command = {
            "command": "start",
            "folder": str(folder.path),
            "argv": [sys.executable, str(CHILD), behaviour, str(folder.path)],
            "environment": {"SWEEPER_ATTEMPT": str(folder.path)},
            "limits": {"grace_seconds": 0.3},
        }
        process.stdin.write(json.dumps(command).encode() + b"\n")
        process.stdin.flush()
        started = json.loads(process.stdout.readline())
        return process, folder, started

    yield start
    process.stdin.close()
    process.wait(10)
    process.stdout.close()


def test_the_supervisor_answers_with_the_identity_of_the_trial(supervisor):
    _, folder, started = supervisor("hangs_in_training")

    assert started["event"] == "started"
    assert started["folder"] == str(folder.path)
    assert started_at(started["pid"]) == started["started_at"]


def test_an_order_from_a_coordinator_that_is_gone_is_not_carried_out(new_folder, survivors):
    """Whoever came after it may have declared the attempt lost and started another."""
    folder = new_folder()
    order = {
        "command": "start",
        "folder": str(folder.path),
        "argv": [sys.executable, str(CHILD), "completes", str(folder.path)],
        "environment": {"SWEEPER_ATTEMPT": str(folder.path)},
        "limits": {"grace_seconds": 0.3},
    }

    done = subprocess.run(
        [sys.executable, "-m", "sweeper.workers.supervisor"],
        input=json.dumps(order).encode() + b"\n",
        capture_output=True,
        timeout=20,
        check=True,
    )

    assert done.stdout == b""
    assert not folder.events.exists()
    assert survivors() == []


def test_a_killed_supervisor_takes_its_trial_along(supervisor, said, survivors, eventually):
    """Nobody else is left to end it, its child in another session, and an orphan of its group."""
    process, folder, _ = supervisor("watches_its_parent")
    eventually(lambda: said(folder))

    os.kill(process.pid, signal.SIGKILL)

    eventually(lambda: survivors() == [], seconds=5)


def test_a_supervisor_whose_coordinator_is_gone_ends_the_trial_and_leaves(
    supervisor, said, survivors, eventually
):
    process, folder, _ = supervisor("defies_signal_15_with_grandchildren")
    eventually(lambda: said(folder))

    process.stdin.close()
    process.wait(5)

    assert survivors() == []
    assert Supervision.read(folder.supervision).cause is Cause.COORDINATOR_LOST


def test_a_supervisor_ended_by_signal_15_ends_its_trial_first(supervisor, said, survivors):
    process, folder, _ = supervisor("ends_when_asked")

    process.terminate()
    process.wait(5)

    assert survivors() == []
    assert Supervision.read(folder.supervision).detail.endswith("told to end (signal 15)")


def test_a_supervisor_whose_coordinator_is_gone_waits_for_no_checkpoint(
    supervisor, said, survivors, eventually
):
    process, folder, _ = supervisor("writes_a_checkpoint_for_ever")
    eventually(lambda: said(folder))

    process.stdin.close()
    process.wait(5)

    assert survivors() == []


COORDINATOR = """
import sys, time
from pathlib import Path
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot

child, folder = sys.argv[1:]
command = (sys.executable, child, "defies_signal_15_with_grandchildren")
launcher = LocalLauncher(logs=Path(folder) / "logs", trial_command=command)
launcher.start(AttemptFolder(Path(folder)), Slot(name="cpu 1", device=None), TrialLimits())
print("started", flush=True)
time.sleep(600)
"""


def test_a_killed_coordinator_leaves_no_process(new_folder, said, survivors, eventually):
    folder = new_folder()
    argv = [sys.executable, "-c", COORDINATOR, str(CHILD), str(folder.path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as coordinator:
        coordinator.stdout.readline()
        eventually(lambda: said(folder))
        supervisor = psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid)
        coordinator.kill()

        eventually(lambda: survivors() == [] and not supervisor.is_running(), seconds=10)

    assert Supervision.read(folder.supervision).cause is Cause.COORDINATOR_LOST
