"""The tables of arms and of their differences, as pandas frames and as plain rows.

Nothing is computed here: every number is one of the comparison's, so that no table can say
anything else than `sweeper.compare(study)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from sweeper.report.arm_columns import ARMS, DIFFERENCES, seed_column
from sweeper.report.columns import LEARNING_RATE, Column, Table, with_factor
from sweeper.report.comparison import compare
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.comparison import Comparison
from sweeper.selection.differences import Difference
from sweeper.selection.examples import ExampleDifference
from sweeper.selection.statistics import Interval
from sweeper.selection.summaries import ArmSummary
from sweeper.selection.time_to_target import TimeToTarget

Values = Mapping[str, object]


def arms(study: str | Path) -> pd.DataFrame:
    """Returns one row per arm, the baseline included: what its trials came to.

    Losses are of completed trials only; where these are not all, `losses_of` says so.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return arm_table(compare(study)).frame()


def differences(study: str | Path) -> pd.DataFrame:
    """Returns one row per arm but the baseline: arm - baseline, paired over seeds.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return difference_table(compare(study)).frame()


def arm_table(found: Comparison) -> Table:
    """Returns the table behind `arms`."""
    rows = [_arm(found, None), *(_arm(found, arm) for arm in found.arms)]
    return Table(rows=rows, columns=_columns(found, ARMS))


def difference_table(found: Comparison) -> Table:
    """Returns the table behind `differences`; each seed's difference has a column of its own."""
    seeds = {seed: seed_column(seed) for seed in found.seeds}
    rows = [_compared(found, arm, seeds) for arm in found.arms]
    return Table(rows=rows, columns=[*_columns(found, DIFFERENCES), *seeds.values()])


def _columns(found: Comparison, columns: Sequence[Column]) -> tuple[Column, ...]:
    is_text = isinstance(found.baseline.value, str)
    return with_factor(columns, found.factor, is_text=is_text)


def _factor(found: Comparison, summary: ArmSummary) -> Values:
    """The arm's value, in the column that the factor has."""
    (column,) = _columns(found, [LEARNING_RATE])
    return {column.name: summary.value}


def _arm(found: Comparison, arm: ArmComparison | None) -> Values:
    """Returns the row of an arm; None is the baseline."""
    summary = found.baseline if arm is None else arm.summary
    time = found.baseline_time_to_target if arm is None else arm.time_to_target
    slope = found.baseline_slope if arm is None else arm.slope
    decay = found.effective_decay
    seconds = found.throughput.seconds_per_1000_target_tokens
    return {
        **_losses(summary),
        **_factor(found, summary),
        "rate_x_decay": None if decay is None else decay.by_arm.get(summary.arm),
        **_short_difference(None if arm is None else arm.difference),
        "target_loss": found.target.loss,
        **_time(time),
        "seconds_per_1000_target_tokens": seconds.get(summary.arm),
        "final_drop": None if slope is None else slope.drop,
        "final_share": None if slope is None else slope.share,
        "retention": None if arm is None else arm.retention.verdict.value,
        "retention_difference": None if arm is None else arm.retention.mean,
        "retention_upper": None if arm is None else arm.retention.upper,
        "verdict": None if arm is None else arm.verdict.label,
        "not_eligible_because": None if arm is None else _listed(arm.not_eligible_because),
        "chosen": found.choice.arm == summary.arm,
    }


def _losses(summary: ArmSummary) -> Values:
    failure = _ends(summary.failure_interval)
    return {
        "arm": summary.arm,
        "round": summary.round,
        "planned": summary.n_planned,
        "completed": summary.n_completed,
        "stopped": summary.n_stopped,
        "missing": summary.n_missing,
        "reasons": _listed([f"{reason} {count}" for reason, count in summary.reasons.items()]),
        "failure_rate": summary.failure_rate,
        "failure_low": failure[0],
        "failure_high": failure[1],
        "losses_of": summary.losses_of,
        "mean": summary.mean,
        "sd": summary.sd,
        "mean_last": summary.mean_last,
        "mean_best": summary.mean_best,
        "median": summary.median,
        "minimum": summary.minimum,
        "maximum": summary.maximum,
        "capped_mean": summary.capped_mean,
        "capped_of": summary.capped_n,
        "worse_than_start": summary.worse_than_start,
        "windows": summary.windows,
        "updates": summary.windows - summary.skipped,
        "skipped": summary.skipped,
    }


