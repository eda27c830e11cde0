"""How a run of a study ended: what the command line reports and exits with."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from sweeper.records import OutcomeKind, Reason
from sweeper.selection.evidence import BASELINE
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.study.run_options import Limits

_SOUND = frozenset({OutcomeKind.COMPLETED, OutcomeKind.STOPPED})


class RunStatus(IntEnum):
    """Exit status of a run."""

    DONE = 0
    """Every cell completed or stopped, a repeat included; the baseline completed in every seed."""
    CRITERIA_NOT_MET = 3
    """Ended early, the baseline stopped, or a cell ended otherwise."""
    INTERRUPTED = 130
    """Interrupted; the same command goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEnd:
    """Where a study stands after a run of it.

    Attributes:
        folder: Its run folder.
        counts: Cells by outcome, or by status where they have none; only what occurs.
        ended_early: The sentence that says why cells were not run; None when none was left out.
        did_nothing: Whether the study had ended before this run.
        is_late: Whether the study's deadline ended the run.
        waits: Why cells wait that none of the slots may take, by cell.
        without_room: Cells that a full disk ended, and no limit that could be raised.
    """

    name: str
    folder: Path
    counts: Mapping[str, int]
    status: RunStatus
    ended_early: str | None
    did_nothing: bool
    is_late: bool = False
    waits: Mapping[str, str] = field(default_factory=dict)
    without_room: tuple[str, ...] = ()


def run_status(cells: Iterable[CellRecord], *, interrupted: bool) -> RunStatus:
    """Returns the exit status of a run that leaves the cells like this.

    Args:
        interrupted: Whether the user asked the run to stop; a study that ended all the same
            counts as it ended. A deadline is none: it was agreed on.
    """
    records = tuple(cells)
    if interrupted and any(is_open(cell) for cell in records):
        return RunStatus.INTERRUPTED
    sound = all(_is_sound(cell) for cell in records)
    return RunStatus.DONE if sound else RunStatus.CRITERIA_NOT_MET


def is_open(cell: CellRecord) -> bool:
    """Says whether the cell may still be run."""
    return cell.status in {CellStatus.WAITING, CellStatus.RUNNING}


def without_room(cells: Iterable[CellRecord], limits: Limits) -> tuple[str, ...]:
    """Returns the cells that a full disk ended; none where a limit on it is agreed."""
    if limits.disk is not None:
        return ()
    return tuple(cell.cell for cell in cells if cell.reason is Reason.DISK)


def count(cells: Iterable[CellRecord]) -> Mapping[str, int]:
    """Returns how many cells ended how; those that have not ended count by their status."""
    names = Counter(str(cell.outcome or cell.status) for cell in cells)
    return types.MappingProxyType(dict(names))


def _is_sound(cell: CellRecord) -> bool:
    if cell.arm == BASELINE:
        return cell.outcome is OutcomeKind.COMPLETED
    return cell.outcome in _SOUND
