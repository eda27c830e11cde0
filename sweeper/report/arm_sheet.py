"""The arms as one table of a paper, each number with its spread and its counts. Pure.

Nothing is computed here; numbers are rounded, put beside each other, and said what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from sweeper.report.columns import NATS
from sweeper.report.sheets import Cell, Sheet, value_text
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.comparison import Comparison
from sweeper.selection.evidence import StudyKind
from sweeper.selection.statistics import Interval
from sweeper.selection.summaries import ArmSummary
from sweeper.selection.time_to_target import TimeToTarget
from sweeper.selection.wording import amount, interval_text, listing, percent, plain, seeds_text
from sweeper.study.schema import Study

NOTHING = "-"
"""Stands where there is no trial to take a number from."""


def arm_sheet(found: Comparison, study: Study, *, budget_target_tokens: int) -> Sheet:
    """Returns the arms in the order of the factor, where it has one.

    Args:
        study: As it was when it began.
    """
    compared = {arm.arm: arm for arm in found.arms}
    summaries = sorted(
        [found.baseline, *(arm.summary for arm in found.arms)],
        key=lambda each: each.value if isinstance(each.value, float) else 0.0,
    )
    rows = [dict(_cells(found, each, compared.get(each.arm))) for each in summaries]
    is_text = isinstance(found.baseline.value, str)
    words = {"arm", "verdict", *([_factor_header(found)] if is_text else [])}
    return Sheet(
        label="sweeper-arms",
        caption=f"{found.question_text} Arms of {study.name}, {seeds_text(len(found.seeds))} each.",
        headers=list(rows[0]),
        numeric=[header not in words for header in rows[0]],
        rows=[list(row.values()) for row in rows],
        notes=list(_notes(found, study, budget_target_tokens)),
    )


def _cells(
    found: Comparison, summary: ArmSummary, arm: ArmComparison | None
) -> Iterator[tuple[str, Cell]]:
    difference = None if arm is None else arm.difference
    time = found.baseline_time_to_target if arm is None else arm.time_to_target
    error = None if difference is None else difference.standard_error
    mean = None if difference is None else difference.mean
    interval = None if difference is None else difference.interval_95
    value = summary.value if isinstance(summary.value, str) else plain(summary.value)
    yield "arm", Cell(text=summary.arm, mark=f"round {summary.round}" if summary.round else None)
    yield _factor_header(found), Cell(text=value)
    yield "completed", Cell(text=f"{summary.n_completed}/{summary.n_planned}")
    yield "failed (95 % CI)", Cell(text=_failed(summary))
    if found.kind is not StudyKind.RATE:
        yield "updates, all trials", Cell(text=str(summary.windows - summary.skipped))
    yield "validation loss (sd)", Cell(text=_losses(summary), mark=summary.losses_of)
    other = summary.mean_last if found.is_at_best else summary.mean_best
    yield _other_header(found), Cell(text=_loss(other), mark=summary.losses_of)
    yield "capped mean", Cell(text=_loss(summary.capped_mean))
    yield "difference (95 % CI)", Cell(text=_difference(mean, interval, error), mark=_pairs(arm))
    yield "Holm p", Cell(text="" if difference is None else value_text(difference.p_holm, None))
    lower = "" if difference is None else f"{difference.lower_in}/{difference.n}"
    yield "lower in", Cell(text=lower)
    yield "tokens to target", Cell(text=_time(time), mark=_reached(time))
    seconds = found.throughput.seconds_per_1000_target_tokens.get(summary.arm)
    yield "s/1k target tokens", Cell(text=value_text(seconds, None))
    yield "retention difference (upper bound)", Cell(text=_retention(arm))
    yield "verdict", Cell(text="" if arm is None else arm.verdict.label)


def _factor_header(found: Comparison) -> str:
    return found.factor.rpartition(".")[2].replace("_", " ")


def _other_header(found: Comparison) -> str:
    """Names the losses at the checkpoint that was not declared."""
    return "last loss" if found.is_at_best else "best loss"


def _loss(value: float | None) -> str:
    return value_text(value, NATS, unknown=NOTHING)


def _losses(summary: ArmSummary) -> str:
    sd = "" if summary.sd is None else f" ({value_text(summary.sd, NATS)})"
    return f"{_loss(summary.mean)}{sd}"


def _failed(summary: ArmSummary) -> str:
    settled = summary.n_completed + summary.n_stopped
    if summary.failure_interval is None:
        return NOTHING
    low, high = summary.failure_interval.low, summary.failure_interval.high
    return f"{summary.n_stopped}/{settled} ({percent(low)} to {percent(high)})"


def _difference(mean: float | None, interval: Interval | None, error: float | None) -> str:
    if mean is None:
        return ""
    ends = "" if interval is None else f" ({interval_text(interval, error)})"
    return f"{amount(mean, error)}{ends}"


def _pairs(arm: ArmComparison | None) -> str | None:
    """What has to be said where pairs are missing."""
    found = None if arm is None else arm.difference
    if found is None or not found.is_partial or found.mean is None:
        return None
    return f"{found.n} of {found.n_planned} pairs"


def _time(found: TimeToTarget | None) -> str:
    if found is None:
        return ""
    return value_text(found.median_target_tokens, "target tokens", unknown="not reached")


def _reached(found: TimeToTarget | None) -> str | None:
    return None if found is None else f"{found.n_reached}/{found.n}"


def _retention(arm: ArmComparison | None) -> str:
    if arm is None or arm.retention.mean is None:
        return ""
    upper = "" if arm.retention.upper is None else f" ({_loss(arm.retention.upper)})"
    return f"{_loss(arm.retention.mean)}{upper}"


def _notes(found: Comparison, study: Study, budget: int) -> Iterator[str]:
    yield f"Answer: {found.answer.sentence}"
    yield (
        "Across seeds vary data order, initialisation and dropout together; the arms of a seed "
        f"share them. Fixed: {_fixed(found, study, budget)}."
    )
    rules = ("at the end of the budget", "with the lowest validation loss")
    rule, other = rules[::-1] if found.is_at_best else rules
    yield (
        f"Losses are of the validation split, nats per target token, at the checkpoint {rule}; "
        "mean and standard deviation over the completed trials. "
        f"{_other_header(found).capitalize()}: the mean at the checkpoint {other}. Capped mean: a "
        "trial that was stopped counts with its initial loss, none with more; descriptive only."
    )
    yield (
        "Difference: arm - baseline, paired over seeds, negative where the arm is lower; 95 % "
        f"interval by Student's t. Holm p over {_arms(len(found.arms))}. Failed: stopped / "
        "(stopped + completed), Clopper-Pearson interval. Retention: one-sided 95 % upper bound, "
        f"margin {plain(found.retention_margin)}."
    )
    yield f"Tokens to target: the median trial, n that reached it / trials. {found.target.sentence}"
    remarks = (found.target_caveat, found.throughput.sentence)
    yield from (remark for remark in remarks if remark is not None)
    if found.effective_decay is not None:
        yield found.effective_decay.sentence
    if found.noise_floor is not None:
        yield found.noise_floor.sentence


def _arms(count: int) -> str:
    return f"{count} planned arm" if count == 1 else f"{count} planned arms"


def _precision(found: Comparison, asked: str) -> str:
    """What the trials ran in: `auto` is decided where a trial runs."""
    if not found.precisions:
        return f"{asked} (no trial has run)"
    differs = " (not the same in every trial)" if len(found.precisions) > 1 else ""
    return f"{listing(found.precisions)}{differs}"


def _fixed(found: Comparison, study: Study, budget: int) -> str:
    """The settings that a conclusion is for, but for the factor; a model's folder by its name."""
    training, lora = study.training, study.adapter
    optimizer, schedule = training.optimizer, training.schedule
    clip = "no clipping" if training.clip_norm is None else f"clipped to {training.clip_norm:g}"
    tuned = "all weights" if lora is None else f"LoRA, rank {lora.rank}, alpha {lora.alpha:g}"
    settings = {
        "training.records_per_update": f"{training.records_per_update} records per update",
        "training.learning_rate": f"peak rate {plain(study.learning_rate)}",
        "training.precision": f"precision {_precision(found, training.precision)}",
    }
    own = [text for key, text in settings.items() if key != found.factor]
    return ", ".join(
        [
            f"model {PurePath(study.model.path).name}",
            tuned,
            f"{budget} target tokens read per trial",
            *own,
            f"{optimizer.kind} with weight decay {optimizer.weight_decay:g}",
            f"{schedule.kind} schedule",
            clip,
        ]
    )
