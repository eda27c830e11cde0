"""The columns of the tables of trials that are about how they ran: exposure, stability, cost."""

from __future__ import annotations

from sweeper.report.columns import (
    ARM,
    LEARNING_RATE,
    NATS,
    SECONDS,
    SEED,
    TRIAL,
    Column,
    integer,
    number,
    text,
)

SECONDARY = "secondary, not selected on"
"""What every table of a user's own metrics is titled."""

METRIC = "metric_"
"""With this begin the columns that such metrics have beside those of trials."""

_OUTCOME = text("outcome", "completed, stopped, limited, lost, failed or cancelled")

EXPOSURE: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    LEARNING_RATE,
    _OUTCOME,
    integer("target_tokens_planned", "target tokens", "the budget"),
    integer("target_tokens_read", "target tokens", "supervised tokens read"),
    integer("target_tokens_applied", "target tokens", "those of windows that ended in an update"),
    integer("target_tokens_dropped", "target tokens", "those of windows that did not"),
    number("applied_share", None, "target tokens applied / the baseline's in the same seed"),
    integer("records_planned", "records", "records of the plan, every epoch counted"),
    integer("records", "records", "records read"),
    integer("input_tokens_planned", "tokens", "input tokens of the plan, padding left out"),
    integer("input_tokens", "tokens", "input tokens read, padding left out"),
    integer("padding_tokens", "tokens", "padding positions that were computed"),
    number("padding_share", None, "padding / (input + padding)"),
    integer("windows_planned", "windows", "windows of the plan: the most updates there can be"),
    integer("windows", "windows", "windows tried"),
    integer("updates", "updates", "updates that ran"),
    integer("skipped", "windows", "windows that ended in no update"),
    text("record_digest", "rolling SHA-256 of the records read"),
)

STABILITY: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    LEARNING_RATE,
    _OUTCOME,
    text("reason", "why it ended"),
    integer("windows", "windows", "windows tried"),
    integer("updates", "updates", "updates that ran"),
    integer("clipped", "updates", "updates whose gradient was scaled down to the threshold"),
    number("clip_rate", None, "clipped / updates"),
    number("clip_norm", None, "the threshold; empty where nothing is clipped"),
    integer("skipped", "windows", "windows that ended in no update"),
    text("skips", "how often each reason left a window without an update"),
    integer("nonfinite", "windows", "windows whose loss or gradient norm was not finite"),
    number("gradient_norm_p50", None, "median of the finite norms before clipping"),
    number("gradient_norm_p99", None, "99th percentile of them, by linear interpolation"),
    number("gradient_norm_max", None, "largest of them"),
    integer("loss_spikes", "windows", "windows whose loss stood far above those before"),
    number("largest_spike", NATS, "how far above their median the highest stood"),
    number("last_finite_loss", NATS, "last finite loss of a window"),
    text("detail", "the sentence behind the reason, with its numbers"),
)


def _phase(name: str, doing: str) -> Column:
    meaning = f"time of all attempts spent {doing}, as far as they reported it"
    return number(f"{name}_seconds", SECONDS, meaning)


COST: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    LEARNING_RATE,
    _OUTCOME,
    integer("updates", "updates", "updates that ran"),
    integer("attempts", None, "executions of the cell"),
    number("wall_seconds", SECONDS, "wall-clock time of all attempts, evaluation included"),
    _phase("loading", "loading"),
    _phase("training", "training"),
    _phase("evaluating", "evaluating"),
    _phase("checkpointing", "writing checkpoints"),
    _phase("saving", "saving results"),
    number(
        "window_seconds", SECONDS, "time of the windows of the trial's history, each counted once"
    ),
    number(
        "seconds_per_1000_target_tokens",
        "s per 1000 target tokens",
        "1000 x window_seconds / target tokens read",
    ),
    integer("repeated_windows", "windows", "windows of attempts that were lost and done again"),
    integer("repeated_target_tokens", "target tokens", "target tokens of these"),
    number("repeated_seconds", SECONDS, "time of these: cost, and no exposure"),
    integer("peak_memory_bytes", "bytes", "largest sampled memory of the trial's processes"),
)

METRICS: tuple[Column, ...] = (
    TRIAL,
    ARM,
    SEED,
    text("metric", "name of the user's own metric, as the attached file has it"),
    number("value", None, f"its value for the trial; {SECONDARY}"),
    text("source", "name of the file that it came with"),
    text("source_sha256", "SHA-256 of that file"),
    text("at", "when it was attached, UTC by the database's clock"),
)


def metric_column(name: str) -> Column:
    """Returns the column that a metric has beside those of trials."""
    return number(f"{METRIC}{name}", None, f"the user's own metric {name}; {SECONDARY}")
