"""Has the frozen checkpoints evaluated where the study's trials run, by its own launcher."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sweeper.errors import Fault, PlanError, SweeperError, from_plain
from sweeper.files import write_whole
from sweeper.opening.folder import EvaluationFolder
from sweeper.opening.request import OpeningReport, OpeningRequest
from sweeper.store.store import StudyStore
from sweeper.study.child import Progress
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.run_options import LocalLauncher, RunOptions
from sweeper.study.same_environment import CPU, DEVICE
from sweeper.workers.allowance import trial_limits
from sweeper.workers.launcher import Running
from sweeper.workers.launchers.choosing import launcher_for
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot, find_slots, this_machine
from sweeper.workers.supervision import Supervision

COMMAND = (sys.executable, "-m", "sweeper.opening")
"""The folder of the evaluation is added as the last argument."""

_LOOK_SECONDS = 0.1


def evaluate(
    store: StudyStore,
    request: OpeningRequest,
    folder: EvaluationFolder,
    study_file: StudyFile,
    study_folder: StudyFolder,
    *,
    progress: Progress,
) -> OpeningReport:
    """Returns what the child found; it ends with this process.

    Raises:
        UserError: It found something that a user can mend, or there is no place for it.
        SweeperError: It failed in another way.
    """
    run = study_file.study.run
    slot = _slot(run, _devices(store))
    write_whole(folder.request, request.to_json())
    launcher = launcher_for(run, study_folder.logs, environ=os.environ, trial_command=COMMAND)
    try:
        running = launcher.start(folder.attempt, slot, _limits(run))
        end = _followed(running, folder.attempt.stderr, progress)
    finally:
        launcher.close()
    return _report(folder, end)


def _devices(store: StudyStore) -> frozenset[str]:
    """Returns the models of the devices that the trials ran on."""
    return frozenset(
        start.environment[DEVICE] for start in store.starts() if DEVICE in start.environment
    )


def _slot(run: RunOptions, devices: frozenset[str]) -> Slot:
    """Returns a place of the kind that the trials ran on, for one process.

    Raises:
        PlanError: There is none here.
    """
    if not isinstance(run.launcher, LocalLauncher):
        return Slot(name="opening", device=None, engine=True)
    if devices <= {CPU}:
        return Slot(name="opening", device=None)
    alone = run.model_copy(update={"devices_per_trial": 1, "trials_per_device": 1})
    slots = find_slots(alone, this_machine(os.environ), memory_bytes_per_rank=1)
    gpus = [slot.device for slot in slots if slot.device is not None]
    if not gpus:
        raise PlanError(
            Fault(
                what="the trials ran on a GPU, and there is none here to evaluate them on",
                where="run.slots",
                expected=", ".join(sorted(devices)),
                hint="Open the test split where they ran: a processor gives other numbers",
            )
        )
    return Slot(name="opening", device=gpus[0])


def _limits(run: RunOptions) -> TrialLimits:
    """Returns the study's limits on memory; an evaluation is no trial, and reports no events."""
    return replace(
        trial_limits(run.limits), wall_clock_seconds=None, disk_bytes=None, hang_seconds=None
    )


def _followed(running: Running, log: Path, progress: Progress) -> Supervision:
    """Waits for the end, and passes on what the child says meanwhile."""
    lines = _Lines(log)
    while (end := running.poll()) is None:
        for line in lines.fresh():
            progress(line)
        time.sleep(_LOOK_SECONDS)
    for line in lines.fresh():
        progress(line)
    return end


class _Lines:
    """The whole lines that were added to a log; of a traceback nothing."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self._failed = False

    def fresh(self) -> Iterator[str]:
        """Yields the lines since the last call."""
        try:
            content = self._log.read_bytes()[self._read :]
        except OSError:
            return
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode("utf-8", errors="replace").splitlines():
            self._failed = self._failed or line.startswith("Traceback ")
            if not self._failed:
                yield line


def _report(folder: EvaluationFolder, end: Supervision) -> OpeningReport:
    if folder.report.exists():
        return OpeningReport.read(folder.report)
    if folder.refusal.exists():
        raise from_plain(json.loads(folder.refusal.read_bytes()))
    status = f"signal {end.signal}" if end.signal else f"exit status {end.exit_status}"
    last = end.stderr_tail.strip().splitlines()[-1:]
    raise SweeperError(
        Fault(
            what="the evaluation of the test split ended without a result",
            where=str(folder.path),
            got=": ".join([f"{end.cause}, {end.detail or status}", *last]),
            hint=f"Its output is in {folder.attempt.stderr}. The same command tries again, which "
            "is noted",
        )
    )
