"""Whether a process that was named earlier still lives.

A process id alone says little: it is given out again. Together with the host, the boot and the
time since then at which the process started it names one process. No clock that somebody may set
has a part in it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_MACHINE_ID = Path("/etc/machine-id")
_START_FIELD = 19
"""Of the fields in `/proc/PID/stat` that follow the program's name; the first of them is the state.
"""


def host_name() -> str:
    """Returns this host's name."""
    return socket.gethostname()


def started_at(pid: int) -> float | None:
    """Returns when process `pid` of this host started, in seconds since its boot; None if gone.

    Counted by the kernel in whole ticks, so that the same process has the same number ever after.
    """
    fields = _stat(pid)
    if fields is None:
        return None
    return int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")


def uptime_seconds() -> float:
    """Returns the seconds since this host's boot, those that it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def birth(pid: int) -> str | None:
    """Returns what `started_at` does together with the boot, for other hosts; None if gone."""
    began = started_at(pid)
    return None if began is None else f"{began!r}@{_Boot.this()}"


def is_alive(host: str, pid: int, born: str | float) -> bool | None:
    """Says whether the process still runs; None where nobody can tell.

    That is so for one on another host, and for one in another container of this host. A process
    that ended but was not yet collected by its parent (a zombie) is dead.

    Args:
        host: Where it ran, from `host_name`.
        pid: Its process id there.
        born: From `birth`, or from `started_at` for one that this host started since its boot.
    """
    if host != host_name():
        return None
    began, _, boot = str(born).partition("@")
    if boot and boot != str(_Boot.this()):
        return False if _Boot.read(boot).is_over() else None
    fields = _stat(pid)
    if fields is None or fields[0] in {"Z", "X"}:
        return False
    return started_at(pid) == float(began)


def is_of_this_kernel(born: str) -> bool:
    """Says whether the process of that `birth` runs, or ran, under the kernel that runs now.

    Then a file lock that it held is one that this process could not have got as long as it lived,
    whatever container each of them is in.
    """
    boot = born.partition("@")[2]
    return bool(boot) and _Boot.read(boot).boot == _Boot.this().boot


@dataclass(frozen=True, slots=True)
class _Boot:
    """One boot of one machine, and the numbering of processes in it: containers have their own."""

    machine: str
    boot: str
    namespace: str

    @classmethod
    def this(cls) -> _Boot:
        """Returns the one that this process lives in."""
        namespace = (_PROC / "self/ns/pid").stat().st_ino
        return cls(
            # the machine's id is not for others to know
            machine=_digest(_text(_MACHINE_ID)),
            boot=_digest(_text(_BOOT_ID)),
            namespace=str(namespace),
        )

    @classmethod
    def read(cls, text: str) -> _Boot:
        """Returns what `str` has written; one that is nobody's where it is not one of ours."""
        machine, boot, namespace = (*text.split("."), "", "", "")[:3]
        return cls(machine, boot, namespace)

    def __str__(self) -> str:
        return f"{self.machine}.{self.boot}.{self.namespace}"

    def is_over(self) -> bool:
        """Says whether this machine was booted since; False also where it may be another one."""
        now = _Boot.this()
        return bool(self.machine) and self.machine == now.machine and self.boot != now.boot


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else ""


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii", errors="replace").strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Returns the fields after the program's name, which may hold blanks and brackets itself."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