def _short_difference(found: Difference | None) -> Values:
    ends = _ends(None if found is None else found.interval_95)
    return {
        "pairs": None if found is None else found.n,
        "difference": None if found is None else found.mean,
        "difference_low": ends[0],
        "difference_high": ends[1],
        "standard_error": None if found is None else found.standard_error,
        "p_holm": None if found is None else found.p_holm,
        "lower_in": None if found is None else found.lower_in,
    }


def _time(found: TimeToTarget | None) -> Values:
    if found is None:
        return dict.fromkeys(_TIME_FIELDS)
    values = (
        *(found.n_reached, found.n, found.n_unconfirmed),
        _float(found.median_after_target_tokens),
        _float(found.median_target_tokens),
        found.restricted_mean_target_tokens,
        found.median_seconds,
    )
    return dict(zip(_TIME_FIELDS, values, strict=True))


_TIME_FIELDS = (
    *("reached", "reached_of", "reached_unconfirmed"),
    *("tokens_to_target_after", "tokens_to_target", "restricted_tokens_to_target"),
    "seconds_to_target",
)


def _compared(found: Comparison, arm: ArmComparison, seeds: Mapping[int, Column]) -> Values:
    floor = found.noise_floor
    difference = arm.difference
    by_seed = {} if difference is None else {d.seed: d.difference for d in difference.by_seed}
    return {
        "arm": arm.arm,
        "round": arm.summary.round,
        **_factor(found, arm.summary),
        **_difference(difference),
        "updates": arm.summary.windows - arm.summary.skipped,
        "baseline_updates": found.baseline.windows - found.baseline.skipped,
        "smallest_difference": found.smallest_difference,
        "noise_floor": None if floor is None else floor.nats,
        **_examples(arm.examples),
        "retention": arm.retention.verdict.value,
        "retention_pairs": arm.retention.n,
        "retention_difference": arm.retention.mean,
        "retention_lower": arm.retention.lower,
        "retention_upper": arm.retention.upper,
        "retention_margin": arm.retention.margin,
        "retention_above_initial": arm.retention.above_initial,
        "verdict": arm.verdict.label,
        "sentence": arm.verdict.sentence,
        **{column.name: by_seed.get(seed) for seed, column in seeds.items()},
    }


def _difference(found: Difference | None) -> Values:
    """The paired statistics; all empty where a gate was broken."""
    if found is None:
        return dict.fromkeys(_DIFFERENCE_FIELDS)
    low_95, high_95 = _ends(found.interval_95)
    low_90, high_90 = _ends(found.interval_90)
    low, high = _ends(found.simultaneous)
    values = (
        *(found.n, found.n_planned, found.mean, found.sd, found.standard_error),
        *(low_95, high_95, low_90, high_90, found.simultaneous_level, low, high),
        *(found.p, found.p_holm, found.sign_flip_p, found.lower_in),
        *(found.paired_improvement, found.all_pairs_improvement),
        *(found.correlation, found.unpaired_error, found.resolution),
    )
    return dict(zip(_DIFFERENCE_FIELDS, values, strict=True))


_DIFFERENCE_FIELDS = (
    *("pairs", "planned_pairs", "mean", "sd", "se"),
    *("low_95", "high_95", "low_90", "high_90"),
    *("simultaneous_level", "low_simultaneous", "high_simultaneous"),
    *("p", "p_holm", "p_sign_flip", "lower_in"),
    *("paired_improvement", "all_pairs_improvement"),
    *("correlation", "unpaired_se", "resolution"),
)


def _examples(found: ExampleDifference | None) -> Values:
    both = None if found is None else found.two_sources
    low, high = _ends(None if both is None else both.interval_95)
    return {
        "records": None if found is None else found.records,
        "records_se": None if found is None else found.estimate.error,
        "two_source_low": low,
        "two_source_high": high,
    }


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _float(value: float | None) -> float | None:
    """A median of counts is a count where it is one of them."""
    return None if value is None else float(value)


def _listed(words: Sequence[str]) -> str | None:
    return ", ".join(words) or None
