"""Trials as child processes on this host, one supervisor per slot."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.aftermath import without_supervisor
from sweeper.workers.environment import trial_environment, without
from sweeper.workers.limits import TrialLimits
from sweeper.workers.messages import Message, MessageReader, send
from sweeper.workers.process_tree import marked
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Supervision

_log = logging.getLogger(__name__)

TRIAL_COMMAND = (sys.executable, "-m", "sweeper.trial")
"""The folder of the attempt is added as the last argument."""

_SUPERVISOR_COMMAND = (sys.executable, "-m", "sweeper.workers.supervisor")
_START_PATIENCE_SECONDS = 120.0
_CLOSE_PATIENCE_SECONDS = 10.0


class LocalLauncher:
    """Implements `launcher.Launcher`. A supervisor that died is replaced at the next start.

    Args:
        logs: Folder for what supervisors write for people; one file per slot.
        trial_command: What runs an attempt.
        warm: Whether a slot's trials are forked from a template where that works, see
            `warm_start`. Only what `TRIAL_COMMAND` runs is.
        tell: Takes what a user should know, a sentence each, once.
        withheld: Environment variables that neither supervisors nor trials are to see.
    """

    def __init__(
        self,
        *,
        logs: Path,
        trial_command: tuple[str, ...] = TRIAL_COMMAND,
        warm: bool = True,
        tell: Callable[[str], None] = _log.info,
        withheld: Collection[str] = (),
    ) -> None:
        self._logs = logs
        self._withheld = frozenset(withheld)
        self._trial_command = trial_command
        self._warm = warm and trial_command == TRIAL_COMMAND
        self._tell = tell
        self._told: set[str] = set()
        self._supervisors: dict[str, _Supervisor] = {}
        self._lock = threading.Lock()

    def start(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> LocalRunning:
        """See `launcher.Launcher.start`."""
        folder = AttemptFolder(folder.path.resolve())
        order: Message = {
            "command": "start",
            "folder": str(folder.path),
            "argv": [*self._trial_command, str(folder.path)],
            "environment": trial_environment(folder, slot),
            "limits": limits.to_plain(),
            "warm": self._warm and self._is_one_process(folder),
        }
        running = self._ordered(folder, slot, order)
        if running.was_not_taken():  # the supervisor died between two trials
            running = self._ordered(folder, slot, order)
        return running

    def attach(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> None:
        """See `launcher.Launcher.attach`: supervisors end their trials when left alone."""

    def close(self) -> None:
        """See `launcher.Launcher.close`."""
        with self._lock:
            supervisors = list(self._supervisors.values())
            self._supervisors.clear()
        for supervisor in supervisors:
            supervisor.tell({"command": "exit"})
        for supervisor in supervisors:
            supervisor.close()

    def _ordered(self, folder: AttemptFolder, slot: Slot, order: Message) -> LocalRunning:
        """Gives the order to the slot's supervisor and waits for its answer, or its death."""
        supervisor = self._supervisor(slot)
        supervisor.tell(order)
        running = LocalRunning(folder, supervisor, tell=self._tell_once)
        running.wait_for_start()
        return running

    def _is_one_process(self, folder: AttemptFolder) -> bool:
        """Says whether the trial computes in the process that is started; ranks are others."""
        ranks = json.loads(folder.spec.read_bytes()).get("ranks", 1)
        if ranks > 1:
            self._tell_once("trials of several ranks start cold: each rank loads its own libraries")
        return bool(ranks == 1)

    def _tell_once(self, text: str) -> None:
        with self._lock:
            known = text in self._told
            self._told.add(text)
        if not known:
            self._tell(text)

    def _supervisor(self, slot: Slot) -> _Supervisor:
        with self._lock:
            known = self._supervisors.get(slot.name)
            if known is not None and known.is_alive():
                return known
            if known is not None:
                known.close()
            fresh = _Supervisor(
                self._logs / f"supervisor-{_file_name(slot.name)}.log", self._withheld
            )
            self._supervisors[slot.name] = fresh
            return fresh


