"""Finds the recorded study that a STUDY argument means, and opens its store for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sweeper.errors import Fault, NotFound
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.schema import Study


def run_folder(study: str | Path) -> StudyFolder:
    """Returns the run folder of a study file, or the run folder itself.

    Raises:
        NotFound: There is neither a file nor a folder of that name, or the study has not begun.
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
    folder = StudyFolder(path.resolve()) if path.is_dir() else _folder_of(path)
    if not folder.database.exists():
        raise NotFound(
            Fault(
                what="the study has not begun: its run folder holds no database",
                where=str(folder.path),
                hint=f"Start it: sweeper run {study}",
            )
        )
    return folder


def _folder_of(file: Path) -> StudyFolder:
    study_file = load_study(file)
    return StudyFolder.beside(study_file.path, study_file.study.name)


@contextmanager
def reading(study: str | Path) -> Iterator[StudyStore]:
    """Opens the store of a begun study for reading; a running study is not disturbed.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StoreError: The database cannot be read.
    """
    with StudyStore.read(run_folder(study).database_url) as store:
        yield store


def recorded_settings(folder: StudyFolder) -> Study:
    """Returns the study as it was when it began."""
    return load_study(folder.recorded_study).study


def check_trial(store: StudyStore, trial: str | None) -> str | None:
    """Returns the trial's id when the study has it; None means all trials.

    Raises:
        NotFound: It has not.
    """
    cells = [cell.cell for cell in store.cells()]
    if trial is None or trial in cells:
        return trial
    raise NotFound(
        Fault(
            what=f"the study has no trial {trial}",
            expected=", ".join(cells),
            hint="Write arm and seed, as in double/2",
        )
    )
