"""A study's database and Optuna study: created once, refused when they are another study's."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sweeper.errors import Fault, StudyBusy, StudyConflict
from sweeper.files import write_whole
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan
from sweeper.study.recorded import begun_on
from sweeper.study.storage import SQLITE, database_url, schema_name
from sweeper.sweep.conflicts import refuse_conflicts, started_cells
from sweeper.sweep.optuna_study import OptunaStudy


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


@contextlib.contextmanager
def founded(
    study_file: StudyFile, plan: Plan, folder: StudyFolder, *, elsewhere: bool = False
) -> Iterator[tuple[StudyStore, OptunaStudy]]:
    """Opens the study's record and its Optuna study, creating what is missing.

    Only the study's one coordinator may call it. Whoever was killed half-way is followed by a
    call that does the rest.

    Args:
        elsewhere: See `refuse_conflicts`.

    Raises:
        StudyConflict: The folder holds a study with another fingerprint, or one whose trials ran
            under other limits, or the database one of another run folder.
        StudyFileError: The URL of the database is not complete.
        StoreError: The database cannot be used.
    """
    storage = study_file.study.run.storage
    url = database_url(storage, folder, os.environ)
    if storage == SQLITE and not folder.database.exists():
        _refuse_lost_database(folder, folder.database.name)
    with StudyStore.create(url) as store:
        if storage != SQLITE:
            _refuse_strange_study(store, folder)
        refuse_conflicts(store, plan, study_file, folder, elsewhere=elsewhere)
        if store.find_study() is None:
            write_whole(folder.plan, _plan_text(plan), durable=True)
            write_whole(folder.recorded_study, study_file.text, durable=True)
        store.record_study(_record_of(study_file, plan))
        store.add_cells(plan.cells)
        factor = study_file.study.compare.key.rpartition(".")[2]
        optuna_study = OptunaStudy.open(url, name=plan.name, factor=factor, cells=plan.cells)
        with contextlib.closing(optuna_study):
            optuna_study.enqueue(fingerprint=plan.fingerprint)
            store.link_optuna(optuna_study.numbers())
            yield store, optuna_study


def _refuse_strange_study(store: StudyStore, folder: StudyFolder) -> None:
    """Makes sure that run folder and database server speak of one study.

    Raises:
        StudyConflict: One of them knows nothing of the other's.
    """
    schema = schema_name(folder.path.name)
    if store.find_study() is None:
        _refuse_lost_database(folder, f"schema {schema} in the database of run.storage")
    elif not folder.recorded_study.exists():
        raise StudyConflict(
            Fault(
                what="the database holds a study of this name that began in another run folder",
                where=f"schema {schema}",
                got=str(folder.path),
                hint="Run it there, or start a study of its own with --as NEW-NAME",
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
    if not any(folder.trials.glob("*/attempts/*")):
        return
    raise StudyConflict(
        Fault(
            what="the run folder holds attempts, but the database that knew them is gone",
            where=str(folder.path),
            expected=expected,
            hint="Put the database back, or move the folder away, or start a study of its own "
            "with --as NEW-NAME",
        )
    )


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
    database = folder.database
    sidecars = (database.with_name(database.name + ending) for ending in ("-wal", "-shm"))
    for file in (folder.plan, folder.recorded_study, *sidecars, database):
        file.unlink(missing_ok=True)
    return attempts


def _record_of(study_file: StudyFile, plan: Plan) -> RecordedStudy:
    return RecordedStudy(
        name=plan.name,
        fingerprint=plan.fingerprint,
        protocol=plan.protocol,
        study_yaml=study_file.text,
        factor_key=study_file.study.compare.key,
        arms={arm.name: arm.value for arm in plan.arms},
        seeds=study_file.study.seeds,
        budget_target_tokens=plan.budget_target_tokens,
    )


def _plan_text(plan: Plan) -> str:
    """Returns cells, exposure plan and fingerprint as JSON, for people and other programs."""
    exposures = {
        str(seed): dataclasses.asdict(exposure) | {"planned": exposure.planned.model_dump()}
        for seed, exposure in plan.exposures.items()
    }
    content = {
        "name": plan.name,
        "fingerprint": plan.fingerprint,
        "budget_target_tokens": plan.budget_target_tokens,
        "cells": [dataclasses.asdict(cell) for cell in plan.cells],
        "exposures": exposures,
    }
    return json.dumps(content, indent=1, allow_nan=False)
