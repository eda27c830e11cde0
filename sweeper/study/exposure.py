"""What the trials of a seed will read: counts, windows, warm-up, before the first of them runs."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.data.prepared import PreparedSplit
from sweeper.data.stream import Stream, plan_stream
from sweeper.study.arms import ArmPlan
from sweeper.study.schema import Study
from sweeper.study.spec import PlannedExposure
from sweeper.training.exposure import Planned
from sweeper.training.grid import Grid
from sweeper.training.schedule import warmup_length


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposurePlan:
    """The exposure of a seed, in one arm or in all of them.

    Attributes:
        arm: Whose it is; None where the arms of the seed read in the same windows.
        epochs: Epochs begun.
        fewest_target_tokens: Target tokens of the smallest window: an update's divisor.
        most_target_tokens: Target tokens of the largest window.
        last_window_records: Records of the last window, which may be short or, when it took up a
            tail, long.
        last_window_rows: Its packed rows; None without packing.
        row_fill: The share of the packed rows' room that tokens take; None without packing.
        counter: What the schedule counts: `updates` or `target_tokens`.
        warmup: Length of the warm-up in that unit.
        warmup_share: The warm-up's share of what is counted; 1 and more: it does not end within
            the budget.
        evaluations: Evaluations that will be made, the one before the first update included.
    """

    seed: int
    arm: str | None = None
    planned: PlannedExposure
    epochs: int
    fewest_target_tokens: int
    most_target_tokens: int
    last_window_records: int
    last_window_rows: int | None = None
    row_fill: float | None = None
    counter: str
    warmup: int
    warmup_share: float
    evaluations: int

    @property
    def mean_target_tokens(self) -> float:
        """Target tokens per window on average."""
        return self.planned.target_tokens / self.planned.windows


def plan_exposure(
    study: Study,
    train: PreparedSplit,
    *,
    seed: int,
    budget_target_tokens: int,
    arm: ArmPlan | None = None,
) -> ExposurePlan:
    """Returns what a cell of this seed reads.

    Args:
        arm: For an arm with windows of its own; None: for every arm.

    Raises:
        PlanError: The budget needs more epochs than the study allows, or a record fits in no
            packed row.
    """
    packing = study.data.packing
    stream = plan_stream(
        train,
        seed=seed,
        budget_target_tokens=budget_target_tokens,
        records_per_update=records_per_update(study, arm),
        max_epochs=study.data.max_epochs,
        row_tokens=None if packing is None else packing.row_tokens,
    )
    return _exposure(study, stream, seed, arm)


def records_per_update(study: Study, arm: ArmPlan | None) -> int:
    """Returns how many records an update of the arm takes; rows of them when packing."""
    own = None if arm is None else arm.records_per_update
    return study.training.records_per_update if own is None else own


def _exposure(study: Study, stream: Stream, seed: int, arm: ArmPlan | None) -> ExposurePlan:
    planned = Planned(
        windows=len(stream.windows),
        records=stream.records,
        input_tokens=stream.input_tokens,
        target_tokens=stream.target_tokens,
        last_window_target_tokens=stream.last_window_target_tokens,
    )
    schedule = study.training.schedule
    counted = planned.windows if schedule.counter == "updates" else planned.target_tokens
    warmup = warmup_length(schedule, planned=planned)
    per_window = [window.target_tokens for window in stream.windows]
    return ExposurePlan(
        seed=seed,
        arm=None if arm is None else arm.name,
        planned=planned_exposure(stream),
        epochs=stream.windows[-1].epochs[-1],
        fewest_target_tokens=min(per_window),
        most_target_tokens=max(per_window),
        last_window_records=len(stream.windows[-1].records),
        last_window_rows=len(stream.windows[-1].rows) if stream.row_tokens else None,
        row_fill=_row_fill(stream),
        counter=schedule.counter,
        warmup=warmup,
        warmup_share=warmup / counted,
        evaluations=Grid.of(study.evaluation, planned).evaluations(per_window),
    )


def _row_fill(stream: Stream) -> float | None:
    if stream.row_tokens is None:
        return None
    return stream.input_tokens / (stream.rows * stream.row_tokens)


def planned_exposure(stream: Stream) -> PlannedExposure:
    """Returns what the stream reads, in total."""
    return PlannedExposure(
        records=stream.records,
        target_tokens=stream.target_tokens,
        input_tokens=stream.input_tokens,
        windows=len(stream.windows),
        last_window_target_tokens=stream.last_window_target_tokens,
        record_digest=stream.record_digest,
        rows=None if stream.row_tokens is None else stream.rows,
    )
