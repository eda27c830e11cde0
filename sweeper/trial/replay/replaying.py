"""The replay itself: from a checkpoint to the last window on record, under a microscope."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from sweeper.records import Evaluation, Outcome, Record, Stop, Update
from sweeper.training.adapter import AdaptedModel
from sweeper.training.determinism import make_deterministic, seed_everything
from sweeper.training.environment import describe_environment
from sweeper.training.loop import train
from sweeper.training.microscope import Microscope
from sweeper.training.trainable import digest
from sweeper.training.window import Window
from sweeper.trial.attempt import load
from sweeper.trial.device import given_device
from sweeper.trial.ending import outcome_of
from sweeper.trial.events import EventLog
from sweeper.trial.replay.changes import PRECISION, fitting
from sweeper.trial.replay.findings import report_of
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.planning import Work, plan
from sweeper.trial.replay.recorded_run import Anomaly, is_own_doing
from sweeper.trial.replay.report import ReplayReport
from sweeper.trial.replay.request import ReplayRequest

_OF_THE_PRECISION = ("precision", "dtype", "loss_scaling")
"""What the names of the environment's fields hold that another precision changes."""


class _EndOfRecord(Exception):
    """The loop asks for a window after the last one on record."""


class _Replayed:
    """Keeps what the loop reports, and tells of each window."""

    def __init__(
        self, log: EventLog, microscope: Microscope, tell: Callable[[str], None], *, last: int
    ) -> None:
        self.records: list[Record] = []
        self._log = log
        self._microscope = microscope
        self._tell = tell
        self._last = last

    def take(self, record: Record) -> None:
        self.records.append(record)
        self._log.emit(record)
        if isinstance(record, Update):
            self._microscope.after_update(record.window)
            self._tell(f"window {record.window} of {self._last}: loss {_short(record.loss)}")
        elif isinstance(record, Evaluation):
            self._tell(f"{record.split} after window {record.window}: loss {_short(record.loss)}")

    def anomaly(self, outcome: Outcome | None, *, before: int) -> Anomaly | None:
        """Returns what ended the replay, if it was the trial's own doing."""
        for record in self.records:
            if isinstance(record, Stop):
                return Anomaly(reason=record.reason, window=record.window, detail=record.detail)
        if outcome is None or not is_own_doing(outcome):
            return None
        windows = [record.window for record in self.records if isinstance(record, Update)]
        return Anomaly(
            reason=outcome.reason, window=max(windows, default=before), detail=outcome.detail
        )


def replay(
    request: ReplayRequest, folder: ReplayFolder, *, tell: Callable[[str], None]
) -> ReplayReport:
    """Carries out a replay; nothing is written but the events in its own folder.

    Args:
        tell: Takes a line of progress now and then.

    Raises:
        UserError: The attempt cannot be replayed, or not with this change.
        DeviceMissing: The slot's GPU is not there.
        OSError: The events cannot be written.
    """
    device = given_device(os.environ)
    work = plan(request, device)
    make_deterministic(deterministic=work.spec.deterministic, threads=work.spec.threads)
    adapted = load(work.spec, device)
    differences = _differences(work, adapted)
    microscope = Microscope(adapted.model, adapted.tensors, micro_batch=work.spec.micro_batch)
    log = EventLog(folder.events)
    try:
        replayed = _Replayed(log, microscope, tell, last=work.run.last_window)
        outcome = _train(work, adapted, microscope, replayed.take)
    finally:
        log.close()
    return report_of(
        work,
        [r for r in replayed.records if isinstance(r, Update | Evaluation)],
        replayed.anomaly(outcome, before=work.start.after_window),
        microscope,
        differences=differences,
    )


def _train(
    work: Work, adapted: AdaptedModel, microscope: Microscope, emit: Callable[[Record], None]
) -> Outcome | None:
    """Runs the windows; returns how they ended by themselves, None at the last one on record."""
    found, device = work.start.found, next(adapted.model.parameters()).device
    seed_everything(work.spec.seed)
    try:
        return train(
            adapted.model,
            _up_to_the_end(work),
            work.course,
            emit=emit,
            interrupted=lambda: False,
            clock=time.monotonic,
            resume=None if found is None else fitting(found.snapshot, work.spec, device),
            probe=microscope,
        )
    except _EndOfRecord:
        return None
    except Exception as error:  # noqa: BLE001  # an error of the trial is what is looked for
        return outcome_of(error)


def _up_to_the_end(work: Work) -> Iterator[Window]:
    """Yields the windows; where the trial would have gone on, the loop is left from here."""
    yield from work.windows
    if work.run.last_window < work.spec.planned.windows:
        raise _EndOfRecord


def _differences(work: Work, adapted: AdaptedModel) -> tuple[str, ...]:
    """Returns what keeps the replay from being the trial to the bit, as sentences."""
    started, found = work.run.started, work.start.found
    assert started is not None, "windows were read"
    now = describe_environment(adapted.model, work.spec.training, micro_batch=work.spec.micro_batch)
    expected = _OF_THE_PRECISION if work.change and work.change.key == PRECISION else ()
    names = sorted(started.environment.keys() | now.keys())
    sentences = [
        f"{name} was {started.environment.get(name, 'not recorded')},"
        f" now {now.get(name, 'not recorded')}"
        for name in names
        if started.environment.get(name) != now.get(name)
        and not any(part in name for part in expected)
    ]
    if digest(adapted.tensors) != started.initial_digest:
        sentences.append("the initial trainable tensors are not those of the trial")
    if found is not None and found.snapshot.device_type != adapted_device(adapted):
        sentences.append(f"the checkpoint was made on {found.snapshot.device_type}")
    if work.run.spec.ranks > 1:
        sentences.append(
            f"the trial ran on {work.run.spec.ranks} ranks and the replay runs on one: sums are"
            " equal to float tolerance only, and dropout draws otherwise"
        )
    return tuple(sentences)


def adapted_device(adapted: AdaptedModel) -> str:
    """Returns the kind of device that the model is on: `cpu` or `cuda`."""
    return next(adapted.model.parameters()).device.type


def _short(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.6g}"
