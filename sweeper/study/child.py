"""One child process that needs what this process must not load, and its answer.

The child exits with 0; with 2 and the user's faults as JSON on stdout; or with anything else, and
then its stderr is the report on a fault of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sweeper.errors import Fault, SweeperError, from_plain

Progress = Callable[[str], None]
"""Is told each line that a child writes to stderr, without its line feed."""

_USER_FAULT = 2
_ENVIRONMENT = MappingProxyType({"PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCall:
    """A module of ours to run.

    Attributes:
        purpose: What a message calls it: `preparing the data`.
        log: Where the child's stderr is kept.
        kept_open: File descriptors that stay open as long as the child lives.
        environment: Variables on top of this process's own.
        hidden: Variables that are not for the child.
    """

    module: str
    arguments: Sequence[str]
    purpose: str
    log: Path
    kept_open: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: Collection[str] = ()


def run_child(call: ChildCall, progress: Progress) -> None:
    """Runs the module to its end.

    Raises:
        UserError: The child found something that the user can mend.
        SweeperError: The child failed in another way.
    """
    command = [sys.executable, "-m", call.module, *call.arguments]
    with tempfile.TemporaryFile() as answer, call.log.open("a", encoding="utf-8") as log:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.PIPE,
            pass_fds=call.kept_open,
            env={**_without(call.hidden), **_ENVIRONMENT, **call.environment},
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as child:
            assert child.stderr is not None
            last = _relay(child.stderr, log.write, progress)
        answer.seek(0)
        _raise_failure(call, child.returncode, answer.read(), last)


def _without(hidden: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in hidden}


def _relay(lines: Iterable[str], keep: Callable[[str], int], progress: Progress) -> str:
    """Passes lines on until a traceback begins, keeps them all, and returns the last."""
    last, is_traceback = "", False
    for line in lines:
        keep(line)
        is_traceback = is_traceback or line.startswith("Traceback ")
        if not is_traceback:
            progress(line.rstrip("\n"))
        last = line.strip() or last
    return last


def _raise_failure(call: ChildCall, status: int, answer: bytes, last: str) -> None:
    if status == 0:
        return
    if status == _USER_FAULT and (error := _user_error(answer)) is not None:
        raise error
    ending = f"signal {-status}" if status < 0 else f"exit status {status}"
    raise SweeperError(
        Fault(
            what=f"{call.purpose} failed",
            where=f"python -m {call.module}",
            got=f"{ending}: {last}" if last else ending,
            hint=f"Its output is in {call.log}.",
        )
    )


def _user_error(answer: bytes) -> SweeperError | None:
    """Returns the error on the last line of the answer; None when there is none."""
    try:
        return from_plain(json.loads(answer.splitlines()[-1]))
    except (IndexError, ValueError, KeyError, TypeError):
        return None
