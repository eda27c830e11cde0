"""Where a study stands: how many cells are where, and what goes on now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.report.recorded import run_folder
from sweeper.store.reading import Row
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A study's state as its database has it.

    Attributes:
        folder: The run folder.
        counts: Cells by outcome, or by status where they have none; only what occurs.
        running: One row per running trial, with its progress.
        ended_why: Why the study ended; None while it may go on.
    """

    name: str
    fingerprint: str
    folder: str
    budget_target_tokens: int
    counts: Mapping[str, int]
    running: Sequence[Mapping[str, object]]
    ended_why: str | None

    @property
    def is_finished(self) -> bool:
        """Whether no cell is left to run."""
        return not any(status.value in self.counts for status in _OPEN)


_OPEN = (CellStatus.WAITING, CellStatus.RUNNING, CellStatus.NOT_RUN)


def standing(study: str | Path) -> Standing:
    """Returns where the study stands.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    folder = run_folder(study)
    with StudyStore.read(folder.database_url) as store:
        recorded, cells, rows = store.study(), store.cells(), store.trials()
        slots = {row["trial"]: row for row in store.attempts()}
        running = [_progress(row, slots[row["trial"]]) for row in rows if _is_running(row)]
    return Standing(
        name=recorded.name,
        fingerprint=recorded.fingerprint,
        folder=str(folder.path),
        budget_target_tokens=recorded.budget_target_tokens,
        counts=dict(Counter(str(cell.outcome or cell.status) for cell in cells)),
        running=running,
        ended_why=recorded.ended_why,
    )


def _is_running(row: Row) -> bool:
    return row["status"] == CellStatus.RUNNING.value


def _progress(row: Row, attempt: Row) -> dict[str, object]:
    return {
        "trial": row["trial"],
        "slot": attempt["slot"],
        "attempt": attempt["attempt"],
        "since": attempt["claimed_at"],
        "target_tokens_read": row["target_tokens_read"],
        "last_finite_loss": row["last_finite_loss"],
        "host": attempt["host"],
        "pid": attempt["pid"],
    }
