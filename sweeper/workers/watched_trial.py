"""One trial's processes, from the start of the first until the end of the last.

Everything below the supervisor belongs to its one trial, see `process_tree`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

import psutil

from sweeper.records import Phase
from sweeper.study.folder import StudyFolder
from sweeper.trial.folder import AttemptFolder
from sweeper.workers import process_tree
from sweeper.workers.device_watch import DeviceWatch, Usage
from sweeper.workers.disk import folder_bytes, free_bytes
from sweeper.workers.gpus import VARIABLE, DriverSession
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.limits import (
    TrialLimits,
    device_memory_excess,
    disk_excess,
    host_memory_excess,
    silence_excess,
    wall_clock_excess,
)
from sweeper.workers.liveness import started_at
from sweeper.workers.silence import Silence
from sweeper.workers.supervision import Cause, Supervision

_log = logging.getLogger(__name__)

SAMPLE_SECONDS = 0.5
"""Between two looks at the memory of the tree and at the folder; a shorter spike can be missed."""
HEARTBEAT_SECONDS = 2.0
MEMORY_SECONDS = 30.0
"""For the memory of a trial's GPUs to be back, once its last process is gone."""
LEFTOVER_GRACE_SECONDS = 2.0
"""For processes that outlive the trial's first one."""
AFTER_CHECKPOINT_SECONDS = 5.0
"""For a trial that has written the checkpoint which it was waited for, to leave by itself."""
STDERR_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to start.

    Attributes:
        argv: Program and arguments.
        environment: Added to the supervisor's own.
    """

    folder: AttemptFolder
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    limits: TrialLimits


class TrialProcess(Protocol):
    """The first process of a trial, a child of this one, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int:
        """Its process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal, as `poll` last saw it; None while it runs."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """The pipe by which it learns that we are gone."""
        ...

    def poll(self) -> int | None:
        """Returns the exit status once it has ended; takes it from the system."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    cause: Cause
    detail: str
    kill_at: float
    kill_checkpoint_at: float

    def not_after(self, other: _Ending) -> _Ending:
        """Returns the same ending, with the kill brought forward where the other's is earlier."""
        return replace(
            self,
            kill_at=min(self.kill_at, other.kill_at),
            kill_checkpoint_at=min(self.kill_checkpoint_at, other.kill_checkpoint_at),
        )


def start_cold(order: Order) -> TrialProcess:
    """Starts the trial in a session of its own; its standard input closes when we are gone.

    Raises:
        OSError: The operating system refuses.
    """
    with order.folder.stdout.open("ab") as out, order.folder.stderr.open("ab") as err:
        return subprocess.Popen(
            order.argv,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            cwd=order.folder.path,
            env={**os.environ, **order.environment},
            start_new_session=True,
        )


