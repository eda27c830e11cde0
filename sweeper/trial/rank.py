"""One rank of an attempt: `python -m sweeper.trial.rank FOLDER RANK`, started by the attempt.

Standard input is a pipe from the attempt's process: when that closes, this process ends. Standard
output is the pipe that records go over; rank 0 tells all of them, the others their outcome alone.
Signal 15, which is held back at first, asks for an orderly end.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from sweeper.records import Outcome, Record
from sweeper.study.spec import TrialSpec
from sweeper.trial.ending import exit_status_of, outcome_of
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.interruption import Interruption, end_without_parent
from sweeper.trial.logs import configure_logging
from sweeper.trial.rank_channel import Teller

_log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Runs the rank that the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sweeper.trial.rank", description=__doc__)
    parser.add_argument("folder", type=Path, help="the attempt's folder, with spec.json in it")
    parser.add_argument("rank", type=int, help="from 0")
    parsed = parser.parse_args(arguments)
    interruption = Interruption()
    interruption.listen()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    end_without_parent(sys.stdin.fileno())
    outcome = _outcome(
        AttemptFolder(parsed.folder.resolve()),
        parsed.rank,
        tell=Teller.on_standard_output().tell,
        interrupted=interruption.is_asked,
    )
    return exit_status_of(outcome)


def _outcome(
    folder: AttemptFolder,
    rank: int,
    *,
    tell: Callable[[Record], None],
    interrupted: Callable[[], bool],
) -> Outcome:
    """Returns how the rank ended, whatever happens, and tells it: the process's boundary."""
    try:
        spec = TrialSpec.read(folder.spec)
        configure_logging(spec, rank=rank)
        # After the watches are in place: importing torch takes many seconds.
        from sweeper.trial.rank_attempt import carry_out_as_rank  # noqa: PLC0415

        return carry_out_as_rank(spec, folder, rank, tell=tell, interrupted=interrupted)
    except Exception as error:  # noqa: BLE001 - recorded with its traceback
        _log.exception("the rank failed")
        outcome = outcome_of(error)
        tell(outcome)
        return outcome


if __name__ == "__main__":
    sys.exit(main())
