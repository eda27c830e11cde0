"""What an engine has to offer: to run a command on some node, to say whether it runs, to end it.

To add one: a class that keeps these promises, its line in `choosing` and in the list of
`tests/contracts/test_launchers.py`. What all launchers over engines share is in `engine_launcher`.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from sweeper.trial.folder import AttemptFolder


class EngineSilent(OSError):
    """The engine did not answer; to ask again may help."""


class JobState(StrEnum):
    """What an engine says of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The engine did not answer, or cannot tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as its engine sees it.

    Attributes:
        detail: The engine's own words, as a sentence: `Slurm says NODE_FAIL, exit 0:9`.
    """

    state: JobState
    detail: str


class Engine(Protocol):
    """Runs commands on the nodes of a cluster. Methods may be called from several threads."""

    @property
    def kind(self) -> str:
        """Its name in a study file: `slurm`."""
        ...

    def submit(self, *, name: str, folder: AttemptFolder, command: tuple[str, ...]) -> str:
        """Hands the job over and returns the id by which the engine knows it. Does not wait.

        The engine never starts it a second time by itself.

        Raises:
            EngineSilent: The engine does not answer. It may have taken the job nevertheless.
            OSError: It does not take such a job.
        """
        ...

    def look(self, job_id: str) -> Job:
        """Returns how the job stands. Cheap, or cached: asked several times a second per job."""
        ...

    def find(self, name: str) -> str | None:
        """Returns the id of a job of that name that has not ended, or None.

        Raises:
            EngineSilent: The engine does not answer.
        """
        ...

    def cancel(self, job_id: str) -> None:
        """Ends the job: signal 15, then 9, or its removal from the queue. Does not wait.

        An engine that does not answer is no error: `look` tells.
        """
        ...

    def close(self) -> None:
        """Gives back connections; leaves jobs alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long is waited for what is late.

    Attributes:
        file_seconds: For files that a node wrote before its job ended, to be seen here.
        silence_seconds: Without a heartbeat, after which no process of a lost job writes any more.
        obey_seconds: For a node to obey a request, before the engine is asked to end the job.
        engine_seconds: For the engine to end a job, before one that does not answer is given up.
    """

    file_seconds: float = 20.0
    silence_seconds: float = 20.0
    obey_seconds: float = 5.0
    engine_seconds: float = 60.0


def job_name(folder: AttemptFolder) -> str:
    """Returns the name of the attempt's job: unique in a cluster, and readable in its queue."""
    path = folder.path.resolve()
    run = path.parents[3]
    digest = hashlib.sha256(os.fsencode(run)).hexdigest()[:8]
    readable = f"sweeper-{run.name}-{path.parents[1].name}-{path.name}-{digest}"
    return re.sub(r"[^A-Za-z0-9_.-]", "-", readable)