class WatchedTrial:
    """A running trial. The caller looks at it several times a second.

    Args:
        driver: The GPUs' driver, where the caller keeps it open from trial to trial.
        start: Starts the trial's first process.
        besides: Processes below this one that are not the trial's.

    Raises:
        OSError: The operating system refuses to start it.
    """

    def __init__(
        self,
        order: Order,
        *,
        driver: DriverSession | None = None,
        start: Callable[[Order], TrialProcess] = start_cold,
        besides: Callable[[], Collection[psutil.Process]] = tuple,
    ) -> None:
        self._order = order
        self._began = self._sampled = self._beat = time.monotonic()
        self._began_at = datetime.now(UTC)
        self._kills_before = process_tree.out_of_memory_kills()
        self._silence = Silence(order.folder.events, now=self._began)
        self._ending: _Ending | None = None
        self._leave_by = 0.0
        self._memory_bytes = self._peak_memory_bytes = 0
        self._disk_bytes = 0
        self._devices = _device_watch(order, driver or DriverSession())
        self._gone: tuple[float, datetime] | None = None
        self._memory_left: str | None = None
        self._usage: Usage | None = None
        self._peak_device_memory_bytes: int | None = None
        self._leftovers = 0
        self._besides = besides
        self._process = start(order)
        self.pid = self._process.pid
        self.started_at = started_at(self.pid)
        self._write_heartbeat()

    @property
    def folder(self) -> Path:
        """The attempt's folder."""
        return self._order.folder.path

    def stop(self, cause: Cause, detail: str, *, grace_seconds: float) -> None:
        """Does what `end` does, and leaves a checkpoint that is being written time to be finished.

        The grace is for the window that is being trained; what makes it worth while comes after.
        """
        patience = self._order.limits.checkpoint_seconds
        self._end(cause, detail, grace_seconds, grace_seconds + patience)

    def end(self, cause: Cause, detail: str, *, grace_seconds: float) -> None:
        """Asks every process of the trial to end and kills what is left after the grace.

        The first cause stands; a later request can only bring the kill forward.
        """
        self._end(cause, detail, grace_seconds, grace_seconds)

    def _end(
        self, cause: Cause, detail: str, grace_seconds: float, checkpoint_seconds: float
    ) -> None:
        now = time.monotonic()
        asked = _Ending(
            cause=cause,
            detail=detail,
            kill_at=now + grace_seconds,
            kill_checkpoint_at=now + checkpoint_seconds,
        )
        if self._ending is None:
            self._ending = asked
            process_tree.send(self._processes(), signal.SIGTERM)
        else:
            self._ending = self._ending.not_after(asked)

    def look(self) -> Supervision | None:
        """Enforces the limits; returns how the trial ended once no process of it is left."""
        now = time.monotonic()
        running = self._process.poll() is None
        if running:
            self._sample(now)
        if running and self._ending is None:
            self._enforce(now)
        if not running and self._is_gone():
            return self.supervision() if self._memory_is_back(now) else None
        if self._ending is not None and now >= self._kill_at(self._ending, now):
            self._kill()
        return None

    def _kill_at(self, ending: _Ending, now: float) -> float:
        """Returns when what is left is killed, by what the trial is busy with now."""
        self._silence.seconds(now)  # follows the phase
        if self._silence.phase is Phase.CHECKPOINTING:
            self._leave_by = now + AFTER_CHECKPOINT_SECONDS
            return ending.kill_checkpoint_at
        return min(max(ending.kill_at, self._leave_by), ending.kill_checkpoint_at)

    def supervision(self) -> Supervision:
        """Returns how it ended, as far as is known, and leaves it in the attempt's folder."""
        if left := len(self._processes()):
            _log.warning("%s: %d killed processes have not gone yet", self.folder, left)
        supervision = self._supervision()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            supervision.write(self._order.folder.supervision)
        except OSError as error:
            _log.warning("%s: %s", self._order.folder.supervision, error)
        return supervision

    def _sample(self, now: float) -> None:
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            process_tree.collect_orphans(besides=self.pid)
            processes = self._processes()
            self._memory_bytes = process_tree.tree_memory_bytes(processes)
            self._look_at_devices({process.pid for process in processes})
            self._peak_memory_bytes = max(self._peak_memory_bytes, self._memory_bytes)
            if self._order.limits.disk_bytes is not None:
                self._disk_bytes = folder_bytes(self.folder)
        if now - self._beat >= HEARTBEAT_SECONDS:
            self._beat = now
            self._write_heartbeat()

    def _processes(self) -> list[psutil.Process]:
        return process_tree.descendants(besides=self._besides())

    def _look_at_devices(self, processes: set[int]) -> None:
        usage = None if self._devices is None else self._devices.look(processes)
        if usage is not None:
            self._usage = usage
            peak = self._peak_device_memory_bytes or 0
            self._peak_device_memory_bytes = max(peak, usage.held_bytes)

    def _enforce(self, now: float) -> None:
        allowed, silent_seconds = self._order.limits, self._silence.seconds(now)
        grace = allowed.grace_seconds
        if excess := host_memory_excess(allowed, self._memory_bytes):
            self.end(Cause.HOST_MEMORY, excess, grace_seconds=0)  # it may still be growing
        elif excess := device_memory_excess(allowed, self._usage.held_bytes if self._usage else 0):
            self.end(Cause.DEVICE_MEMORY, excess, grace_seconds=0)
        elif excess := disk_excess(allowed, self._disk_bytes):
            self.end(Cause.DISK, excess, grace_seconds=0)  # one more checkpoint would not fit
        elif excess := wall_clock_excess(allowed, now - self._began):
            self.stop(Cause.WALL_CLOCK, excess, grace_seconds=grace)
        elif excess := silence_excess(allowed, silent_seconds, self._silence.phase):
            self.end(Cause.HUNG, excess, grace_seconds=grace)

    def _is_gone(self) -> bool:
        process_tree.collect_orphans(besides=None)
        left = self._processes()
        if not left:
            return True
        if self._leftovers == 0:
            self._leftovers = len(left)
            detail = self._ending.detail if self._ending else ""
            self.end(Cause.EXITED, detail, grace_seconds=LEFTOVER_GRACE_SECONDS)
        return False

    def _memory_is_back(self, now: float) -> bool:
        """Says whether the next trial finds its GPUs as this one did, or has waited for long."""
        self._gone = self._gone or (now, datetime.now(UTC))
        left = None if self._devices is None else self._devices.not_back()
        if left is None:
            return True
        if now - self._gone[0] < MEMORY_SECONDS:
            return False
        self._memory_left = f"{left}, {MEMORY_SECONDS:g} s after the last process of it was gone"
        _log.warning("%s: %s", self.folder, self._memory_left)
        return True

    def _kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        process_tree.send(self._processes(), signal.SIGKILL)

    def _supervision(self) -> Supervision:
        status, ending, usage = self._process.returncode, self._ending, self._usage
        gone_at, ended_at = self._gone or (time.monotonic(), datetime.now(UTC))
        limits = self._order.limits
        return Supervision(
            cause=ending.cause if ending else Cause.EXITED,
            detail=ending.detail if ending else "",
            pid=self.pid,
            started_at=self.started_at,
            exit_status=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            wall_seconds=gone_at - self._began,
            peak_memory_bytes=self._peak_memory_bytes,
            leftovers=self._leftovers,
            out_of_memory_kills=_rise(self._kills_before, process_tree.out_of_memory_kills()),
            peak_device_memory_bytes=self._peak_device_memory_bytes,
            crowding=usage.crowding(limits.device_memory_bytes) if usage else None,
            memory_left=self._memory_left,
            disk_bytes=folder_bytes(self.folder),
            free_disk_bytes=free_bytes(self.folder),
            needed_disk_bytes=limits.needed_disk_bytes or None,
            stderr_tail=tail_of(self._order.folder.stderr),
            supervisor_pid=os.getpid(),
            supervisor_started_at=started_at(os.getpid()),
            began_at=self._began_at,
            ended_at=ended_at,
        )

    def _write_heartbeat(self) -> None:
        beat = Heartbeat(
            at=datetime.now(UTC),
            began_at=self._began_at,
            pid=self.pid,
            started_at=self.started_at,
            supervisor_pid=os.getpid(),
            supervisor_started_at=started_at(os.getpid()),
            wall_seconds=time.monotonic() - self._began,
            memory_bytes=self._memory_bytes,
            peak_memory_bytes=self._peak_memory_bytes,
        )
        try:
            beat.write(self._order.folder.heartbeat)
        except OSError as error:
            _log.warning("%s: %s", self._order.folder.heartbeat, error)


