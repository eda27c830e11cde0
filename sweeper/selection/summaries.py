"""What one arm's trials came to, failures and missing cells included."""

from __future__ import annotations

import math
import statistics as order_statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sweeper.records import Reason
from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.statistics import Interval, capped, clopper_pearson, finite, mean, sample_sd
from sweeper.selection.trajectory import EvaluationPoint, final_loss, lowest_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSummary:
    """Counts and losses of one arm; losses are of completed trials only.

    Attributes:
        round: 0 for an arm of the study file; an extension has the number of its round.
        n_planned: Cells of the arm.
        n_stopped: Trials that the arm itself ended, by a stop condition.
        n_missing: Cells that say nothing about the arm: not run, or ended by something else.
        reasons: How often each reason ended a trial, in alphabetical order.
        failure_rate: Stopped trials / stopped and completed ones; None without any.
        failure_interval: Clopper-Pearson, 95 %.
        losses_of: "completed only, 2 of 3" where losses leave trials out, else None.
        sd: With n - 1; None for a single trial, never 0.
        mean_last: Of the last evaluation, whichever one the study file declares to count.
        mean_best: Of each trial's lowest one; None, like the above, where one is not on record.
        capped_mean: Mean of min(loss, loss before training), a stopped trial counting as the
            latter. Descriptive only.
        capped_n: Trials in `capped_mean`: completed and stopped ones.
        worse_than_start: Completed trials that ended above their initial loss.
        windows: Windows tried by all of the arm's trials.
        skipped: Windows of theirs that ended in no update.
    """

    arm: str
    value: float | str
    round: int
    n_planned: int
    n_completed: int
    n_stopped: int
    n_missing: int
    reasons: Mapping[str, int]
    failure_rate: float | None
    failure_interval: Interval | None
    losses_of: str | None
    median: float | None
    minimum: float | None
    maximum: float | None
    mean: float | None
    sd: float | None
    mean_last: float | None
    mean_best: float | None
    capped_mean: float | None
    capped_n: int
    worse_than_start: int
    windows: int
    skipped: int


def summarise(study: StudyEvidence, arm: str) -> ArmSummary:
    """Returns the arm's summary."""
    cells = study.cells_of(arm)
    losses = finite(cell.endpoint for cell in cells)
    n_stopped = sum(cell.is_stopped for cell in cells)
    n_settled = len(losses) + n_stopped
    values = capped_losses(study, arm)
    declared = next(each for each in study.arms if each.name == arm)
    return ArmSummary(
        arm=arm,
        value=declared.value,
        round=declared.round,
        n_planned=len(cells),
        n_completed=len(losses),
        n_stopped=n_stopped,
        n_missing=len(cells) - n_settled,
        reasons=_reasons(cells),
        failure_rate=n_stopped / n_settled if n_settled else None,
        failure_interval=clopper_pearson(n_stopped, n_settled),
        losses_of=_label(len(losses), len(cells)),
        median=order_statistics.median(losses) if losses else None,
        minimum=min(losses, default=None),
        maximum=max(losses, default=None),
        mean=mean(losses) if losses else None,
        sd=sample_sd(losses),
        mean_last=_mean_of(final_loss, cells),
        mean_best=_mean_of(lowest_loss, cells),
        capped_mean=mean(values) if values else None,
        capped_n=len(values),
        worse_than_start=sum(_is_worse_than_start(cell) for cell in cells),
        windows=sum(cell.windows for cell in cells),
        skipped=sum(cell.skipped for cell in cells),
    )


def remarks(summary: ArmSummary) -> tuple[str, ...]:
    """Returns sentences on what an arm's losses do not show by themselves."""
    found = []
    if summary.skipped:
        found.append(f"{summary.arm} skipped {summary.skipped} of {summary.windows} windows.")
    if summary.worse_than_start:
        count = f"{summary.worse_than_start} of {summary.n_completed}"
        found.append(f"{summary.arm} ended above its initial loss in {count} completed trials.")
    return tuple(found)


def capped_losses(study: StudyEvidence, arm: str) -> tuple[float, ...]:
    """Returns min(loss, initial loss) of the arm's completed and stopped trials.

    Empty when the initial loss of one of them is not known, so that none is left out.
    """
    settled = [cell for cell in study.cells_of(arm) if not cell.is_missing]
    starts = finite(start_of(study, cell) for cell in settled)
    if len(starts) < len(settled):
        return ()
    return tuple(capped(cell.endpoint, start) for cell, start in zip(settled, starts, strict=True))


def start_of(study: StudyEvidence, cell: CellEvidence) -> float | None:
    """Returns the cell's initial loss, or the baseline's where it was stopped before having one."""
    if cell.initial_loss is not None and math.isfinite(cell.initial_loss):
        return cell.initial_loss
    return study.cell(BASELINE, cell.seed).initial_loss


def _mean_of(
    which: Callable[[Sequence[EvaluationPoint]], float | None], cells: Sequence[CellEvidence]
) -> float | None:
    completed = [cell.evaluations for cell in cells if cell.is_completed]
    losses = finite(which(points) for points in completed)
    return mean(losses) if 0 < len(losses) == len(completed) else None


def _reasons(cells: Sequence[CellEvidence]) -> dict[str, int]:
    endings: Counter[Reason] = Counter(cell.ending for cell in cells if cell.ending is not None)
    return {reason.value: count for reason, count in sorted(endings.items())}


def _label(n_completed: int, n_planned: int) -> str | None:
    if n_completed == n_planned:
        return None
    return f"completed only, {n_completed} of {n_planned}"


def _is_worse_than_start(cell: CellEvidence) -> bool:
    if cell.endpoint is None or cell.initial_loss is None:
        return False
    return cell.endpoint > cell.initial_loss
