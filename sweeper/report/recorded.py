"""Finds the recorded study that a STUDY argument means, and opens its store for reading."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeper.errors import Fault, NotFound, StoreError, StudyConflict, nearest
from sweeper.store.condition import Condition, condition_of
from sweeper.store.store import StudyStore
from sweeper.study.agreed import disagreements
from sweeper.study.fingerprint import ABSENT
from sweeper.study.folder import StudyFolder
from sweeper.study.following import recorded_study_file
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.recorded import begun_on, lost_database, recorded_url
from sweeper.study.schema import Study


def run_folder(study: str | Path) -> StudyFolder:
    """Returns the run folder of a study file, or the run folder itself.

    Raises:
        NotFound: There is neither a file nor a folder of that name, or the study has not begun.
        StudyFileError: The study file cannot be read, so that its name is not known.
    """
    folder = run_folder_of(study)
    if begun_on(folder) is not None:
        return folder
    if Path(study).is_dir():
        raise _not_begun(folder, "Name a study file, or the folder runs/NAME that a run of it made")
    raise _not_begun(folder, f"Start it with `sweeper run {shlex.quote(str(study))}`")


def run_folder_of(study: str | Path) -> StudyFolder:
    """Returns where a study file, or a run folder itself, has its run folder; begun or not.

    Raises:
        NotFound: There is neither a file nor a folder of that name.
        StudyFileError: The study file cannot be read, so that its name is not known.
    """
    path = Path(study)
    if not path.exists():
        raise NotFound(
            Fault(
                what="there is no such study file or run folder",
                where=str(study),
                hint="Write one with `sweeper init`, or name an existing one",
            )
        )
    if path.is_dir():
        return StudyFolder(path.resolve())
    study_file = load_study(path)
    return StudyFolder.beside(study_file.path, study_file.study.name)


@contextmanager
def reading(study: str | Path) -> Iterator[StudyStore]:
    """Opens the store of a begun study for reading; a running study is not disturbed.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StoreError: The database cannot be read.
    """
    folder = run_folder(study)
    url = recorded_url(folder, os.environ)
    assert url is not None
    with _opened(url, folder) as store:
        if not store.has_study():
            raise _not_begun(folder, "Start it with `sweeper run`")
        yield store


def _opened(url: str, folder: StudyFolder) -> StudyStore:
    try:
        return StudyStore.read(url)
    except StoreError:
        lost = lost_database(folder)
        if lost is None or condition_of(url) not in {Condition.ABSENT, Condition.EMPTY}:
            raise
        raise NotFound(lost) from None


def study_to_run(study: Path) -> StudyFile:
    """Returns the study of a file, or the one recorded in a run folder, which then goes on.

    Raises:
        NotFound: The folder holds no recorded study, or lies no longer beside its study file.
        StudyFileError: The file cannot be read, or holds no study.
    """
    if not study.is_dir():
        return load_study(study)
    folder = run_folder(study)
    recorded = load_study(folder.recorded_study)
    name = folder.path.name
    beside = folder.path.parent.parent / folder.recorded_study.name
    if StudyFolder.beside(beside, name) != folder:
        raise NotFound(
            Fault(
                what="a run folder that was moved can be read, but not run",
                where=str(folder.path),
                expected="runs/NAME beside the study file",
                hint="Name the study file",
            )
        )
    under_its_name = recorded.study.model_copy(update={"name": name})
    return dataclasses.replace(recorded, path=beside, study=under_its_name)


def recorded_settings(folder: StudyFolder) -> Study:
    """Returns the study as it was when it began, with the rate that it took if it took one."""
    return recorded_study_file(folder).study


def agreed_settings(store: StudyStore, folder: StudyFolder) -> Study:
    """Returns the same, and makes sure that it is what the study agreed on.

    Raises:
        StudyConflict: The study file in the run folder says otherwise; every such key is named.
    """
    recorded = recorded_study_file(folder)
    found = disagreements(recorded, store.study().protocol)
    if found:
        raise StudyConflict(
            Fault(
                what="the study file in the run folder is not the one that was agreed on, and "
                "nothing is concluded by it",
                where=str(folder.recorded_study),
                got=", ".join(_written(each.key, each.new) for each in found),
                expected=", ".join(_written(each.key, each.old) for each in found),
                hint="Put it back as it was when the study began; `sweeper audit "
                f"{shlex.quote(str(folder.path))}` says what else differs",
            )
        )
    return recorded.study


def _written(key: str, value: str) -> str:
    return f"no {key}" if value == ABSENT else f"{key} {value}"


def check_trial(store: StudyStore, trial: str | None) -> str | None:
    """Returns the trial's id when the study has it; None means all trials.

    Raises:
        NotFound: It has not.
    """
    cells = [cell.cell for cell in store.cells()]
    if trial is None or trial in cells:
        return trial
    close = nearest(trial, cells)
    raise NotFound(
        Fault(
            what=f"the study has no trial {trial}",
            expected=", ".join(cells),
            hint=f"Did you mean {close}?" if close else "Write arm and seed, as in double/2",
        )
    )


def known_trial(study: str | Path, trial: str) -> str:
    """Returns the trial's id when the study has it.

    Raises:
        NotFound: There is no such study, or it has no such trial.
    """
    with reading(study) as store:
        check_trial(store, trial)
    return trial


def _not_begun(folder: StudyFolder, hint: str) -> NotFound:
    if (lost := lost_database(folder)) is not None:
        return NotFound(lost)
    if folder.run_log.exists():
        hint = (
            f"A run in the background wrote to {folder.run_log} how far it came, and what went "
            f"wrong if it ended. {hint}"
        )
    return NotFound(
        Fault(what="no study has begun in this folder", where=str(folder.path), hint=hint)
    )
