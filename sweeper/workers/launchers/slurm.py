"""Attempts as Slurm jobs, by sbatch, squeue, scontrol and scancel. Needs no accounting database.

Slurm is told never to start a job again by itself; whether a cell is resumed is for the study to
decide. A job's batch script becomes the process that watches the trial, so that the signal before
a time limit, or at a preemption, reaches it and the trial writes a checkpoint.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sweeper.errors import Fault, PlanError
from sweeper.study.run_options import SlurmLauncher
from sweeper.study.sbatch import option_argument
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.engine import EngineSilent, Job, JobState
from sweeper.workers.launchers.node_environment import node_environment

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two questions to the controller, whatever the number of jobs."""
PATIENCE_SECONDS = 5.0
"""Likewise when it did not answer."""
COMMAND_SECONDS = 30.0
"""For a command of Slurm's to answer."""
WARNING_SECONDS = 180
"""Before its time limit a job is told to end: time for a window and a checkpoint."""

_STATES: Mapping[str, JobState] = MappingProxyType(
    dict.fromkeys(
        ("CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"),
        JobState.WAITING,
    )
    | dict.fromkeys(
        ("COMPLETING", "RESIZING", "RUNNING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"),
        JobState.RUNNING,
    )
    | dict.fromkeys(
        (
            "BOOT_FAIL",
            "CANCELLED",
            "COMPLETED",
            "DEADLINE",
            "FAILED",
            "NODE_FAIL",
            "OUT_OF_MEMORY",
            "PREEMPTED",
            "REVOKED",
            "TIMEOUT",
        ),
        JobState.ENDED,
    )
)
_NOT_FOR_SBATCH = frozenset(
    {"SBATCH_ARRAY_INX", "SBATCH_SIGNAL", "SBATCH_TEST_ONLY", "SBATCH_WAIT"}
)
_NOT_ASKED = Job(state=JobState.UNKNOWN, detail="Slurm was not asked yet")
_FORGOTTEN = "Invalid job id"
_NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|timed out|connect(ion)? (failure|refused)|"
    r"Zero Bytes were transmitted|Munge|temporarily|not responding|in standby",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Looks:
    """What the controller said last, and which jobs somebody still asks about."""

    said: dict[str, Job] = field(default_factory=dict)
    ended: dict[str, Job] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    again_at: float = 0.0