def not_started(order: Order, error: OSError) -> Supervision:
    """Returns the supervision of a trial that the operating system refused to start."""
    return called_off(Cause.NOT_STARTED, f"{order.argv[0]} could not be started: {error}")


def called_off(cause: Cause, detail: str) -> Supervision:
    """Returns the supervision of a trial that never had a process."""
    now = datetime.now(UTC)
    return Supervision(
        cause=cause,
        detail=detail,
        pid=None,
        started_at=None,
        exit_status=None,
        signal=None,
        wall_seconds=0.0,
        peak_memory_bytes=0,
        supervisor_pid=os.getpid(),
        supervisor_started_at=started_at(os.getpid()),
        began_at=now,
        ended_at=now,
    )


def _device_watch(order: Order, driver: DriverSession) -> DeviceWatch | None:
    """Returns the watch over the trial's GPUs; None for a trial that has none."""
    devices, study = order.environment.get(VARIABLE, ""), StudyFolder.of_attempt(order.folder.path)

    def is_sibling(number: int) -> bool:
        return process_tree.is_below(number, study.path)

    return DeviceWatch(devices, driver, is_sibling=is_sibling) if devices else None


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def tail_of(file: Path) -> str:
    """Returns the end of what a log holds; empty where there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - STDERR_TAIL_BYTES))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
