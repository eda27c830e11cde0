"""What a user may change by hand in a study that nobody runs: open a trial again, cancel, close."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeper.errors import Fault, StudyConflict
from sweeper.records import OutcomeKind, Reason
from sweeper.store.reading import CellRecord
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.plan import Cell
from sweeper.study.recorded import recorded_url
from sweeper.sweep.agreed_limits import raised_limits, under_agreed_limits
from sweeper.sweep.conflicts import refuse_frozen
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.founding import opened
from sweeper.sweep.mirroring import mirrored
from sweeper.sweep.observer import Observer
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.reconciling import reconcile
from sweeper.sweep.running import take_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A trial that may run again.

    Attributes:
        outcome: How it had ended.
        reason: Likewise.
        from_the_start: Whether it begins anew; otherwise it goes on from its newest checkpoint.
    """

    trial: str
    outcome: OutcomeKind
    reason: Reason
    from_the_start: bool


def retry_trial(
    study_file: StudyFile, folder: StudyFolder, trial: str, *, observer: Observer
) -> Reopened:
    """Opens a trial again that failed, was lost or cancelled, or found the disk full.

    The next run takes it up.

    A failed one begins anew, for what it left may be what was wrong with it; the others go on.

    Raises:
        StudyConflict: How it ended is a result, or it has not ended, or the study is closed.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    with attended(study_file, folder, observer) as store:
        _refuse_closed(store, folder)
        cell = _cell(store, trial)
        _refuse_retry(cell)
        assert cell.outcome is not None
        assert cell.reason is not None
        anew = cell.outcome is OutcomeKind.FAILED
        store.reopen(trial, from_the_start=anew)
    return Reopened(trial=trial, outcome=cell.outcome, reason=cell.reason, from_the_start=anew)


def amend_limits(
    study_file: StudyFile, folder: StudyFolder, wanted: Mapping[str, str], *, observer: Observer
) -> tuple[str, ...]:
    """Raises limits for all arms, on record; returns the trials that go on because of it.

    Args:
        wanted: Values as a study file has them, by the limit's name.

    Raises:
        StudyConflict: One of them is not higher than what was agreed, or the study is closed.
        StudyFileError: One of them is no limit, or its value none.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    with attended(study_file, folder, observer) as store:
        _refuse_closed(store, folder)
        agreed = under_agreed_limits(load_study(folder.recorded_study), store).study.run.limits
        raised = raised_limits(agreed, wanted)
        cells = tuple(cell.cell for cell in store.cells() if _ended_by(cell, raised))
        store.amend(raised, cells)
    return cells


def _ended_by(cell: CellRecord, limits: Mapping[str, str]) -> bool:
    return cell.outcome is OutcomeKind.LIMITED and str(cell.reason) in limits


def cancel_trial(
    study_file: StudyFile, folder: StudyFolder, trial: str, *, observer: Observer
) -> None:
    """Takes a trial that waits out of the study; until that is closed it can be retried.

    Raises:
        StudyConflict: It has ended, or never was to run, or the study's choice is frozen.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    with attended(study_file, folder, observer) as store:
        refuse_frozen(store, folder)
        cell = _cell(store, trial)
        if not store.cancel(trial, "cancelled by the user"):
            raise StudyConflict(
                Fault(
                    what="the trial is not cancelled, for it does not wait",
                    where=trial,
                    got=_state(cell),
                    expected="waiting",
                )
            )


def close_study(
    study_file: StudyFile, folder: StudyFolder, *, observer: Observer
) -> tuple[str, ...]:
    """Closes the study: cells that are open end as cancelled; returns these. Again does no harm.

    Raises:
        StudyConflict: Its choice is frozen.
        StudyBusy: A coordinator runs the study.
        StoreError: The database cannot be used.
    """
    with attended(study_file, folder, observer) as store:
        refuse_frozen(store, folder)
        return () if store.is_closed() else store.close_study("the user closed the study")


@contextlib.contextmanager
def attended(
    study_file: StudyFile, folder: StudyFolder, observer: Observer
) -> Iterator[StudyStore]:
    """Opens the record as the study's only coordinator, with Optuna in step before and after."""
    with only_coordinator(folder) as owner:
        take_up(study_file, folder, owner, replace=False, observer=observer)
        with in_step(study_file, folder) as store:
            yield store


@contextlib.contextmanager
def in_step(study_file: StudyFile, folder: StudyFolder) -> Iterator[StudyStore]:
    """Opens the record for the study's only coordinator, with Optuna in step before and after."""
    with opened(study_file, folder) as store:
        assert store is not None, "the caller has found it on record"
        with contextlib.closing(_mirror(store, folder)) as optuna_study:
            with store.turn():
                optuna_study.enqueue(fingerprint=store.study().fingerprint)
            reconcile(store, optuna_study)
            with mirrored(store, folder, max_resumes=study_file.study.run.max_resumes):
                yield store
            reconcile(store, optuna_study)


def _mirror(store: StudyStore, folder: StudyFolder) -> OptunaStudy:
    study, url = store.study(), recorded_url(folder, os.environ)
    assert url is not None, "the caller has found it on record"
    return OptunaStudy.open(
        url,
        name=study.name,
        factor=study.factor_key.rpartition(".")[2],
        cells=[
            Cell(id=cell.cell, arm=cell.arm, seed=cell.seed, value=cell.value)
            for cell in store.cells()
        ],
    )


def _refuse_closed(store: StudyStore, folder: StudyFolder) -> None:
    refuse_frozen(store, folder)
    if store.is_closed():
        raise StudyConflict(
            Fault(
                what="the study is closed, and nothing of it runs again",
                where=str(folder.path),
                hint="`sweeper run STUDY.yaml --as NEW-NAME` starts a study of its own",
            )
        )


def _refuse_retry(cell: CellRecord) -> None:
    """Refuses to run a trial again whose end is a result, or that has not ended."""
    if _may_be_retried(cell):
        return
    why, hint = _NOT_ENDED if cell.outcome is None else _REFUSALS[cell.outcome]
    raise StudyConflict(
        Fault(
            what=f"the trial is not retried: {why}",
            where=cell.cell,
            got=_state(cell),
            expected="failed, lost or cancelled, or ended by a full disk",
            hint=hint,
        )
    )


def _may_be_retried(cell: CellRecord) -> bool:
    """A full disk has no limit that could be raised: whoever made room may go on."""
    return cell.outcome in _RETRIED or cell.reason is Reason.DISK


_RETRIED = frozenset({OutcomeKind.FAILED, OutcomeKind.LOST, OutcomeKind.CANCELLED})
_NOT_ENDED = ("it has not ended", "`sweeper run STUDY` runs what is open")
_REFUSALS = {
    OutcomeKind.COMPLETED: (
        "it is complete, and a result is never run again",
        "`sweeper compare STUDY` reads it",
    ),
    OutcomeKind.STOPPED: (
        "what a stop condition finds is a result of the arm, and is never run again",
        "`sweeper diagnose STUDY TRIAL` says what stood out",
    ),
    OutcomeKind.LIMITED: (
        "the same limit would end it again",
        "`sweeper amend STUDY --limit NAME=VALUE` raises it for all arms, and lets the trial go on",
    ),
}


def _cell(store: StudyStore, trial: str) -> CellRecord:
    cells: Sequence[CellRecord] = store.cells()
    return next(cell for cell in cells if cell.cell == trial)


def _state(cell: CellRecord) -> str:
    return str(cell.status) if cell.outcome is None else f"{cell.outcome} ({cell.reason})"
