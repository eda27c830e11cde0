"""The processes of an attempt whose windows are shared: started, followed and ended together.

The attempt's own process writes the history and says the outcome, as it always does; the ranks are
its children in its own process group, so that whoever kills the group leaves none. Rank 0 tells
its records over a pipe. Another pipe tells each rank when this process is gone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Self

import psutil

from sweeper.records import Outcome, PhaseBegun, Record
from sweeper.study.spec import TrialSpec
from sweeper.training.phases import Phases
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.rank_channel import Listener
from sweeper.trial.rank_ending import Standing, outcome_of_ranks

_log = logging.getLogger(__name__)

RANK_COMMAND = (sys.executable, "-m", "sweeper.trial.rank")
"""The folder of the attempt and the rank's number are added."""

LOOPBACK_ONLY = MappingProxyType({"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"})
"""Environment variables of every rank: what listens for the other ranks is out of the network's
reach. By itself gloo takes whatever address the host's name resolves to."""

LOOK_SECONDS = 0.2
"""Between two looks at whether an orderly end was asked for."""
CLOSING_SECONDS = 1.0
"""From the closing of a process's pipe to its end; the kernel does both in one go."""
KILLING_SECONDS = 10.0
"""For a killed process to disappear."""


def carry_out_by_ranks(  # the attempt, and what its process brings
    spec: TrialSpec,
    folder: AttemptFolder,
    *,
    emit: Callable[[Record], None],
    interrupted: Callable[[], bool],
    phases: Phases,
    command: Sequence[str] = RANK_COMMAND,
) -> Outcome:
    """Carries out one attempt by `spec.ranks` processes and returns how it ended.

    None of them is left when this returns or raises.

    Args:
        spec: What to do; the ranks read it from the folder.
        folder: Where they write.
        emit: Takes every record of rank 0 as it comes.
        interrupted: Asked several times a second; once it is true, all ranks are asked to end.
        phases: Turn as rank 0 turns.
        command: What runs a rank.

    Raises:
        OSError: No process can be started, or a record cannot be written.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(folder.meeting.unlink, missing_ok=True)
        ranks = [
            stack.enter_context(RankProcess([*command, str(folder.path), str(rank)], rank))
            for rank in range(spec.ranks)
        ]
        heard_at, asked = time.monotonic(), False
        while True:
            for rank in _with_news(ranks):
                heard_at = time.monotonic()
                for record in rank.hear():
                    _pass_on(record, emit, phases)
            if interrupted() and not asked:
                asked = True
                for rank in ranks:
                    rank.ask()
            outcome = outcome_of_ranks(
                [rank.standing() for rank in ranks], quiet_seconds=time.monotonic() - heard_at
            )
            if outcome is not None:
                return outcome


class RankProcess:
    """A rank and the pipes to it; at the end of a `with` its process is ended if it still runs.

    Args:
        argv: Program and arguments.
        rank: Its number.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, argv: Sequence[str], rank: int) -> None:
        # A rank lets signal 15 in once it has taken it over: one that comes before is kept.
        with _held_back(signal.SIGTERM):
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **LOOPBACK_ONLY},
            )
        assert self._process.stdout is not None
        self._rank = rank
        self._pipe = self._process.stdout
        self._listener = Listener(self._pipe.fileno())
        self._said: Outcome | None = None

    @property
    def is_heard_out(self) -> bool:
        """Whether everything it ever said was heard."""
        return self._listener.closed

    def fileno(self) -> int:
        """Returns the descriptor that it is heard on."""
        return self._pipe.fileno()

    def hear(self) -> list[Record]:
        """Returns the records that have come in; waits if none has. Its last word is kept."""
        records: list[Record] = []
        for record in self._listener.hear():
            if isinstance(record, Outcome):
                self._said = record
            else:
                records.append(record)
        if self._listener.closed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSING_SECONDS)
        return records

    def standing(self) -> Standing:
        """Returns its last word and its exit status, as far as there are any."""
        status = self._process.poll() if self._listener.closed else None
        return Standing(rank=self._rank, said=self._said, status=status)

    def ask(self) -> None:
        """Asks for an orderly end."""
        self._process.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process.poll() is None:
            self._kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._pipe.close()

    def _kill(self) -> None:
        with contextlib.suppress(psutil.Error):
            for below in psutil.Process(self._process.pid).children(recursive=True):
                below.kill()
        self._process.kill()
        try:
            self._process.wait(KILLING_SECONDS)
        except subprocess.TimeoutExpired:
            _log.warning("rank %d was killed, but has not gone yet", self._rank)


def _with_news(ranks: Iterable[RankProcess]) -> list[RankProcess]:
    """Returns the ranks that have said something or ended, after waiting a little for the first."""
    unheard = [rank for rank in ranks if not rank.is_heard_out]
    return select.select(unheard, [], [], LOOK_SECONDS)[0]


def _pass_on(record: Record, emit: Callable[[Record], None], phases: Phases) -> None:
    """Writes a record down; seconds of phases are counted where the history is written."""
    if isinstance(record, PhaseBegun):
        phases.begin(record.phase)
    else:
        emit(record)


@contextlib.contextmanager
def _held_back(number: signal.Signals) -> Iterator[None]:
    """Keeps a signal from this thread, and from processes that it starts, for as long as it runs.

    Processes go on with it held back.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