class LocalRunning:
    """Implements `launcher.Running`."""

    def __init__(
        self, folder: AttemptFolder, supervisor: _Supervisor, *, tell: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._supervisor = supervisor
        self._tell = tell
        self._waits = False
        self._ended: Supervision | None = None
        self.pid: int | None = None
        self.started_at: float | None = None

    def wait_for_start(self) -> None:
        """Returns once the trial was started, or taken to be started, or its start failed."""
        give_up = time.monotonic() + _START_PATIENCE_SECONDS
        while not self._is_answered() and not self._supervisor.is_silent():
            if time.monotonic() >= give_up:
                self._supervisor.kill()
            self._take(timeout_seconds=1.0)

    def was_not_taken(self) -> bool:
        """Says whether the supervisor died without having started anything."""
        folder = self._folder
        traces = folder.heartbeat.exists() or folder.events.exists() or marked(folder.path)
        return not self._is_answered() and not traces

    def poll(self) -> Supervision | None:
        """See `launcher.Running.poll`."""
        if self._ended is None:
            self._take(timeout_seconds=0.0)
        if self._ended is None and self._supervisor.is_silent():
            self._ended = without_supervisor(self._folder, self._supervisor.obituary())
        return self._ended

    def stop(self, *, grace_seconds: float) -> None:
        """See `launcher.Running.stop`."""
        if self._ended is None:
            self._supervisor.tell({"command": "stop", "grace_seconds": grace_seconds})

    def renew(self, *, seconds: float) -> None:
        """See `launcher.Running.renew`."""
        if self._ended is None:
            self._supervisor.tell({"command": "renew", "seconds": seconds})

    def kill(self) -> None:
        """See `launcher.Running.kill`."""
        if self._ended is None:
            self._supervisor.tell({"command": "kill"})

    def _is_answered(self) -> bool:
        return self._waits or self.pid is not None or self._ended is not None

    def _take(self, *, timeout_seconds: float) -> None:
        for event in self._supervisor.hear(timeout_seconds=timeout_seconds):
            assert event["folder"] == str(self._folder.path), "one trial at a time"
            if event["event"] == "notice":
                self._tell(str(event["text"]))
            elif event["event"] == "waiting":
                self._waits = True
            elif event["event"] == "started":
                self.pid = int(str(event["pid"]))
                known = event["started_at"]
                self.started_at = None if known is None else float(str(known))
            else:
                plain = event["supervision"]
                assert isinstance(plain, dict)
                self._ended = Supervision.from_plain(plain)


class _Supervisor:
    """The launcher's end of one supervisor process."""

    def __init__(self, log: Path, withheld: frozenset[str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                _SUPERVISOR_COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=without(os.environ, withheld),
                start_new_session=True,  # Ctrl-C in the terminal is the coordinator's to handle
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands = self._process.stdin
        self._events = self._process.stdout
        self._reader = MessageReader(self._events.fileno())
        self._lock = threading.Lock()
        self._hearing = threading.Lock()
        self._unread: list[Message] = []

    def is_alive(self) -> bool:
        """Says whether it can take orders; one that closed its end is about to be gone."""
        return self._process.poll() is None and not self._reader.closed

    def is_silent(self) -> bool:
        """Says whether it is gone and everything it said was heard."""
        return self._reader.closed and not self._unread

    def tell(self, message: Message) -> bool:
        """Sends a message; False when nobody is there to read it."""
        with self._lock:
            try:
                send(self._commands.fileno(), message)
            except (BrokenPipeError, ValueError):  # ValueError: closed on our side
                return False
        return True

    def hear(self, *, timeout_seconds: float) -> list[Message]:
        """Returns what it said since the last call, after waiting for it up to the timeout."""
        with self._hearing:
            said, self._unread = self._unread, []
            return said or self._reader.read(timeout_seconds=timeout_seconds)

    def kill(self) -> None:
        self._process.kill()

    def obituary(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_PATIENCE_SECONDS)
        process = self._process
        return f"its supervisor (process {process.pid}) ended with status {process.returncode}"

    def close(self) -> None:
        """Closes the pipe, which makes it leave, waits for it and keeps what it said last."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._commands.close()
        try:
            self._process.wait(_CLOSE_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._hearing, self._events:
            while not self._reader.closed:
                self._unread += self._reader.read(timeout_seconds=_CLOSE_PATIENCE_SECONDS)


def _file_name(slot: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in slot)
