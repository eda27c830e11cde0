"""Inflicts faults: draws one that is possible now, begins it, and ends it when it is due.

Faults may overlap: a supervisor may be stopped while the database is away. The same target is not
hit again before a fault on it is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import psutil
from chaos_faults import EFFECTS, Fault, Kind, Process, Target
from chaos_server import Server
from chaos_study import Coordinator, LiveAttempt, process_of, send

SUPERVISOR = "sweeper.workers.supervisor"
TEMPLATE = "sweeper.trial.warm"
_STEP_BYTES = 4096

WEIGHTS: Mapping[Kind, int] = MappingProxyType(
    {
        Kind.KILL_CHILD: 6,
        Kind.END_CHILD: 3,
        Kind.STOP_CHILD: 3,
        Kind.FREEZE_CHILD: 2,
        Kind.KILL_SUPERVISOR: 3,
        Kind.STOP_SUPERVISOR: 2,
        Kind.FREEZE_SUPERVISOR: 2,
        Kind.KILL_COORDINATOR: 3,
        Kind.STOP_COORDINATOR: 2,
        Kind.FREEZE_COORDINATOR: 1,
        Kind.INTERRUPT: 2,
        Kind.INTERRUPT_TWICE: 1,
        Kind.KILL_TEMPLATE: 2,
        Kind.STOP_TEMPLATE: 1,
        Kind.LOCK_DATABASE: 2,
        Kind.END_SESSIONS: 2,
        Kind.RESTART_DATABASE: 2,
        Kind.CRASH_DATABASE: 2,
        Kind.DATABASE_AWAY: 2,
        Kind.FULL_DISK: 2,
        Kind.CANCEL_JOB: 3,
    }
)
"""How often each is drawn, among those that are possible at the moment."""

SECONDS: Mapping[Kind, tuple[float, float]] = MappingProxyType(
    {
        Kind.STOP_CHILD: (0.5, 5.0),
        Kind.FREEZE_CHILD: (0.5, 4.0),
        Kind.STOP_SUPERVISOR: (0.5, 6.0),
        Kind.FREEZE_SUPERVISOR: (0.5, 5.0),
        Kind.STOP_COORDINATOR: (0.5, 6.0),
        Kind.FREEZE_COORDINATOR: (0.5, 8.0),
        Kind.INTERRUPT_TWICE: (0.1, 1.0),
        Kind.STOP_TEMPLATE: (0.5, 4.0),
        Kind.LOCK_DATABASE: (0.5, 8.0),
        Kind.DATABASE_AWAY: (2.0, 12.0),
        Kind.FULL_DISK: (0.5, 5.0),
    }
)
"""The least and the greatest length of those that last."""

_SIGNALS: Mapping[Kind, tuple[signal.Signals, signal.Signals | None]] = MappingProxyType(
    {
        Kind.KILL_CHILD: (signal.SIGKILL, None),
        Kind.END_CHILD: (signal.SIGTERM, None),
        Kind.STOP_CHILD: (signal.SIGSTOP, signal.SIGCONT),
        Kind.FREEZE_CHILD: (signal.SIGSTOP, signal.SIGKILL),
        Kind.KILL_SUPERVISOR: (signal.SIGKILL, None),
        Kind.STOP_SUPERVISOR: (signal.SIGSTOP, signal.SIGCONT),
        Kind.FREEZE_SUPERVISOR: (signal.SIGSTOP, signal.SIGKILL),
        Kind.KILL_COORDINATOR: (signal.SIGKILL, None),
        Kind.STOP_COORDINATOR: (signal.SIGSTOP, signal.SIGCONT),
        Kind.FREEZE_COORDINATOR: (signal.SIGSTOP, signal.SIGKILL),
        Kind.KILL_TEMPLATE: (signal.SIGKILL, None),
        Kind.STOP_TEMPLATE: (signal.SIGSTOP, signal.SIGCONT),
    }
)
"""What is sent at the beginning, and at the end."""

CANCEL_COMMANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"slurm": ("scancel", "--signal=KILL", "--full")}
)
"""How the job of an engine is killed behind the coordinator's back; its id is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What there is to be hit now.

    Attributes:
        study: The name under which it runs.
        database: The SQLite file, where that is the database.
    """

    study: str
    coordinator: Coordinator
    live: Sequence[LiveAttempt]
    database: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One thing that can be hit; without a process it is a database or a disk."""

    process: Process | None = None
    parent: Process | None = None
    attempt: LiveAttempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A fault that is not over.

    Attributes:
        end: Ends it, and returns what was seen.
    """

    number: int
    study: str
    kind: Kind
    at: datetime
    victim: Victim
    due: float
    end: Callable[[], str]
    was_gone: bool


class Disk:
    """A small file system of its own, to be filled and emptied.

    Raises:
        PermissionError: It may not be mounted.
    """

    def __init__(self, folder: Path, *, mebibytes: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=755", "chaos", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if mounted.returncode != 0:
            folder.rmdir()
            raise PermissionError(mounted.stderr.strip())

    def fill(self) -> int:
        """Takes all the room there is; returns what the filler holds, in bytes."""
        with self._filler.open("ab") as stream:
            step = self._free()
            while step >= _STEP_BYTES:
                size = os.fstat(stream.fileno()).st_size
                try:
                    os.posix_fallocate(stream.fileno(), size, step)
                except OSError:
                    step //= 2
                else:
                    step = self._free()
            return os.fstat(stream.fileno()).st_size

    def empty(self) -> None:
        """Gives it back."""
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        """Removes the file system with all that is on it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def _free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


