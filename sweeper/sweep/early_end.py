"""When a study ends before all its cells have run, in the sentence that says so. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from sweeper.records import OutcomeKind
from sweeper.selection.evidence import BASELINE
from sweeper.store.reading import CellRecord, Row


def baseline_failure(
    cells: Iterable[CellRecord], *, rule: Literal["baseline_failed", "never"]
) -> str | None:
    """Returns why the study ends when the baseline itself was stopped; None when it goes on.

    Its repeat is none of its cells: where that one alone is stopped, the runs do not repeat, which
    is a finding and no failure of the baseline.
    """
    stopped = [
        cell for cell in cells if cell.arm == BASELINE and cell.outcome is OutcomeKind.STOPPED
    ]
    if rule == "never" or not stopped:
        return None
    first = stopped[0]
    return f"baseline_failed: {first.cell} was stopped ({first.reason}): {first.detail}"


def first_trial_failure(trials: Iterable[Row]) -> str | None:
    """Returns why the study ends when its first trial failed before it was under way.

    Args:
        trials: All of them. The sentence is only returned while no other was ever begun.
    """
    begun = [trial for trial in trials if trial["attempts"]]
    if len(begun) != 1 or begun[0]["outcome"] != OutcomeKind.FAILED or was_under_way(begun[0]):
        return None
    return failure_sentence(begun[0])


def failure_sentence(trial: Row) -> str:
    """Returns the sentence for a first trial that failed."""
    return f"the first trial failed: {trial['trial']} ({trial['reason']}): {trial['detail']}"


def is_proven(trials: Iterable[Row]) -> bool:
    """Says whether a trial has ended in a way that shows that trials of this study can run."""
    sound = {OutcomeKind.COMPLETED, OutcomeKind.STOPPED}
    ended = [trial for trial in trials if trial["outcome"] is not None]
    return any(trial["outcome"] in sound or was_under_way(trial) for trial in ended)


def was_under_way(trial: Row) -> bool:
    """Says whether its first evaluation and its first update are on record."""
    return bool(trial["updates"]) and trial["initial_loss"] is not None
