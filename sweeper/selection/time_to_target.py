"""How much training it took to reach a loss agreed beforehand, never having reached it included.

An evaluation reaches the target when its loss and the next evaluation's are at most it: a single
low one may be noise. The last has no next one; it counts, and is marked unconfirmed. What is known
is a bracket: the target was reached after the evaluation before, and by this one. Nothing is
interpolated.
"""

from __future__ import annotations

import math
import statistics as order_statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.statistics import finite, mean
from sweeper.selection.trajectory import EvaluationPoint, final_loss
from sweeper.selection.wording import ended, plain, seconds_text, seeds_text

_HIGHEST = f"the highest final validation loss of a trial of {BASELINE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The loss whose time is taken.

    Attributes:
        loss: Nats per target token; None where there is none.
    """

    loss: float | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedTime:
    """When one trial reached the target; a stopped trial never did.

    Attributes:
        is_confirmed: Whether the evaluation after it was at the target as well.
        after_target_tokens: The evaluation before it; of a completed trial that did not reach the
            target, the last one.
        target_tokens: The evaluation that reached it; None if none did.
        after_seconds: Training seconds up to the evaluation before it.
        seconds: Training seconds up to it.
        retention_loss: At that evaluation.
        touched_at: Target tokens at which a trial that was stopped later had been at the target.
    """

    seed: int
    is_confirmed: bool = False
    after_target_tokens: int | None = None
    target_tokens: int | None = None
    after_seconds: float | None = None
    seconds: float | None = None
    retention_loss: float | None = None
    touched_at: int | None = None

    @property
    def is_reached(self) -> bool:
        """Whether it reached the target."""
        return self.target_tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToTarget:
    """One arm's times; a trial that did not reach the target counts as never.

    Attributes:
        by_seed: Completed and stopped trials, in declared order of seeds.
        n: How many of these.
        n_missing: Trials that say nothing about their arm; they are left out.
        n_unconfirmed: Reached at the last evaluation, which has no next one.
        median_after_target_tokens: The median trial reached it after so many target tokens.
        median_target_tokens: And by so many; None: not reached.
        restricted_mean_target_tokens: Mean with the budget in the place of never. It cannot tell
            "at the end" from "never", so that `n_reached` belongs beside it.
        median_seconds: By so many training seconds; evaluation, checkpoints and loading left out.
        retention_at_target: Mean retention loss where the target was reached, over those trials.
    """

    arm: str
    by_seed: tuple[SeedTime, ...]
    n: int
    n_missing: int
    n_reached: int
    n_unconfirmed: int
    median_after_target_tokens: float | None
    median_target_tokens: float | None
    restricted_mean_target_tokens: float | None
    median_after_seconds: float | None
    median_seconds: float | None
    retention_at_target: float | None
    sentence: str


def find_target(study: StudyEvidence) -> Target:
    """Returns the target: the study file's, or the highest final loss of a baseline trial.

    The mean of the baseline would be missed by half of its own trials. A loss that is not below
    the one before the first update is no target: it takes no training to be there.
    """
    target = _declared(study)
    start = min(finite(cell.initial_loss for cell in study.all_cells()), default=math.inf)
    if target.loss is None or target.loss < start:
        return target
    name = _HIGHEST if study.target_loss is None else "the loss that was agreed"
    text = (
        f"There is no target: {name}, {plain(target.loss)} nats per target token, is not below "
        f"the initial loss, {plain(start)}, and is reached without training."
    )
    return Target(loss=None, sentence=text)


def _declared(study: StudyEvidence) -> Target:
    if study.target_loss is not None:
        text = f"The target is {plain(study.target_loss)} nats per target token, as agreed."
        return Target(loss=study.target_loss, sentence=text)
    cells = study.cells_of(BASELINE)
    stopped = sum(cell.is_stopped for cell in cells)
    losses = finite(final_loss(cell.evaluations) for cell in cells if cell.is_completed)
    if stopped:
        text = f"{BASELINE} was stopped in {stopped} of {seeds_text(len(cells))}"
        return Target(loss=None, sentence=f"There is no target: {text}, and has no worst loss.")
    if not losses:
        text = f"no trial of {BASELINE} has completed"
        return Target(loss=None, sentence=f"There is no target: {text}, its evaluations on record.")
    return Target(loss=max(losses), sentence=_worst(max(losses), len(losses), len(cells)))


def _worst(loss: float, n: int, n_planned: int) -> str:
    count = "" if n == n_planned else f", of the {n} of {n_planned} that completed"
    return f"The target is {plain(loss)} nats per target token, {_HIGHEST}{count}."


def time_to_target(
    study: StudyEvidence, arm: str, target: Target, *, with_seconds: bool
) -> TimeToTarget | None:
    """Returns the arm's times; None without a target, or without a trial that was evaluated.

    Args:
        with_seconds: Whether the sentence may give seconds, see `throughput`.
    """
    cells = study.cells_of(arm)
    settled = [cell for cell in cells if not cell.is_missing and cell.evaluations]
    if target.loss is None or not settled:
        return None
    by_seed = tuple(_time_of(cell, target.loss) for cell in settled)
    reached = [time for time in by_seed if time.is_reached]
    retention = finite(time.retention_loss for time in reached)
    knows_retention = 0 < len(reached) == len(retention)
    found = TimeToTarget(
        arm=arm,
        by_seed=by_seed,
        n=len(by_seed),
        n_missing=len(cells) - len(settled),
        n_reached=len(reached),
        n_unconfirmed=sum(not time.is_confirmed for time in reached),
        median_after_target_tokens=_median([time.after_target_tokens for time in by_seed]),
        median_target_tokens=_median([time.target_tokens for time in by_seed]),
        restricted_mean_target_tokens=_restricted_mean(settled, by_seed),
        median_after_seconds=_median_seconds(by_seed, [time.after_seconds for time in by_seed]),
        median_seconds=_median_seconds(by_seed, [time.seconds for time in by_seed]),
        retention_at_target=mean(retention) if knows_retention else None,
        sentence="",
    )
    return replace(found, sentence=_sentence(found, settled, with_seconds=with_seconds))


def caveat(study: StudyEvidence) -> str | None:
    """Returns what a time does not mean; None where the rate does not depend on the length."""
    if not study.rate_decays:
        return None
    return (
        "Under a schedule that decays over the full budget; not the time that a trial planned to "
        "end there would need."
    )


def _time_of(cell: CellEvidence, target_loss: float) -> SeedTime:
    points = cell.evaluations
    if cell.is_stopped:
        touched = next((p.target_tokens_read for p in points if p.has_reached(target_loss)), None)
        return SeedTime(seed=cell.seed, touched_at=touched)
    place = _crossing(points, target_loss)
    if place is None:
        last = points[-1]
        return SeedTime(
            seed=cell.seed,
            after_target_tokens=last.target_tokens_read,
            after_seconds=last.training_seconds,
        )
    before, there = points[max(place - 1, 0)], points[place]
    return SeedTime(
        seed=cell.seed,
        is_confirmed=place + 1 < len(points),
        after_target_tokens=before.target_tokens_read,
        target_tokens=there.target_tokens_read,
        after_seconds=before.training_seconds,
        seconds=there.training_seconds,
        retention_loss=there.retention_loss,
    )


def _crossing(points: Sequence[EvaluationPoint], target_loss: float) -> int | None:
    """The first evaluation at the target whose next one, if any, is there as well."""
    at_target = [point.has_reached(target_loss) for point in points]
    held = [*at_target[1:], True]
    pairs = enumerate(zip(at_target, held, strict=True))
    return next((place for place, both in pairs if all(both)), None)


def _median(values: Sequence[float | None]) -> float | None:
    """The median with None as never; None where it is never."""
    found = order_statistics.median([math.inf if value is None else value for value in values])
    return found if math.isfinite(found) else None


def _median_seconds(by_seed: Sequence[SeedTime], seconds: Sequence[float | None]) -> float | None:
    """The same; None where the time of a trial that reached the target is not on record."""
    pairs = zip(by_seed, seconds, strict=True)
    unknown = any(time.is_reached and value is None for time, value in pairs)
    return None if unknown else _median(seconds)


def _restricted_mean(cells: Sequence[CellEvidence], by_seed: Sequence[SeedTime]) -> float | None:
    budgets = [cell.target_tokens_planned for cell in cells]
    pairs = [
        (time.target_tokens, budget)
        for time, budget in zip(by_seed, budgets, strict=True)
        if budget is not None
    ]
    if len(pairs) < len(budgets):
        return None
    return mean([budget if tokens is None else min(tokens, budget) for tokens, budget in pairs])


def _sentence(found: TimeToTarget, cells: Sequence[CellEvidence], *, with_seconds: bool) -> str:
    count = f"{found.arm} reached it in {found.n_reached} of {seeds_text(found.n)}"
    if found.n_unconfirmed:
        count += f" ({found.n_unconfirmed} at the last evaluation, unconfirmed)"
    parts = [count, _median_text(found, with_seconds=with_seconds)]
    if found.n_missing:
        verb = "trial is" if found.n_missing == 1 else "trials are"
        parts.append(f"partial: {found.n_missing} more {verb} missing")
    return " ".join([f"{'; '.join(parts)}.", *_touches(found, cells)])


def _median_text(found: TimeToTarget, *, with_seconds: bool) -> str:
    after, by = found.median_after_target_tokens, found.median_target_tokens
    if by is None:
        more = "" if after is None else f", more than {after:.0f} target tokens"
        return f"median: not reached{more}"
    text = f"median: after {after or 0:.0f} and by {by:.0f} target tokens"
    if with_seconds and found.median_seconds is not None:
        text += (
            f" ({seconds_text(found.median_after_seconds or 0.0)} to "
            f"{seconds_text(found.median_seconds)} s of training)"
        )
    return text


def _touches(found: TimeToTarget, cells: Sequence[CellEvidence]) -> Iterator[str]:
    for time, cell in zip(found.by_seed, cells, strict=True):
        if time.touched_at is not None and cell.ending is not None:
            yield (
                f"In seed {time.seed} it touched the target at {time.touched_at} target tokens "
                f"and then {ended(cell.ending)}: not reached."
            )