class Inflictor:
    """Draws faults, inflicts them and keeps their log.

    Args:
        seed: Of what is drawn; when it meets the study is up to the machine.
        log: One JSON line per fault.
        server: None where the database is SQLite.
        disk: None where there is none that may be filled.
        kinds: Only these.
    """

    def __init__(
        self,
        *,
        seed: int,
        log: Path,
        server: Server | None,
        disk: Disk | None,
        kinds: frozenset[Kind] = frozenset(Kind),
    ) -> None:
        self.draw = random.Random(seed)  # noqa: S311  # no secret
        self.faults: list[Fault] = []
        self._log = log
        self._server = server
        self._disk = disk
        self._kinds = kinds
        self._begun: list[_Begun] = []
        self.count = 0

    def inflict(self, scene: Scene) -> bool:
        """Begins one fault, drawn from those that are possible; False if none is."""
        possible = {kind: self._victims(kind, scene) for kind in WEIGHTS if kind in self._kinds}
        possible = {kind: victims for kind, victims in possible.items() if victims}
        if not possible:
            return False
        kinds = list(possible)
        (kind,) = self.draw.choices(kinds, weights=[WEIGHTS[kind] for kind in kinds])
        self._begin(kind, self.draw.choice(possible[kind]), scene)
        return True

    def tick(self, *, everything: bool = False) -> None:
        """Ends the faults that are due, or all of them."""
        now = time.monotonic()
        if self._disk is not None and any(b.kind is Kind.FULL_DISK for b in self._begun):
            self._disk.fill()  # what was removed meanwhile is no room either
        for begun in [b for b in self._begun if everything or now >= b.due]:
            self._begun.remove(begun)
            self._conclude(begun)

    def _begin(self, kind: Kind, victim: Victim, scene: Scene) -> None:
        self.count += 1
        at = datetime.now(UTC)
        was_gone, end = self._strike(kind, victim, scene)
        seconds = self.draw.uniform(*SECONDS[kind]) if kind in SECONDS else 0.0
        self._begun.append(
            _Begun(
                number=self.count,
                study=scene.study,
                kind=kind,
                at=at,
                victim=victim,
                due=time.monotonic() + seconds,
                end=end,
                was_gone=was_gone,
            )
        )

    def _conclude(self, begun: _Begun) -> None:
        observed = begun.end()
        victim, attempt = begun.victim, begun.victim.attempt
        fault = Fault(
            number=begun.number,
            study=begun.study,
            kind=begun.kind,
            at=begun.at,
            until=datetime.now(UTC),
            process=victim.process,
            parent=victim.parent,
            cell=attempt.cell if attempt else None,
            attempt=attempt.number if attempt else None,
            was_gone=begun.was_gone,
            observed=observed,
        )
        self.faults.append(fault)
        with self._log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(plain(fault)) + "\n")

    def _strike(self, kind: Kind, victim: Victim, scene: Scene) -> tuple[bool, Callable[[], str]]:
        """Begins the fault; returns whether nothing was there any more, and what ends it."""
        if kind in _SIGNALS:
            return self._signal(kind, victim)
        match kind:
            case Kind.INTERRUPT | Kind.INTERRUPT_TWICE:
                return _interrupt(scene.coordinator, twice=kind is Kind.INTERRUPT_TWICE)
            case Kind.LOCK_DATABASE:
                assert scene.database is not None
                return _lock(scene.database)
            case Kind.FULL_DISK:
                assert self._disk is not None
                taken, disk = self._disk.fill(), self._disk
                return False, lambda: (disk.empty(), f"{taken} bytes taken")[1]
            case Kind.CANCEL_JOB:
                assert victim.attempt is not None
                return _cancel(victim.attempt)
            case _:
                assert self._server is not None
                return False, _trouble(kind, self._server)

    @staticmethod
    def _signal(kind: Kind, victim: Victim) -> tuple[bool, Callable[[], str]]:
        assert victim.process is not None
        process, (first, second) = victim.process, _SIGNALS[kind]
        said = "" if victim.attempt is None else _last_word(victim.attempt)
        was_there = send(process, first)

        def end() -> str:
            if not was_there or second is None:
                return said
            return f"{said}; {second.name} {'taken' if send(process, second) else 'came too late'}"

        return not was_there, end

    def _victims(self, kind: Kind, scene: Scene) -> list[Victim]:
        target = EFFECTS[kind].target
        busy = [begun.victim.process for begun in self._begun]
        if target is Target.DATABASE:
            is_file = kind is Kind.LOCK_DATABASE
            there = scene.database is not None if is_file else self._server is not None
            return [Victim()] if there and not self._is_on(Target.DATABASE) else []
        if target is Target.DISK:
            there = self._disk is not None and not self._is_on(Target.DISK)
            return [Victim()] if there else []
        found = _processes(target, scene)
        return [victim for victim in found if victim.process not in busy]

    def _is_on(self, target: Target) -> bool:
        return any(EFFECTS[begun.kind].target is target for begun in self._begun)


