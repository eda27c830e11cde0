"""How an attempt's process ended, as seen from beside it. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sweeper.files import write_whole


class Cause(StrEnum):
    """What set the end in motion."""

    EXITED = "exited"
    """The process ended without the supervisor's doing; its status or signal says how."""
    NOT_STARTED = "not_started"
    """The operating system refused to start the process."""
    WALL_CLOCK = "wall_clock"
    HOST_MEMORY = "host_memory"
    DEVICE_MEMORY = "device_memory"
    DISK = "disk"
    HUNG = "hung"
    STOPPED = "stopped"
    """The coordinator asked for an orderly end."""
    KILLED = "killed"
    """The coordinator asked for an end at once."""
    COORDINATOR_LOST = "coordinator_lost"
    SUPERVISOR_LOST = "supervisor_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """How one attempt's process lived and ended.

    Attributes:
        detail: The numbers behind the cause, as a sentence; empty for a process that just ended.
        pid: None when it never started.
        started_at: Start time of the process as `liveness.started_at` gives it.
        exit_status: None when a signal ended the process, or when nobody saw the end.
        signal: Number of the signal that ended the process.
        wall_seconds: Monotonic seconds from start until the last process of the trial was gone.
        peak_memory_bytes: Largest sampled proportional set size of the trial's process tree.
        leftovers: Processes that outlived the trial's first process and had to be ended.
        out_of_memory_kills: Processes that the kernel killed on this host meanwhile for want of
            memory; None where the kernel does not count them.
        peak_device_memory_bytes: Largest sampled memory of the trial's processes on its GPUs; None
            where nobody could see it.
        crowding: Who else held memory there when the trial was last seen, as a sentence; None where
            nobody took any from it.
        memory_left: What of the trial's memory on its GPUs was not back when the wait for it was
            given up, as a sentence; None where all was.
        disk_bytes: What the attempt's folder held at the end; None when nobody looked.
        free_disk_bytes: What the file system had left then.
        needed_disk_bytes: What a checkpoint and the weights take at the least.
        stderr_tail: The end of what the trial wrote for people.
        began_at: UTC.
        ended_at: UTC; when no process of the trial was left.
    """

    cause: Cause
    detail: str = ""
    pid: int | None
    started_at: float | None
    exit_status: int | None
    signal: int | None
    wall_seconds: float
    peak_memory_bytes: int
    leftovers: int = 0
    out_of_memory_kills: int | None = None
    peak_device_memory_bytes: int | None = None
    crowding: str | None = None
    memory_left: str | None = None
    disk_bytes: int | None = None
    free_disk_bytes: int | None = None
    needed_disk_bytes: int | None = None
    stderr_tail: str = ""
    supervisor_pid: int | None
    supervisor_started_at: float | None
    began_at: datetime
    ended_at: datetime

    def to_plain(self) -> dict[str, object]:
        """Returns the fields as values that JSON knows."""
        plain = dataclasses.asdict(self)
        return plain | {
            "began_at": self.began_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, object]) -> Supervision:
        """Returns what `to_plain` described.

        Raises:
            ValueError: It does not describe a supervision.
        """
        try:
            times = {n: datetime.fromisoformat(str(plain[n])) for n in ("began_at", "ended_at")}
            fields = plain | {"cause": Cause(str(plain["cause"]))} | times
            return cls(**fields)  # type: ignore[arg-type]  # the names and types are the file's
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a supervision: {plain!r}"[:400]) from error

    @classmethod
    def read(cls, file: Path) -> Supervision | None:
        """Returns what `write` left in `file`, or None when it does not exist.

        Raises:
            ValueError: The file is not one of ours.
        """
        try:
            text = file.read_text("utf-8")
        except FileNotFoundError:
            return None
        return cls.from_plain(json.loads(text))

    def write(self, file: Path) -> None:
        """Writes the supervision into `file`, which appears whole and on disk."""
        write_whole(file, json.dumps(self.to_plain(), indent=1, allow_nan=False), durable=True)
