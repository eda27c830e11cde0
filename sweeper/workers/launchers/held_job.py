"""A job's process on its node, held by a process of the engine's. Standard library and psutil only.

Engines that run functions (Ray, Dask) run one that starts the job beside them, so that the engine's
own process stays out of torch and of its signals. The job sees the end of the pipe that it is held
by, whatever the engine's process dies of, and ends then: no job is left without its engine.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.job import HELD
from sweeper.workers.process_tree import end_marked

GRACE_SECONDS = 10.0
"""Between signal 15 and 9: for a job to end its trial and to write down how it ended."""

_SHELL = ("/bin/sh", "-c", 'trap : TERM; "$@"; exit $?', "sweeper-job")
"""Stays between the engine's process and the job: Ray kills the children of a process of its own
that ends, and a job that was killed cannot end its trial's processes."""


class HeldJob:
    """A job that runs until it is done, is told to end, or its holder is gone.

    Args:
        folder: The attempt's, which the node shares with the coordinator.
        command: What to run; it must understand `job.HELD`.
        environment: Added to the holder's own.

    Raises:
        OSError: It cannot be started, or its log cannot be written.
    """

    def __init__(
        self,
        folder: AttemptFolder,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        with folder.job_log.open("ab") as log:
            self._process = subprocess.Popen(
                (*_SHELL, *command, HELD),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def status(self) -> int | None:
        """Returns how the job exited, None while it runs; a signal counts from 128 upwards."""
        status = self._process.poll()
        if status is None:
            return None
        if self._process.stdin is not None:
            self._process.stdin.close()
        return status if status >= 0 else 128 - status

    def wait(self, *, timeout_seconds: float | None = None) -> int | None:
        """Returns `status` once it is known, or after the timeout."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_seconds)
        return self.status()

    def end(self, *, grace_seconds: float = GRACE_SECONDS) -> None:
        """Ends the job and every process of its trial: signal 15, after the grace signal 9."""
        self._send(signal.SIGTERM)
        give_up = time.monotonic() + grace_seconds
        while self.status() is None and time.monotonic() < give_up:
            time.sleep(0.05)
        self._send(signal.SIGKILL)
        end_marked(self._folder.path, grace_seconds=0.0)
        self.wait(timeout_seconds=grace_seconds)

    def _send(self, number: signal.Signals) -> None:
        if self.status() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def ending(status: int) -> str:
    """Returns how a job ended, as a sentence without its beginning."""
    if status > 128:
        return f"ended by signal {status - 128}"
    return f"ended with exit status {status}"