def plain(fault: Fault) -> dict[str, object]:
    """Returns the fault as values that JSON knows."""
    process = fault.process
    return {
        "number": fault.number,
        "study": fault.study,
        "kind": str(fault.kind),
        "at": fault.at.isoformat(),
        "until": fault.until.isoformat(),
        "pid": process.pid if process else None,
        "started_at": process.started_at if process else None,
        "cell": fault.cell,
        "attempt": fault.attempt,
        "was_gone": fault.was_gone,
        "observed": fault.observed,
    }


def _processes(target: Target, scene: Scene) -> list[Victim]:
    match target:
        case Target.CHILD:
            return [Victim(process=live.child, attempt=live) for live in scene.live]
        case Target.COORDINATOR:
            return [Victim(process=scene.coordinator.process)]
        case Target.SUPERVISOR:
            return list(_supervisors(scene))
        case Target.TEMPLATE:
            return list(_templates(scene))
        case Target.JOB:
            return [
                Victim(process=live.supervisor, attempt=live)
                for live in scene.live
                if _job(live) is not None
            ]
        case Target.DATABASE | Target.DISK:
            raise ValueError(target)


def _supervisors(scene: Scene) -> Iterator[Victim]:
    """Yields the supervisors: those of trials, and those that wait for one."""
    by_pid = {live.supervisor.pid: live for live in scene.live if live.supervisor is not None}
    for live in by_pid.values():
        yield Victim(process=live.supervisor, attempt=live)
    for process, _parent in _below(scene.coordinator.process, SUPERVISOR):
        if process.pid not in by_pid:
            yield Victim(process=process)


def _templates(scene: Scene) -> Iterator[Victim]:
    """Yields what trials are forked from; a forked trial has the same command line."""
    trials = {live.child.pid for live in scene.live}
    for process, parent in _below(scene.coordinator.process, TEMPLATE):
        if process.pid not in trials:
            yield Victim(process=process, parent=parent)


def _below(ancestor: Process, module: str) -> Iterator[tuple[Process, Process | None]]:
    """Yields the processes below it that run the module, each with its parent."""
    with contextlib.suppress(psutil.Error):
        for found in psutil.Process(ancestor.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process = process_of(found.pid)
                if process is not None and module in found.cmdline():
                    yield process, process_of(found.ppid())


def _interrupt(coordinator: Coordinator, *, twice: bool) -> tuple[bool, Callable[[], str]]:
    was_there = coordinator.interrupt()

    def end() -> str:
        again = twice and coordinator.interrupt()
        return "once more" if again else "it had left before the second" if twice else ""

    return not was_there, end


def _lock(database: Path) -> tuple[bool, Callable[[], str]]:
    """Holds the database's write lock, as some other program may."""
    connection = sqlite3.connect(database, timeout=1.0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        connection.close()
        told = str(error)
        return True, lambda: told

    def end() -> str:
        connection.close()
        return ""

    return False, end


def _trouble(kind: Kind, server: Server) -> Callable[[], str]:
    """Begins what is wrong with the server; returns what ends it."""
    if kind is Kind.END_SESSIONS:
        sessions = server.end_sessions()
        return lambda: f"{sessions} sessions"
    server.stop(crash=kind is Kind.CRASH_DATABASE)

    def end() -> str:
        began = time.monotonic()
        server.start()
        return f"back after {time.monotonic() - began:.1f} s of starting"

    return end


def _job(live: LiveAttempt) -> tuple[str, str] | None:
    """Returns the engine and the id of the attempt's job, where there is one we can kill."""
    try:
        found = json.loads((live.folder.path / "job.json").read_text("utf-8"))
        engine, job = str(found["engine"]), str(found["id"])
    except (OSError, ValueError, KeyError):
        return None
    return (engine, job) if engine in CANCEL_COMMANDS else None


def _cancel(live: LiveAttempt) -> tuple[bool, Callable[[], str]]:
    job = _job(live)
    if job is None:
        return True, lambda: "the job had gone"
    done = subprocess.run(
        [*CANCEL_COMMANDS[job[0]], job[1]], capture_output=True, text=True, check=False
    )
    return done.returncode != 0, lambda: done.stderr.strip() or f"job {job[1]}"


def _last_word(live: LiveAttempt) -> str:
    """Returns what the attempt said last, for people."""
    try:
        with live.folder.events.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 4096))
            line = stream.read().split(b"\n")[-2]
        said = json.loads(line)
    except (OSError, IndexError, ValueError):
        return "had said nothing"
    where = said.get("phase") or said.get("window") or ""
    return f"had said {said['record']} {where}".rstrip()
