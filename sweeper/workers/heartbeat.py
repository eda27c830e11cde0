"""The sign of life that a supervisor leaves in an attempt's folder. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sweeper.files import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A trial as its supervisor saw it last.

    Attributes:
        at: When that was, UTC.
        began_at: When the trial was started, UTC.
        pid: Of the trial's first process.
        started_at: Its start time, see `liveness.started_at`.
        wall_seconds: Monotonic seconds since the start.
        memory_bytes: Proportional set size of the process tree.
    """

    at: datetime
    began_at: datetime
    pid: int
    started_at: float | None
    supervisor_pid: int
    supervisor_started_at: float | None
    wall_seconds: float
    memory_bytes: int
    peak_memory_bytes: int

    @classmethod
    def read(cls, file: Path) -> Heartbeat | None:
        """Returns what `write` left in `file`, or None when it does not exist.

        Raises:
            ValueError: The file is not one of ours.
        """
        try:
            plain = json.loads(file.read_text("utf-8"))
            times = {name: datetime.fromisoformat(plain[name]) for name in ("at", "began_at")}
            return cls(**plain | times)
        except FileNotFoundError:
            return None
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a heartbeat: {file}") from error

    def write(self, file: Path) -> None:
        """Replaces `file` in one go, without waiting for the disk.

        Raises:
            OSError: The disk is full or the folder is gone.
        """
        times = {"at": self.at.isoformat(), "began_at": self.began_at.isoformat()}
        text = json.dumps(dataclasses.asdict(self) | times, allow_nan=False)
        write_whole(file, text, durable=False)
