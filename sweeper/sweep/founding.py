"""A study's database and Optuna study: created once, refused when they are another study's."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sweeper.errors import Fault, StudyBusy, StudyConflict
from sweeper.files import write_whole
from sweeper.store.condition import try_place
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.database_place import database_file, settle_database_file
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan
from sweeper.study.recorded import begun_on, lost_database
from sweeper.study.storage import SQLITE, database_url, schema_name
from sweeper.sweep.adopting import WAY_IN
from sweeper.sweep.conflicts import refuse_conflicts, started_cells
from sweeper.sweep.extending import plan_on_record
from sweeper.sweep.mirroring import mirrored
from sweeper.sweep.observer import Observer, SilentObserver
from sweeper.sweep.optuna_study import OptunaStudy
from sweeper.sweep.plan_file import write_plan

_log = logging.getLogger(__name__)

_OPEN_FOLDER = "other users may look into the run folder; `chmod 700 {}` keeps them out"


@contextlib.contextmanager
def opened(study_file: StudyFile, folder: StudyFolder) -> Iterator[StudyStore | None]:
    """Opens the database that the folder's study has begun on; None when none has begun.

    Raises:
        StudyConflict: The study file names another one.
        StudyFileError: The URL of the database is not complete.
        StoreError: It cannot be used.
    """
    begun = begun_on(folder)
    if begun is None:
        yield None
        return
    storage = study_file.study.run.storage
    if storage != begun:
        raise StudyConflict(_other_storage(folder))
    with StudyStore.create(database_url(storage, folder, os.environ)) as store:
        yield store


def try_server(study_file: StudyFile, folder: StudyFolder) -> None:
    """Makes sure that a new study can be founded on its server, before anything is prepared.

    Raises:
        StudyFileError: The URL of the database is not complete.
        StoreError: It cannot be.
    """
    storage = study_file.study.run.storage
    if storage != SQLITE and begun_on(folder) is None:
        try_place(database_url(storage, folder, os.environ))


@contextlib.contextmanager
def founded(
    study_file: StudyFile,
    plan: Plan,
    folder: StudyFolder,
    *,
    elsewhere: bool = False,
    joins: bool = False,
    observer: Observer | None = None,
) -> Iterator[tuple[StudyStore, OptunaStudy]]:
    """Opens the study's record and its Optuna study, creating what is missing.

    Coordinators on several hosts do so one after another. Whoever was killed half-way is followed
    by a call that does the rest.

    Args:
        elsewhere: See `refuse_conflicts`.
        joins: Whether the study may have begun in a run folder on another host's disk.
        observer: Is told where the database is, if that is not the run folder.

    Raises:
        StudyConflict: The folder holds a study with another fingerprint, or one whose trials ran
            under other limits, or the database one of another run folder.
        StudyFileError: The URL of the database is not complete.
        RunFolderError: The run folder's file system allows no SQLite file, and no other does.
        StoreError: The database cannot be used.
    """
    watching = observer or SilentObserver()
    storage = study_file.study.run.storage
    if storage == SQLITE:
        settled = settle_database_file(folder, os.environ)
        if settled.told is not None:
            watching.message(settled.told)
        if not settled.file.exists():
            _refuse_lost_database(folder, str(settled.file))
    url = database_url(storage, folder, os.environ)
    with StudyStore.create(url) as store, contextlib.ExitStack() as closing:
        with store.turn():
            if storage != SQLITE:
                _refuse_strange_study(store, folder, joins=joins)
            refuse_conflicts(store, plan, study_file, folder, elsewhere=elsewhere)
            plan = plan_on_record(plan, study_file.study, store)
            if store.find_study() is None or not folder.recorded_study.exists():
                _write_study(study_file, plan, folder, watching)
            elif any(arm.round for arm in plan.arms):
                _complete_plan(study_file, plan, folder)
            store.record_study(_record_of(study_file, plan), data=plan.data)
            store.add_cells(plan.cells)
            factor = study_file.study.compare.key.rpartition(".")[2]
            optuna_study = OptunaStudy.open(url, name=plan.name, factor=factor, cells=plan.cells)
            closing.callback(optuna_study.close)
            optuna_study.enqueue(fingerprint=plan.fingerprint)
            store.link_optuna(optuna_study.numbers())
        with mirrored(store, folder, max_resumes=study_file.study.run.max_resumes):
            yield store, optuna_study


def _write_study(
    study_file: StudyFile, plan: Plan, folder: StudyFolder, watching: Observer
) -> None:
    """Writes plan and study file into the run folder, which says then that the study has begun."""
    if folder.is_for_others:
        watching.message(_OPEN_FOLDER.format(folder.path))
    write_plan(study_file, plan, folder)
    write_whole(folder.recorded_study, study_file.text, durable=True)


def _complete_plan(study_file: StudyFile, plan: Plan, folder: StudyFolder) -> None:
    """Adds to the plan in the run folder what was added to the study; a full disk does no harm."""
    try:
        write_plan(study_file, plan, folder)
    except OSError as error:
        _log.warning("%s: %s", folder.plan, error)


def _refuse_strange_study(store: StudyStore, folder: StudyFolder, *, joins: bool) -> None:
    """Makes sure that run folder and database server speak of one study.

    Args:
        joins: Whether the study's other run folders may be unknown to this one.

    Raises:
        StudyConflict: One of them knows nothing of the other's.
    """
    schema = schema_name(folder.path.name)
    if store.find_study() is None:
        _refuse_lost_database(folder, f"schema {schema} in the database of run.storage")
    elif not joins and not folder.recorded_study.exists():
        raise StudyConflict(
            Fault(
                what="the database holds a study of this name that began in another run folder",
                where=f"schema {schema}",
                got=str(folder.path),
                hint=f"Run it there, or: {WAY_IN}. --as NEW-NAME starts a study of its own",
            )
        )


def refuse_single_host(study_file: StudyFile, folder: StudyFolder) -> None:
    """Accepts the study as one whose record several hosts can share.

    Raises:
        StudyConflict: Its record is an SQLite file, which belongs to one host.
    """
    if study_file.study.run.storage != SQLITE:
        return
    begun = begun_on(folder) is not None
    new_name = " and, as this one has begun on SQLite, `--as NEW-NAME`" if begun else ""
    raise StudyConflict(
        Fault(
            what="workers on several hosts share a study through a database server, and its record "
            "is an SQLite file, which only one host may write",
            where="run.storage",
            got=study_file.study.run.storage,
            expected="postgresql+psycopg://USER:${PASSWORD}@HOST/DATABASE",
            hint=f"Write that in the study file{new_name}; or keep SQLite and `sweeper run`, which "
            "uses all devices of this host, or those of an engine such as Slurm (run.launcher)",
        )
    )


def _other_storage(folder: StudyFolder) -> Fault:
    return Fault(
        what="the study has begun on another database",
        where="run.storage",
        expected=f"what {folder.recorded_study} says",
        hint="Put it back, or start a study of its own with --as NEW-NAME. If the same database "
        "now has another address, write it in both files",
    )


def _refuse_lost_database(folder: StudyFolder, expected: str) -> None:
    """Refuses to found a study among attempts that no database knows any more.

    Raises:
        StudyConflict: It would run them again, in their own folders.
    """
    if (lost := lost_database(folder)) is not None:
        raise StudyConflict(dataclasses.replace(lost, expected=expected))


def discard(folder: StudyFolder, store: StudyStore, study_file: Path) -> int:
    """Deletes the recorded study with everything its trials left; returns how many attempts.

    Raises:
        StudyConflict: One of its trials is completed or stopped, so it stays.
        StudyBusy: One of them is run by a coordinator on another host.
    """
    held = store.live_attempts()
    if held:
        owner = held[0].claim.owner
        raise StudyBusy(
            Fault(
                what=f"trial {held[0].claim.cell} is being run by another coordinator",
                got=f"process {owner.pid} on {owner.host}",
                hint=f"Wait until its lease ends, at {held[0].lease_expires_at:%H:%M} UTC",
            )
        )
    started = started_cells(store)
    if started:
        raise StudyConflict(
            Fault(
                what="the recorded study is not replaced, because trials of it have ended",
                where=str(folder.path),
                got=", ".join(started),
                expected="no trial completed or stopped",
                hint=f"`sweeper run {study_file} --as NEW-NAME` starts a study of its own",
            )
        )
    attempts = len(store.attempts()) if store.find_study() else 0
    for part in (folder.trials, folder.prepared):
        if part.exists():
            shutil.rmtree(part)
    # What says that there is a study goes last: as long as it is there, the same command does the
    # rest. That is the database, or for one on a server the recorded study file.
    store.delete()
    database = database_file(folder)
    sidecars = (database.with_name(database.name + ending) for ending in ("-wal", "-shm"))
    own = (folder.journal, folder.chain, folder.plan, folder.recorded_study, *sidecars, database)
    for file in (*own, folder.database_note):
        file.unlink(missing_ok=True)
    return attempts


def _record_of(study_file: StudyFile, plan: Plan) -> RecordedStudy:
    return RecordedStudy(
        name=plan.name,
        fingerprint=plan.fingerprint,
        protocol=plan.protocol,
        study_yaml=study_file.text,
        factor_key=study_file.study.compare.key,
        arms={arm.name: arm.value for arm in plan.arms if arm.round == 0},
        seeds=study_file.study.seeds,
        budget_target_tokens=plan.budget_target_tokens,
    )
