"""Stands in for a trial: `child.py BEHAVIOUR FOLDER`. Real processes with real ends, no torch."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from sweeper.records import Evaluation, Outcome, Phase, PhaseBegun, Reason, Update
from sweeper.trial.events import EventLog
from sweeper.trial.interruption import Interruption, end_without_parent

FOREVER = 600
MEBIBYTE = 1 << 20


def update(*, target_tokens_read: int) -> Update:
    return Update(
        window=1,
        updates=1,
        first_record=0,
        records=2,
        record_digest="00",
        target_tokens=target_tokens_read,
        target_tokens_read=target_tokens_read,
        target_tokens_applied=target_tokens_read,
        input_tokens=20,
        padding_tokens=0,
        learning_rate=0.1,
        loss=2.5,
        gradient_norm=1.0,
        clipped=False,
        ran=True,
        skip=None,
        seconds=0.1,
        peak_memory_bytes=1,
    )


def evaluation(*, loss: float) -> Evaluation:
    return Evaluation(
        split="validation",
        index=1,
        window=1,
        target_tokens_read=10,
        updates=1,
        loss=loss,
        target_tokens=7,
        records=3,
        set_digest="00",
        dtype="float32",
        micro_batch=1,
        seconds=0.1,
    )


def complete(log: EventLog, *, loss: float = 2.0) -> None:
    """Ten target tokens read, an evaluation, the last word."""
    log.emit(update(target_tokens_read=10))
    log.emit(evaluation(loss=loss))
    log.emit(Outcome(reason=Reason.BUDGET_REACHED, detail="read 10 of 10 target tokens"))
    log.close()


def completes(log: EventLog) -> int:
    complete(log)
    return 0


def claims_completion_with_nan(log: EventLog) -> int:
    complete(log, loss=float("nan"))
    return 0


def reports_a_code_error(log: EventLog) -> int:
    log.emit(Outcome(reason=Reason.CODE_ERROR, detail="ValueError: no such layer"))
    return 1


def exits_3_after_metrics(log: EventLog) -> int:
    log.emit(update(target_tokens_read=10))
    log.emit(evaluation(loss=2.0))
    return 3


def exits_0_without_result(_log: EventLog) -> int:
    return 0


def allocates_memory(_log: EventLog) -> int:
    hoard = [bytearray(b"x" * (8 * MEBIBYTE)) for _ in range(25) if time.sleep(0.02) is None]
    time.sleep(FOREVER)
    return len(hoard)


def fills_its_folder(log: EventLog) -> int:
    """With 64 KiB at a time, two folders below it, until somebody ends it."""
    place = Path(sys.argv[2]) / "checkpoints" / "00000001"
    place.mkdir(parents=True)
    for number in range(FOREVER):
        (place / str(number)).write_bytes(b"x" * (64 << 10))
        time.sleep(0.05)
    log.close()
    return 0


def finds_the_disk_full(_log: EventLog) -> int:
    return 74


def runs_out_of_device_memory(log: EventLog) -> int:
    """After a second, in which its supervisor has looked."""
    time.sleep(1.2)
    log.emit(Outcome(reason=Reason.DEVICE_MEMORY, detail="OutOfMemoryError: CUDA out of memory"))
    return 1


def kills_itself(log: EventLog) -> int:
    log.emit(update(target_tokens_read=4))
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def segfaults(_log: EventLog) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return len(ctypes.string_at(0))


def floods_stderr(log: EventLog) -> int:
    line = b"a warning that nobody reads\n" * 4096
    for _ in range(100):
        os.write(2, line)
    os.write(2, b"the last line\n")
    complete(log)
    return 0


def hangs_in_training(log: EventLog) -> int:
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    time.sleep(FOREVER)
    return 0


def saves_for_2_seconds(log: EventLog) -> int:
    log.emit(PhaseBegun(phase=Phase.SAVING))
    time.sleep(2)
    complete(log)
    return 0


def writes_a_checkpoint_when_asked(log: EventLog) -> int:
    """For two seconds; then it ends in order."""
    interruption = Interruption()
    interruption.listen()
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    while not interruption.is_asked():
        time.sleep(0.02)
    log.emit(PhaseBegun(phase=Phase.CHECKPOINTING))
    time.sleep(2)
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    time.sleep(0.5)
    log.emit(Outcome(reason=Reason.PREEMPTED, detail="asked to end"))
    return 0


def writes_a_checkpoint_for_ever(log: EventLog) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log.emit(PhaseBegun(phase=Phase.CHECKPOINTING))
    time.sleep(FOREVER)
    return 0


def ends_when_asked(log: EventLog) -> int:
    interruption = Interruption()
    interruption.listen()
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    while not interruption.is_asked():
        time.sleep(0.02)
    log.emit(Outcome(reason=Reason.PREEMPTED, detail="asked to end"))
    return 0


def watches_its_parent(log: EventLog) -> int:
    end_without_parent(0)
    _start_grandchild(own_session=True)
    subprocess.run(["sh", "-c", "sleep 600 & exit"], check=True)  # of its group, but no child
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    time.sleep(FOREVER)
    return 0


def defies_signal_15_with_grandchildren(log: EventLog) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _start_grandchild(own_session=False)
    _start_grandchild(own_session=True)
    log.emit(PhaseBegun(phase=Phase.TRAINING))
    time.sleep(FOREVER)
    return 0


def leaves_a_grandchild_behind(log: EventLog) -> int:
    _start_grandchild(own_session=True)
    complete(log)
    return 0


def shows_its_surroundings(log: EventLog) -> int:
    sys.stdout.write(f"{os.environ['CUDA_VISIBLE_DEVICES']!r} {os.environ['OMP_NUM_THREADS']}\n")
    sys.stdout.write(f"{os.getpgrp() == os.getpid()} {Path.cwd()}\n")
    complete(log)
    return 0


def _start_grandchild(*, own_session: bool) -> None:
    """Starts a process that ignores signal 15, and returns once it does."""
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"print('ready', flush=True); time.sleep({FOREVER})"
    )
    started = subprocess.Popen(
        [sys.executable, "-S", "-c", code], start_new_session=own_session, stdout=subprocess.PIPE
    )
    assert started.stdout is not None
    started.stdout.readline()


def main() -> int:
    behaviour, folder = sys.argv[1:]
    log = EventLog(Path(folder) / "events.jsonl")
    return int(globals()[behaviour](log))


if __name__ == "__main__":
    sys.exit(main())
