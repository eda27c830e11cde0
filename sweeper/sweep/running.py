"""Runs a study from its file to its end; a study that was begun goes on, an ended one stays."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field

from joblib import Parallel, delayed
from pydantic import TypeAdapter, ValidationError

from sweeper.errors import Fault, StudyFileError, SweeperError
from sweeper.store.claims import Owner
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan, make_plan
from sweeper.study.preparing import prepare
from sweeper.study.schema import StudyName
from sweeper.sweep.adopting import adopt_leftovers
from sweeper.sweep.agreed_limits import under_agreed_limits
from sweeper.sweep.conflicts import refuse_other_devices
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.disk_room import least_disk_bytes
from sweeper.sweep.early_end import baseline_failure, first_trial_failure, is_proven
from sweeper.sweep.founding import discard, founded, opened
from sweeper.sweep.observer import Observer, SilentObserver
from sweeper.sweep.quarantine import DeviceFaults
from sweeper.sweep.reconciling import reconcile
from sweeper.sweep.slot_loop import run_slot
from sweeper.sweep.stop_request import StopRequest
from sweeper.sweep.study_end import RunStatus, StudyEnd, count, is_open, run_status
from sweeper.sweep.study_run import StudyRun, terms_of
from sweeper.sweep.turns import Turns
from sweeper.training.report import ModelReport
from sweeper.workers.launcher import Launcher
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.slots import (
    Slot,
    find_slots,
    this_machine,
    trial_memory_bytes,
    unused_devices,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoices:
    """What may be chosen for one run of a study.

    Attributes:
        as_name: Run the study under this name, in a run folder of its own.
        replace: Discard the recorded study first, if none of its trials is completed or stopped.
        slots: Instead of those that `run.slots` finds.
        launcher: Instead of child processes on this host; closed at the end.
        reverse_claims: Claim cells from the end of the plan, to show that the order is harmless.
        resume_elsewhere: Go on with other devices or ranks than trials of the same seed had; what
            was changed is marked on record, and compared as such.
    """

    as_name: str | None = None
    replace: bool = False
    slots: tuple[Slot, ...] | None = None
    launcher: Launcher | None = None
    reverse_claims: bool = False
    resume_elsewhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Onlookers:
    """Who is told what happens, and who may ask the run to stop."""

    observer: Observer = field(default_factory=SilentObserver)
    stop: StopRequest = field(default_factory=StopRequest)


def run_study(
    study_file: StudyFile,
    *,
    observer: Observer | None = None,
    stop: StopRequest | None = None,
    choices: RunChoices | None = None,
) -> StudyEnd:
    """Runs what is left of the study and returns how it stands then.

    Args:
        observer: Told what happens; from several threads.
        stop: The user's wish to end; see `stop_request.listening`.

    Raises:
        StudyFileError: `as_name` is no name for a study.
        RunFolderError: The run folder cannot be written.
        StudyBusy: Another coordinator is running the study.
        StudyConflict: The run folder holds another study, or one that `replace` may not discard.
        DataError: The records are not usable.
        ModelError: The model is not usable.
        PlanError: The study cannot be run as it asks.
        StoreError: The database cannot be used.
    """
    choices = choices or RunChoices()
    study_file = under_name(study_file, choices.as_name)
    folder = StudyFolder.beside(study_file.path, study_file.study.name)
    watching = Onlookers(observer=observer or SilentObserver(), stop=stop or StopRequest())
    with only_coordinator(folder) as owner:
        take_up(study_file, folder, owner, replace=choices.replace, observer=watching.observer)
        try:
            manifest = prepare(study_file, folder, progress=watching.observer.message)
        except SweeperError:
            if watching.stop.is_asked:  # Ctrl-C reached the preparing child too
                return _interrupted(study_file, folder)
            raise
        plan = make_plan(study_file, manifest, folder.prepared)
        return run_plan(study_file, plan, owner, watching=watching, choices=choices)


def under_name(study_file: StudyFile, name: str | None) -> StudyFile:
    """Returns the study under that name; the file's text stays as it is.

    Raises:
        StudyFileError: It is no name for a study.
    """
    if name is None:
        return study_file
    try:
        TypeAdapter(StudyName).validate_python(name)
    except ValidationError as error:
        raise StudyFileError(
            Fault(
                what="a study cannot have this name",
                where="--as",
                got=repr(name),
                expected="at most 100 letters, digits, `.`, `_` and `-`; a letter or digit first",
            )
        ) from error
    study = study_file.study.model_copy(update={"name": name})
    return dataclasses.replace(study_file, study=study)


def take_up(
    study_file: StudyFile,
    folder: StudyFolder,
    owner: Owner,
    *,
    replace: bool,
    observer: Observer,
) -> None:
    """Ends on record what an earlier coordinator left; then discards the study if asked to.

    Raises:
        StudyConflict: It is to be discarded, but trials of it have completed or were stopped.
        StudyBusy: A coordinator lives that does not hold the lock.
        StoreError: The database cannot be used.
    """
    with opened(study_file, folder) as store:
        study = None if store is None else store.find_study()
        if store is not None and study is not None:
            terms = terms_of(study_file, study.budget_target_tokens)
            adopt_leftovers(store, folder, owner, terms=terms, observer=observer)
        if store is not None and replace:
            attempts = discard(folder, store, study_file.path)
            observer.message(f"discarded the recorded study and its {attempts} attempts")


def run_plan(
    study_file: StudyFile,
    plan: Plan,
    owner: Owner,
    *,
    watching: Onlookers,
    choices: RunChoices,
) -> StudyEnd:
    """Founds the study if need be, runs its open cells, and brings Optuna in step.

    Args:
        owner: This process, the study's only coordinator.

    Raises:
        StudyConflict: The run folder holds a study with another fingerprint, or one whose seeds
            have begun in another way.
        PlanError: There is no slot to run on.
        StoreError: The database cannot be used.
    """
    folder = StudyFolder.beside(study_file.path, plan.name)
    elsewhere = choices.resume_elsewhere
    with founded(study_file, plan, folder, elsewhere=elsewhere) as (store, optuna_study):
        reconcile(store, optuna_study)
        study_file = under_agreed_limits(study_file, store)
        _settle(store, study_file)
        did_nothing = not any(is_open(cell) for cell in store.cells())
        if not did_nothing:
            found = choices.slots or _found_slots(study_file, folder, watching.observer)
            slots = _needed(found, store, plan)
            if not elsewhere:
                refuse_other_devices(store, slots)
            run = StudyRun(
                study_file=study_file,
                plan=plan,
                folder=folder,
                owner=owner,
                store=store,
                optuna_study=optuna_study,
                launcher=choices.launcher or LocalLauncher(logs=folder.logs),
                slots=tuple(slot.name for slot in slots),
                turns=Turns(proven=is_proven(store.trials())),
                faults=DeviceFaults(allowed=study_file.study.run.quarantine_after),
                stop=watching.stop,
                observer=watching.observer,
                reverse_claims=choices.reverse_claims,
                needed_disk_bytes=least_disk_bytes(study_file.study, folder),
                resume_elsewhere=elsewhere,
            )
            _run_slots(run, slots)
            reconcile(store, optuna_study)
        return _end(store, folder, did_nothing=did_nothing, interrupted=watching.stop.is_asked)


def _settle(store: StudyStore, study_file: StudyFile) -> None:
    """Ends the study early if an ending on record asks for it, and nobody came to do so."""
    why = first_trial_failure(store.trials()) or baseline_failure(
        store.cells(), rule=study_file.study.stop.study
    )
    if why is not None and store.study().ended_why is None:
        store.close_not_run(why)


def _needed(slots: tuple[Slot, ...], store: StudyStore, plan: Plan) -> tuple[Slot, ...]:
    """Returns no more slots than there is work for; a repeat may leave one of them unused."""
    repeats = sum(cell.repeats is not None for cell in plan.cells)
    return slots[: sum(is_open(cell) for cell in store.cells()) + repeats]


def _run_slots(run: StudyRun, slots: tuple[Slot, ...]) -> None:
    """Runs the slots side by side, in threads: the work is in child processes."""
    try:
        troubles = Parallel(n_jobs=len(slots), backend="threading")(
            delayed(run_slot)(run, slot) for slot in slots
        )
    except BaseException:
        run.stop.ask()  # the other slots' threads live on: they are to claim nothing more
        raise
    finally:
        run.launcher.close()
    for trouble in troubles:
        if trouble is not None:
            raise trouble


def _found_slots(
    study_file: StudyFile, folder: StudyFolder, observer: Observer
) -> tuple[Slot, ...]:
    model = ModelReport.read(folder.model_report)
    need = trial_memory_bytes(
        parameters=model.parameters, trainable_parameters=model.trainable_parameters
    )
    run, machine = study_file.study.run, this_machine(os.environ)
    slots = find_slots(run, machine, memory_bytes_per_rank=need)
    if unused := unused_devices(run, machine):
        each = run.devices_per_trial
        observer.message(f"not used, for a trial takes {each} devices: {', '.join(unused)}")
    return slots


def _end(
    store: StudyStore, folder: StudyFolder, *, did_nothing: bool, interrupted: bool
) -> StudyEnd:
    study, cells = store.study(), store.cells()
    if study.ended_why is None and not any(is_open(cell) for cell in cells):
        store.end_study("every cell has ended")
    early = any(cell.status is CellStatus.NOT_RUN for cell in cells)
    return StudyEnd(
        name=study.name,
        folder=folder.path,
        counts=count(cells),
        status=run_status(cells, interrupted=interrupted),
        ended_early=study.ended_why if early else None,
        did_nothing=did_nothing,
    )


def _interrupted(study_file: StudyFile, folder: StudyFolder) -> StudyEnd:
    """Returns the end of a run that did not get as far as a plan."""
    return StudyEnd(
        name=study_file.study.name,
        folder=folder.path,
        counts={},
        status=RunStatus.INTERRUPTED,
        ended_early=None,
        did_nothing=False,
    )
