"""The studies below a folder, and where each of them stands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sweeper.errors import Fault, NotFound, SweeperError
from sweeper.report.standing import Standing, standing
from sweeper.study.folder import RUNS, StudyFolder
from sweeper.study.recorded import is_recorded


class StudyState(StrEnum):
    """What a study is doing."""

    RUNNING = "running"
    """Some coordinator is, or may be, at work."""
    OPEN = "open"
    """Cells are left to run, and nobody does."""
    ENDED = "ended"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStudy:
    """One study in a line.

    Attributes:
        folder: Its run folder.
        counts: Cells by outcome, or by status where they have none; only what occurs.
        changed_at: When its record last changed in that a trial began or ended; None if unreadable.
        problem: Why it cannot be read.
    """

    name: str
    state: StudyState
    counts: Mapping[str, int]
    changed_at: datetime | None
    folder: str
    problem: str | None = None


def studies_below(folder: str | Path) -> list[ListedStudy]:
    """Returns the studies below a folder, the one that changed last first.

    Those that cannot be read are the last ones. Folders whose name begins with a dot are not
    searched, and links are not followed.

    Raises:
        NotFound: There is no such folder.
    """
    place = Path(folder)
    if not place.is_dir():
        what = "there is no such folder"
        raise NotFound(Fault(what=what, where=str(folder), hint="Name a folder with studies"))
    found = [_listed(run) for run in _run_folders(place.resolve())]
    return sorted(found, key=lambda study: (_age(study), study.folder))


def _run_folders(place: Path) -> Iterator[Path]:
    """Yields the run folders with a recorded study in them; the place itself may be one."""
    for path, folders, _files in os.walk(place):
        here = Path(path)
        if here.parent.name == RUNS and is_recorded(StudyFolder(here)):
            yield here
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def _listed(run: Path) -> ListedStudy:
    try:
        found = standing(run)
    except SweeperError as error:
        return ListedStudy(
            name=run.name,
            state=StudyState.UNREADABLE,
            counts={},
            changed_at=None,
            folder=str(run),
            problem=str(error.faults[0]),
        )
    return ListedStudy(
        name=found.name,
        state=_state(found),
        counts=found.counts,
        changed_at=found.changed_at,
        folder=str(run),
    )


def _state(found: Standing) -> StudyState:
    if found.is_attended:
        return StudyState.RUNNING
    return StudyState.ENDED if found.is_finished else StudyState.OPEN


def _age(study: ListedStudy) -> float:
    return float("inf") if study.changed_at is None else -study.changed_at.timestamp()
