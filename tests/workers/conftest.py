from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from waiting import within

from sweeper.records import Event
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.process_tree import MARKER
from sweeper.workers.tail import EventTail

CHILD = Path(__file__).parent / "child.py"

Folders = Callable[[], AttemptFolder]


@pytest.fixture
def new_folder(tmp_path: Path) -> Folders:
    """Makes the folder of another attempt at each call."""

    def make() -> AttemptFolder:
        path = tmp_path / "attempts" / str(len(list(tmp_path.glob("attempts/*"))) + 1)
        path.mkdir(parents=True)
        return AttemptFolder(path)

    return make


@pytest.fixture
def behaving(tmp_path: Path) -> Iterator[Callable[[str], LocalLauncher]]:
    """Returns local launchers whose trials behave as named in `child.py`."""
    with contextlib.ExitStack() as stack:

        def launcher(behaviour: str) -> LocalLauncher:
            command = (sys.executable, str(CHILD), behaviour)
            made = LocalLauncher(logs=tmp_path / "logs", trial_command=command)
            stack.callback(made.close)
            return made

        yield launcher


@pytest.fixture
def eventually() -> Callable[..., object]:
    """Returns the first true value that a question has within some seconds."""
    return lambda question, *, seconds=30.0: within(seconds, question)


@pytest.fixture
def said() -> Callable[[AttemptFolder], tuple[Event, ...]]:
    """Returns what an attempt has said so far."""
    return lambda folder: EventTail(folder.events).read()


@pytest.fixture
def survivors(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """Returns the processes of this test's attempts, found by their environment; none may stay."""

    def scan() -> list[int]:
        return [process.pid for process in psutil.process_iter() if _belongs(process, tmp_path)]

    yield scan
    assert scan() == []


def _belongs(process: psutil.Process, folder: Path) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get(MARKER, "").startswith(str(folder))
    except psutil.Error:
        return False
