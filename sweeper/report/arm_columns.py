"""The columns of the tables of arms: what the arms came to, and how they differ from the baseline.

Every number is one that the comparison holds; see `selection`.
"""

from __future__ import annotations

from sweeper.report.columns import (
    LEARNING_RATE,
    NATS,
    ROUND,
    SECONDS,
    Column,
    flag,
    integer,
    number,
    text,
)

PER_THOUSAND = "s per 1000 target tokens"

_ARM = text("arm", "name of the factor's value")
_VERDICT = text("verdict", "what is said of the arm; empty for the baseline")
_P_HOLM = number("p_holm", None, "p adjusted over all planned arms; empty while pairs may come")
_LOWER_IN = integer("lower_in", "seeds", "pairs in which the arm is lower than the baseline")
_RETENTION = text("retention", "passed, failed, inconclusive or not_measured")
_RETENTION_MEAN = number(
    "retention_difference", NATS, "mean of arm - baseline over seeds, retention loss; not capped"
)
_RETENTION_UPPER = number("retention_upper", NATS, "its one-sided 95 % upper bound")

ARMS: tuple[Column, ...] = (
    _ARM,
    ROUND,
    LEARNING_RATE,
    number("rate_x_decay", None, "rate x weight decay: what an update at the peak decays away"),
    integer("planned", "trials", "cells of the arm"),
    integer("completed", "trials", "that reached the budget; the losses below are theirs alone"),
    integer("stopped", "trials", "that a stop condition ended: the arm's own failures"),
    integer("missing", "trials", "that say nothing about the arm: not run, or ended by another"),
    text("reasons", "how often each reason ended a trial of the arm"),
    number("failure_rate", None, "stopped / (stopped + completed)"),
    number("failure_low", None, "lower end of its 95 % Clopper-Pearson interval"),
    number("failure_high", None, "upper end of it"),
    text("losses_of", "which trials the losses are of, where they leave some out; else empty"),
    number("mean", NATS, "mean of their validation losses, at the declared checkpoint"),
    number("sd", NATS, "its standard deviation over seeds, n - 1; empty for a single trial"),
    number("mean_last", NATS, "mean of their losses at the end of the budget"),
    number("mean_best", NATS, "mean of the lowest loss that each had after the first update"),
    number("median", NATS, "median validation loss of the completed trials"),
    number("minimum", NATS, "lowest validation loss of the completed trials"),
    number("maximum", NATS, "highest validation loss of the completed trials"),
    number(
        "capped_mean",
        NATS,
        "mean of min(loss, initial loss), stopped trials counted as the latter; descriptive only",
    ),
    integer("capped_of", "trials", "completed and stopped trials, which the capped mean is over"),
    integer("worse_than_start", "trials", "completed trials that ended above their initial loss"),
    integer("windows", "windows", "windows tried by all trials of the arm"),
    integer("updates", "updates", "those that ended in an update"),
    integer("skipped", "windows", "those that did not"),
    integer("pairs", "seeds", "seeds that the arm and the baseline both completed"),
    number("difference", NATS, "mean of arm - baseline over these", error="standard_error"),
    number("difference_low", NATS, "lower end of its 95 % interval", error="standard_error"),
    number("difference_high", NATS, "upper end of it", error="standard_error"),
    number("standard_error", NATS, "standard error of the difference"),
    _P_HOLM,
    _LOWER_IN,
    number("target_loss", NATS, "the loss whose time is taken"),
    integer("reached", "trials", "that reached it, and stayed there at the next evaluation"),
    integer("reached_of", "trials", "completed and stopped trials, which these are of"),
    integer("reached_unconfirmed", "trials", "of these, at their last evaluation"),
    number("tokens_to_target_after", "target tokens", "the median trial reached it after so many"),
    number("tokens_to_target", "target tokens", "and by so many; empty: the median trial did not"),
    number(
        "restricted_tokens_to_target",
        "target tokens",
        "mean with the budget in the place of never; read it beside `reached`",
    ),
    number(
        "seconds_to_target", SECONDS, "training time by which the median trial reached the target"
    ),
    number(
        "seconds_per_1000_target_tokens",
        PER_THOUSAND,
        "training time of the completed trials; evaluation, loading and checkpoints left out",
    ),
    number("final_drop", NATS, "mean fall of the loss over the last stretch; below 0 it rose"),
    number("final_share", None, "share of the target tokens that this stretch is"),
    _RETENTION,
    _RETENTION_MEAN,
    _RETENTION_UPPER,
    _VERDICT,
    text("not_eligible_because", "why the arm cannot be chosen; empty if it can"),
    flag("chosen", "whether it is the arm that the agreed rule chooses"),
)

DIFFERENCES: tuple[Column, ...] = (
    _ARM,
    ROUND,
    LEARNING_RATE,
    integer("pairs", "seeds", "seeds that the arm and the baseline both completed"),
    integer("planned_pairs", "seeds", "seeds of the study"),
    integer("updates", "updates", "that all trials of the arm made"),
    integer("baseline_updates", "updates", "that all trials of the baseline made"),
    number("mean", NATS, "mean of arm - baseline; negative: the arm is lower", error="se"),
    number("sd", NATS, "standard deviation of the differences over seeds, n - 1"),
    number("se", NATS, "standard error of the mean: sd / sqrt(pairs)"),
    number("low_95", NATS, "lower end of the 95 % interval, Student's t", error="se"),
    number("high_95", NATS, "upper end of it", error="se"),
    number("low_90", NATS, "lower end of the 90 % interval, for equivalence", error="se"),
    number("high_90", NATS, "upper end of it", error="se"),
    number("simultaneous_level", None, "1 - 0.05 / planned arms"),
    number("low_simultaneous", NATS, "lower end of the interval at that level", error="se"),
    number("high_simultaneous", NATS, "upper end of it", error="se"),
    number("p", None, "two-sided, paired t; empty where the differences do not vary"),
    _P_HOLM,
    number("p_sign_flip", None, "exact, of turned signs; below 6 seeds it cannot reach 0.05"),
    _LOWER_IN,
    number(
        "paired_improvement",
        None,
        "share of seeds in which the arm is lower, ties halved; a stopped trial ranks last",
    ),
    number("all_pairs_improvement", None, "the same over all pairs of an arm's and a baseline's"),
    number("correlation", None, "of the two arms over seeds; below 0 pairing did not help"),
    number("unpaired_se", NATS, "standard error had the seeds not been shared"),
    number("resolution", NATS, "true difference that such a study finds 4 times in 5"),
    number("smallest_difference", NATS, "declared to matter"),
    number("noise_floor", NATS, "how far two runs of one baseline trial ended apart"),
    integer("records", "records", "of the validation split, compared one by one"),
    number("records_se", NATS, "standard error of drawing other records; secondary"),
    number("two_source_low", NATS, "lower end of the 95 % interval for new seeds and new records"),
    number("two_source_high", NATS, "upper end of it"),
    _RETENTION,
    integer("retention_pairs", "seeds", "pairs with a retention loss each"),
    _RETENTION_MEAN,
    number("retention_lower", NATS, "its one-sided 95 % lower bound"),
    _RETENTION_UPPER,
    number("retention_margin", NATS, "declared to be tolerated"),
    number("retention_above_initial", NATS, "the arm's mean retention loss - that before training"),
    _VERDICT,
    text("sentence", "the verdict in words"),
)


def seed_column(seed: int) -> Column:
    """Returns the column of one pair's difference; empty where the pair is missing."""
    return number(f"difference_seed_{seed}", NATS, f"arm - baseline in seed {seed}", error="se")
