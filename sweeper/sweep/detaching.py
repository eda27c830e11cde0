"""A coordinator that outlives the terminal it was started from.

It has a session of its own, which no terminal can hang up on, and writes for people into a file of
the run folder.
"""

from __future__ import annotations

import codecs
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.study.folder import StudyFolder
from sweeper.sweep.coordinator import has_begun, only_coordinator

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """A coordinator that was started.

    Attributes:
        process: The caller's to wait for, if it stays.
        folder: The run folder of its study.
        log: What it writes for people.
        place: Where in the log it began, in bytes.
    """

    process: subprocess.Popen[bytes]
    folder: StudyFolder
    log: Path
    place: int


def start_detached(command: Sequence[str], folder: StudyFolder) -> Detached:
    """Starts a coordinator; whoever runs the study already keeps its log to itself.

    Args:
        command: What coordinates the study of the run folder.

    Raises:
        StudyBusy: Another process coordinates the study.
        RunFolderError: The run folder or the log cannot be written.
    """
    with only_coordinator(folder):
        pass  # nobody is at it, and the run folder is there
    log = folder.run_log
    try:
        folder.logs.mkdir(exist_ok=True)
        with log.open("ab") as out:
            place = log.stat().st_size
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
    return Detached(process=process, folder=folder, log=log, place=place)


def wait_for_beginning(detached: Detached, *, tell: Callable[[str], None]) -> int | None:
    """Waits until the coordinator has founded the study, found its slots and runs its trials.

    Args:
        tell: Gets every line that the coordinator writes until then, or until it ends.

    Returns:
        None once it runs trials; the exit status of one that ended before, negative: the signal.
    """
    process, said = detached.process, _Said(detached.log, detached.place, tell)
    while process.poll() is None and not has_begun(detached.folder, process.pid):
        said.tell_news()
        time.sleep(_LOOK_SECONDS)
    if process.returncode is not None:
        said.tell_news()
        said.tell_rest()
    return process.returncode


@dataclass(slots=True)
class _Said:
    """What stands in the log from `place` on, told line by line."""

    log: Path
    place: int
    tell: Callable[[str], None]
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("backslashreplace")
    )
    _rest: str = ""

    def tell_news(self) -> None:
        """Tells the lines that are whole by now."""
        with self.log.open("rb") as file:
            file.seek(self.place)
            news = file.read()
        self.place += len(news)
        *lines, self._rest = (self._rest + self._decoder.decode(news)).split("\n")
        for line in lines:
            self.tell(line)

    def tell_rest(self) -> None:
        """Tells the last line, if nobody has ended it."""
        if self._rest:
            self.tell(self._rest)
