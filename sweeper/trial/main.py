"""The process of one attempt: `python -m sweeper.trial FOLDER`.

It reads `spec.json`, appends facts to `events.jsonl` and says the outcome last; see `ExitStatus`.
Standard input is a pipe from its supervisor: when that closes, this process ends with all its
children. Signal 15 asks for an orderly end. An attempt of several ranks is carried out by that many
processes below this one, see `rank_processes.py`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sweeper.errors import RunFolderError
from sweeper.records import Outcome, Phase, Record
from sweeper.study.spec import TrialSpec
from sweeper.training.phases import Phases
from sweeper.trial.ending import exit_status_of, is_disk_full, outcome_of
from sweeper.trial.events import EventLog
from sweeper.trial.exit_status import ExitStatus
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.interruption import Interruption, end_without_parent
from sweeper.trial.logs import configure_logging
from sweeper.trial.rank_processes import carry_out_by_ranks

_log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Runs the attempt in the folder that the command line names; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sweeper.trial", description=__doc__)
    parser.add_argument("folder", type=Path, help="the attempt's folder, with spec.json in it")
    folder = AttemptFolder(parser.parse_args(arguments).folder.resolve())
    interruption = Interruption()
    interruption.listen()
    end_without_parent(sys.stdin.fileno())
    try:
        return run(folder, interrupted=interruption.is_asked)
    except OSError as error:
        if not is_disk_full(error):
            raise
        _log.error("%s: %s", folder.events, error)
        return ExitStatus.DISK_FULL
    except RunFolderError as error:
        _log.error("%s", error)
        return ExitStatus.REFUSED


def run(folder: AttemptFolder, *, interrupted: Callable[[], bool]) -> ExitStatus:
    """Runs the attempt and leaves its history in the folder.

    Raises:
        RunFolderError: The folder has seen an attempt already.
        OSError: The history cannot be written.
    """
    log = EventLog(folder.events)
    try:
        phases = Phases(log.emit, time.monotonic)
        phases.begin(Phase.LOADING)
        outcome = _outcome(folder, log.emit, phases, interrupted)
        phases.begin(Phase.ENDING)
        log.emit(outcome)
    finally:
        log.close()
    return exit_status_of(outcome)


def _outcome(
    folder: AttemptFolder,
    emit: Callable[[Record], None],
    phases: Phases,
    interrupted: Callable[[], bool],
) -> Outcome:
    """Returns how the attempt ended, whatever happens: this is the process's boundary."""
    try:
        spec = TrialSpec.read(folder.spec)
        configure_logging(spec)
        if spec.ranks > 1:
            return carry_out_by_ranks(
                spec, folder, emit=emit, interrupted=interrupted, phases=phases
            )
        # After the watches are in place: importing torch takes many seconds.
        from sweeper.trial.attempt import carry_out  # noqa: PLC0415

        return carry_out(
            spec,
            folder,
            emit=emit,
            interrupted=interrupted,
            clock=time.monotonic,
            phases=phases,
        )
    except Exception as error:  # noqa: BLE001 - recorded with its traceback
        _log.exception("the attempt failed")
        return outcome_of(error)
