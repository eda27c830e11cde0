"""A coordinator that outlives the terminal it was started from.

It has a session of its own, which no terminal can hang up on, and writes for people into a file of
the run folder.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.study.folder import StudyFolder

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """A coordinator that was started.

    Attributes:
        process: The caller's to wait for, if it stays.
        log: What it writes for people.
        said: What it wrote there before it ended; empty while it runs.
    """

    process: subprocess.Popen[bytes]
    log: Path
    said: str = ""


def start_detached(command: Sequence[str], folder: StudyFolder) -> Detached:
    """Starts a coordinator; returns once it coordinates the study, or has ended.

    Args:
        command: What coordinates the study of the run folder.

    Raises:
        RunFolderError: The log cannot be written.
    """
    log = folder.logs / "run.log"
    try:
        folder.logs.mkdir(parents=True, exist_ok=True)
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
    except OSError as error:
        raise RunFolderError(
            Fault(what="the run folder cannot be written", where=str(log), got=str(error.strerror))
        ) from error
    while process.poll() is None and _coordinator(folder) != process.pid:
        time.sleep(_LOOK_SECONDS)
    if process.returncode is None:
        return Detached(process=process, log=log)
    said = log.read_bytes()[before:].decode("utf-8", errors="replace")
    return Detached(process=process, log=log, said=said)


def _coordinator(folder: StudyFolder) -> int | None:
    """Returns the process that holds the lock, as it says itself; None before anybody does."""
    try:
        plain = json.loads(folder.coordinator.read_text("utf-8"))
        return int(plain["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
