"""What an attempt at a trial has written for people, while it writes and afterwards."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, NotFound, StoreUnavailable
from sweeper.report.recorded import check_trial, reading, run_folder
from sweeper.store.plain import readable
from sweeper.store.reading import Row
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.liveness import host_name, is_alive

LOOK_SECONDS = 0.3
"""Between two looks at a log that is being written."""

_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLog:
    """The log of one attempt.

    Attributes:
        study: The study as it was named.
    """

    study: str | Path
    trial: str
    attempt: int
    path: Path


def attempt_log(study: str | Path, trial: str, *, attempt: int | None = None) -> AttemptLog:
    """Returns the log of an attempt at a trial, of the latest one if none is named.

    Raises:
        NotFound: There is no such study, trial or attempt, or the trial has not begun.
    """
    with reading(study) as store:
        check_trial(store, trial)
        attempts = store.attempts(trial)
    numbers = [int(str(row["attempt"])) for row in attempts]
    number = attempt if attempt is not None or not numbers else numbers[-1]
    if number is None or number not in numbers:
        raise NotFound(
            Fault(
                what="the trial has not begun" if number is None else f"it has no attempt {number}",
                where=trial,
                expected=", ".join(map(str, numbers)) or None,
                hint="`sweeper status` shows what runs",
            )
        )
    row = attempts[number - 1]
    folder = AttemptFolder(run_folder(study).path / str(row["folder"]))
    if row["host"] != host_name() and not folder.path.exists():
        raise NotFound(
            Fault(
                what=f"attempt {number} ran on another host, and its log is on a disk of that one",
                where=trial,
                got=str(row["host"]),
                hint="Ask there",
            )
        )
    return AttemptLog(study=study, trial=trial, attempt=number, path=folder.stderr)


def is_written(log: AttemptLog) -> bool:
    """Says whether more may come: the attempt has not ended, and its owner is not known dead.

    A trial goes on without its database: while that is away nobody knows better.
    """
    try:
        with reading(log.study) as store:
            row = store.attempts(log.trial)[log.attempt - 1]
    except StoreUnavailable:
        return True
    return row["ended_at"] is None and _owner_lives(row) is not False


def lines(
    log: AttemptLog, *, follow: bool = False, pause: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Yields the log's text piece by piece, control characters written out.

    Args:
        follow: Go on until the attempt has ended.
        pause: Waits for so many seconds between two looks.

    Raises:
        OSError: The log cannot be read.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    place = 0
    goes_on = True
    while goes_on:
        goes_on = follow and is_written(log)  # asked before the rest is read, so that it is all
        while piece := _read(log.path, place):
            place += len(piece)
            yield readable(decoder.decode(piece))
        if goes_on:
            pause(LOOK_SECONDS)
    yield readable(decoder.decode(b"", final=True))


def _read(path: Path, place: int) -> bytes:
    """Returns what stands from `place` on; nothing where no log is yet."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(place)
        return file.read(_CHUNK_BYTES)


def _owner_lives(row: Row) -> bool | None:
    host, pid = str(row["host"]), int(str(row["pid"]))
    return is_alive(host, pid, str(row["process_started_at"]))
