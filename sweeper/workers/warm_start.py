"""The supervisor's end of the template that its trials are forked from, see `trial/warm.py`.

Loading libraries is most of a short trial's cost. The template pays it once per slot; it loads
while the slot's first trial waits for it, which takes no longer than that trial's own loading.
Where forks are not sound or not possible, trials start cold and a notice says why.
Imports neither torch nor pydantic.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import BinaryIO

import psutil

from sweeper.trial.folder import AttemptFolder
from sweeper.workers import process_tree
from sweeper.workers.process_tree import MARKER
from sweeper.workers.watched_trial import Order, TrialProcess, start_cold

TEMPLATE_COMMAND = (sys.executable, "-m", "sweeper.trial.warm")
"""The spec of a trial like those to come is added."""

LOADING_SECONDS = 120.0
"""After which a template is given up."""
ANSWER_SECONDS = 10.0
"""For a fork, on a machine that is busy with other things."""
_LEAVING_SECONDS = 1.0
"""From the closing of its end to its own."""
_PACKET_BYTES = 1 << 16
_STDERR = 2


class WarmStart:
    """Starts a slot's trials, by forks where that works. For one thread.

    Attributes:
        notices: What a user should know, one sentence each; for the caller to pass on and clear.
    """

    def __init__(self) -> None:
        self._template: _Template | None = None
        self._given_up = False
        self.notices: list[str] = []

    @property
    def is_loading(self) -> bool:
        """Whether a template is still loading: a trial that is started now starts cold."""
        return self._template is not None and not self._template.is_ready

    def processes(self) -> tuple[psutil.Process, ...]:
        """Processes below this one that belong to no trial."""
        return () if self._template is None else (self._template.process,)

    def look(self) -> None:
        """Takes note of what has become of the template; to be called several times a second."""
        if self._template is None:
            return
        was_ready = self._template.is_ready
        trouble = self._template.trouble()
        if trouble is None:
            return
        self._drop()
        if was_ready:
            self.notices.append(f"{trouble}; another takes its place")
        else:
            self._give_up(trouble)

    def prepare(self, order: Order) -> None:
        """Has a template that trials like this one can be forked from, or one that is loading."""
        surroundings = _surroundings(order)
        if self._template is not None and self._template.surroundings != surroundings:
            self._drop()  # its libraries have read the variables
        self.look()
        if self._template is None and not self._given_up:
            try:
                self._template = _Template(order, surroundings)
            except OSError as error:
                self._give_up(f"no template could be started: {error}")

    def start(self, order: Order) -> TrialProcess:
        """Starts the trial: from the template if one is ready, else cold.

        Raises:
            OSError: The operating system refuses to start it, or it is not known whether it runs.
        """
        if self._template is None or not self._template.is_ready:
            return start_cold(order)
        try:
            return self._template.fork(order)
        except NotForked as error:
            why: Exception = error
        except OSError as error:
            self._drop()
            if not _nothing_began(order.folder):
                raise
            why = error
        self.notices.append(f"a trial starts cold, for it could not be forked: {why}")
        return start_cold(order)

    def close(self) -> None:
        """Ends the template."""
        self._drop()

    def _give_up(self, why: str) -> None:
        self._drop()
        self._given_up = True
        self.notices.append(f"trials start cold, each loading its own libraries: {why}")

    def _drop(self) -> None:
        if self._template is not None:
            self._template.close()
            self._template = None


class NotForked(Exception):
    """The template says that there is no such trial."""


class ForkedTrial:
    """Implements `watched_trial.TrialProcess` for a child that somebody else has started."""

    def __init__(self, pid: int, stdin: BinaryIO) -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit status, negative for a signal; None while it runs."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Template:
    """One template process.

    Attributes:
        surroundings: The variables that it was started with, on top of ours.
        is_ready: Whether it has said that it has loaded.
    """

    def __init__(self, order: Order, surroundings: Mapping[str, str]) -> None:
        self.surroundings = surroundings
        self.is_ready = False
        self._give_up_at = time.monotonic() + LOADING_SECONDS
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*TEMPLATE_COMMAND, str(order.folder.spec)],
                stdin=theirs.fileno(),
                stdout=_STDERR,  # our standard output is for events
                cwd=order.folder.path,  # Python looks for modules where it is started
                env={**os.environ, **surroundings},
            )
        self.process = psutil.Process(self._process.pid)

    def trouble(self) -> str | None:
        """Returns what is wrong with it, or None; takes note when it has loaded."""
        if self.is_ready:
            return self._ended() if self._process.poll() is not None else None
        try:
            said = self._hear(timeout_seconds=0.0)
        except OSError:
            return self._ended()
        if said is None:
            late = time.monotonic() >= self._give_up_at
            return f"it has not loaded within {LOADING_SECONDS:.0f} seconds" if late else None
        self.is_ready = "ready" in said
        return None if self.is_ready else str(said["unfit"])

    def fork(self, order: Order) -> ForkedTrial:
        """Returns a fork of it that carries out the order.

        Raises:
            NotForked: It could not be made.
            OSError: The template did not say whether it was made.
        """
        reading, writing = os.pipe()
        stdin = os.fdopen(writing, "wb", buffering=0)
        try:
            pid = self._forked(order, stdin=reading)
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(reading)
        return ForkedTrial(pid, stdin)

    def close(self) -> None:
        """Ends it."""
        self._channel.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVING_SECONDS)

    def _forked(self, order: Order, *, stdin: int) -> int:
        asked = {
            "folder": str(order.folder.path),
            "argv": list(order.argv),
            "environment": dict(order.environment),
        }
        packet = json.dumps(asked).encode("utf-8")
        with order.folder.stdout.open("ab") as out, order.folder.stderr.open("ab") as err:
            try:
                socket.send_fds(self._channel, [packet], [stdin, out.fileno(), err.fileno()])
            except OSError as error:
                raise NotForked(self._ended()) from error
        said = self._hear(timeout_seconds=ANSWER_SECONDS)
        if said is None:
            raise TimeoutError(f"the template did not answer within {ANSWER_SECONDS:.0f} seconds")
        if "pid" not in said:
            raise NotForked(str(said["error"]))
        return int(str(said["pid"]))

    def _hear(self, *, timeout_seconds: float) -> dict[str, object] | None:
        """Returns its next message; None when none comes in time.

        Raises:
            OSError: It is gone.
        """
        if not select.select([self._channel], [], [], timeout_seconds)[0]:
            return None
        packet = self._channel.recv(_PACKET_BYTES)
        if not packet:
            raise ConnectionError(self._ended())
        message = json.loads(packet)
        assert isinstance(message, dict)
        return message

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVING_SECONDS)
        return f"the template ended with status {self._process.returncode}"


def _nothing_began(folder: AttemptFolder) -> bool:
    """Ends what a template may have left of a fork; says whether it did nothing and is gone."""
    strays = process_tree.descendants()
    process_tree.send(strays, signal.SIGKILL)
    _, left = psutil.wait_procs(strays, timeout=_LEAVING_SECONDS)
    return not left and not folder.events.exists()


def _surroundings(order: Order) -> dict[str, str]:
    """Returns the variables of the slot, without those of the attempt."""
    return {name: value for name, value in order.environment.items() if name != MARKER}