class Slurm:
    """Implements `engine.Engine`.

    Args:
        options: `run.launcher` of the study.
        environ: The coordinator's environment; a job gets what `node_environment` leaves of it.
        withheld: Variables that hold, or may hold, a password.
    """

    kind = "slurm"

    def __init__(
        self, options: SlurmLauncher, *, environ: Mapping[str, str], withheld: Iterable[str] = ()
    ) -> None:
        self._options = options
        self._environ = {
            **node_environment(environ, withheld=withheld),
            **_for_commands(environ, withheld),
        }
        self._looks = _Looks()
        self._lock = threading.Lock()

    def refuse_if_slurm_would(self) -> None:
        """Asks Slurm whether it would take such a job. That it does not answer is no refusal.

        Raises:
            PlanError: It would not, or its commands are not installed here.
        """
        chosen = _chosen(self._options.sbatch)
        try:
            self._call("sbatch", *chosen, "--test-only", "--output=/dev/null", "--wrap=true")
        except EngineSilent as error:
            _log.warning("Slurm does not answer: %s", error)
        except OSError as error:
            raise PlanError(_refusal(error, chosen)) from error

    def submit(self, *, name: str, folder: AttemptFolder, command: tuple[str, ...]) -> str:
        """See `engine.Engine.submit`."""
        _write_private(folder.job_script, batch_script(command, setup=self._options.setup))
        said = self._call(
            "sbatch",
            *_chosen(self._options.sbatch),
            "--parsable",
            f"--job-name={name}",
            "--no-requeue",
            "--export=ALL",  # of what sbatch itself is given
            f"--signal=B:TERM@{warning_seconds(self._options.sbatch)}",
            f"--chdir={folder.path}",
            f"--output={folder.job_log.name}",
            "--open-mode=append",
            str(folder.job_script),
        )
        job_id = said.strip().split(";")[0]
        if not job_id.isdecimal():
            raise OSError(f"sbatch said {said.strip()!r}, which is no job id")
        return job_id

    def look(self, job_id: str) -> Job:
        """See `engine.Engine.look`. One question to the controller serves all jobs of a second."""
        looks = self._looks
        if (ended := looks.ended.get(job_id)) is not None:
            return ended
        if self._lock.acquire(blocking=False):  # a controller that is slow holds up one caller
            try:
                looks.asked.add(job_id)
                if time.monotonic() >= looks.again_at:
                    self._refresh()
            finally:
                self._lock.release()
        return looks.ended.get(job_id) or looks.said.get(job_id) or _NOT_ASKED

    def find(self, name: str) -> str | None:
        """See `engine.Engine.find`."""
        said = self._call(
            "squeue", "--noheader", f"--user={os.geteuid()}", f"--name={name}", "--format=%i"
        )
        return next(iter(said.split()), None)

    def cancel(self, job_id: str) -> None:
        """See `engine.Engine.cancel`."""
        try:
            self._call("scancel", job_id)
        except OSError as error:
            _log.warning("job %s could not be cancelled: %s", job_id, error)

    def close(self) -> None:
        """See `engine.Engine.close`: there is nothing to give back."""

    def _refresh(self) -> None:
        looks = self._looks
        jobs = sorted(looks.asked)
        try:
            said = self._call(
                "squeue",
                "--noheader",
                "--states=all",
                f"--jobs={','.join(jobs)}",
                "--format=%i|%T|%r",
            )
        except OSError as error:
            said, silence = "", str(error)
            if _FORGOTTEN not in silence:
                unknown = Job(state=JobState.UNKNOWN, detail=f"Slurm does not answer: {silence}")
                looks.said = dict.fromkeys(jobs, unknown)
                looks.again_at = time.monotonic() + PATIENCE_SECONDS
                return
        rows = dict(_row(line) for line in said.splitlines())
        looks.said = {job_id: rows.get(job_id) or self._inspected(job_id) for job_id in jobs}
        for job_id, job in looks.said.items():
            if job.state is JobState.ENDED:
                looks.ended[job_id] = self._inspected(job_id)
                looks.asked.discard(job_id)
        looks.again_at = time.monotonic() + LOOK_SECONDS

    def _inspected(self, job_id: str) -> Job:
        """Asks for one job alone: how it ended, or whether Slurm has forgotten it."""
        try:
            return _described(self._call("scontrol", "--oneliner", "show", "job", job_id))
        except OSError as error:
            if _FORGOTTEN in str(error):
                said = f"Slurm does not know job {job_id} any more"
                return Job(state=JobState.ENDED, detail=said)
            return Job(state=JobState.UNKNOWN, detail=f"Slurm does not answer: {error}")

    def _call(self, *command: str) -> str:
        """Runs one of Slurm's commands and returns what it says.

        Raises:
            EngineSilent: The controller does not answer.
            OSError: The command is not installed, or refuses.
        """
        try:
            done = subprocess.run(
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EngineSilent(f"{command[0]} did not answer in {COMMAND_SECONDS:g} s") from error
        if done.returncode == 0:
            return done.stdout
        said = " ".join(done.stderr.split()) or f"ended with status {done.returncode}"
        raise (EngineSilent if _NO_ANSWER.search(said) else OSError)(f"{command[0]}: {said}")


def _refusal(error: OSError, chosen: Iterable[str]) -> Fault:
    if isinstance(error, FileNotFoundError):
        return Fault(
            what="Slurm's commands are not installed here",
            where="run.launcher",
            hint="Run the study where sbatch, squeue, scontrol and scancel are on the PATH",
        )
    return Fault(
        what=f"Slurm does not take such jobs: {error}",
        where="run.launcher.sbatch",
        got=" ".join(chosen) or "no options",
    )


def batch_script(command: tuple[str, ...], *, setup: str | None) -> str:
    """Returns the script of a job; the command takes the place of its shell."""
    prepared = ["set -e", setup.rstrip("\n"), "set +e"] if setup else []
    lines = ["#!/bin/bash", "umask 077", *prepared, f"exec {shlex.join(command)}"]
    return "\n".join(lines) + "\n"


def warning_seconds(options: Mapping[str, str | int | bool]) -> int:
    """Returns how long before its time limit a job is told to end; at most a third of the limit."""
    limit = options.get("time")
    if limit is None or isinstance(limit, bool):
        return WARNING_SECONDS
    seconds = _limit_seconds(str(limit))
    return WARNING_SECONDS if seconds is None else max(1, min(WARNING_SECONDS, seconds // 3))


def _limit_seconds(limit: str) -> int | None:
    """Reads M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; None for what is none of these."""
    days, dash, rest = limit.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() for part in ([days, *parts] if dash else parts)) or len(parts) > 3:
        return None
    units = (3600, 60, 1) if dash or len(parts) == 3 else (60, 1)
    seconds = sum(int(part) * unit for part, unit in zip(parts, units, strict=False))
    return seconds + 86400 * int(days or 0)


def _write_private(file: Path, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(file, flags, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)


def _chosen(options: Mapping[str, str | int | bool]) -> list[str]:
    arguments = (option_argument(name, value) for name, value in options.items())
    return [argument for argument in arguments if argument is not None]


def _for_commands(environ: Mapping[str, str], withheld: Iterable[str]) -> dict[str, str]:
    """Returns what Slurm's commands are told by the user; not what a job around us was told."""
    return {
        name: value
        for name, value in environ.items()
        if name == "SLURM_CONF" or name.startswith("SBATCH_")
        if name not in _NOT_FOR_SBATCH and name not in frozenset(withheld)
    }


def _row(line: str) -> tuple[str, Job]:
    job_id, state, reason = line.strip().split("|", 2)
    known = _STATES.get(state, JobState.UNKNOWN)
    because = "" if reason == "None" else f" ({reason})"
    return job_id, Job(state=known, detail=f"Slurm says {state}{because}")


def _described(line: str) -> Job:
    state, code, reason = (_field(line, name) for name in ("JobState", "ExitCode", "Reason"))
    known = _STATES.get(state, JobState.UNKNOWN)
    because = "" if reason == "None" else f" ({reason})"
    node = _field(line, "NodeList")
    place = "" if node in {"", "(null)"} else f" on {node}"
    return Job(state=known, detail=f"Slurm says {state}{because}, exit {code}{place}")


def _field(line: str, name: str) -> str:
    found = re.search(rf"(?:^| ){name}=(\S*)", line)
    return found[1] if found else ""
