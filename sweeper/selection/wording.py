"""Numbers and reasons as words; every sentence of this room is put together from these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sweeper.records import OUTCOME_OF, OutcomeKind, Reason
from sweeper.selection.statistics import Interval

_ENDED: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.BUDGET_REACHED: "completed",
        Reason.NONFINITE_LOSS: "reached a loss that is not finite",
        Reason.NONFINITE_GRADIENT: "reached gradients that are not finite",
        Reason.NONFINITE_PARAMETER: "reached weights that are not finite",
        Reason.DIVERGED: "diverged",
        Reason.NO_UPDATES: "came to make no updates any more",
        Reason.STALLED_UPDATES: "made updates that moved no weight",
        Reason.WALL_CLOCK: "ran into the limit on wall-clock time",
        Reason.HOST_MEMORY: "ran into the limit on host memory",
        Reason.DEVICE_MEMORY: "ran out of device memory",
        Reason.DISK: "ran into the limit on disk space",
        Reason.WORKER_LOST: "lost its worker",
        Reason.KILLED: "was killed from outside",
        Reason.PREEMPTED: "was preempted",
        Reason.DEVICE_ERROR: "was lost to a device error",
        Reason.HUNG: "hung",
        Reason.FOREIGN_MEMORY: "found the device's memory taken by other processes",
        Reason.CODE_ERROR: "ended in a code error",
        Reason.CRASHED: "crashed",
        Reason.DATA_ERROR: "could not use its data",
        Reason.BUDGET_MISMATCH: "did not read the planned target tokens",
        Reason.RESULT_MISSING: "left no result",
        Reason.USER_CANCELLED: "was cancelled",
        Reason.DEADLINE: "was cut short by the study's deadline",
    }
)

_BLAME: Mapping[OutcomeKind, str] = MappingProxyType(
    {
        OutcomeKind.COMPLETED: "",
        OutcomeKind.STOPPED: "",
        OutcomeKind.LIMITED: "the limit's doing, no finding about the arm",
        OutcomeKind.LOST: "the machine's doing, no finding about the arm",
        OutcomeKind.FAILED: "a fault of the run, no finding about the arm",
        OutcomeKind.CANCELLED: "the user's doing, no finding about the arm",
    }
)


def ended(reason: Reason) -> str:
    """Returns what a trial did at its end, as a verb in the past."""
    return _ENDED[reason]


def ended_with_blame(reason: Reason | None, detail: str = "") -> str:
    """Returns the same with its detail and whose doing it was; None is a trial without an end."""
    if reason is None:
        return "has not been run to an end"
    seen = f"{ended(reason)} ({detail.rstrip('.')})" if detail else ended(reason)
    blame = _BLAME[OUTCOME_OF[reason]]
    return f"{seen}: {blame}" if blame else seen


def listing(words: Sequence[str]) -> str:
    """Returns "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def seeds_text(count: int) -> str:
    """Returns "1 seed" or "5 seeds"."""
    return f"{count} seed" if count == 1 else f"{count} seeds"


def seconds_text(seconds: float) -> str:
    """Returns a number of seconds, whole from 100 on."""
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.3g}"


def plain(value: float) -> str:
    """Returns a number with at most 4 significant digits."""
    return f"{value:.4g}"


def signed(value: float) -> str:
    """Returns a difference with its sign and 4 decimals; what rounds to 0 is "+0.0000"."""
    return f"{round(value, 4) + 0.0:+.4f}"


def amount(value: float, standard_error: float | None) -> str:
    """Returns a number to the precision of its standard error.

    The error's last digit shown is its first one, or its second where the first is 1 or 2.
    """
    if not standard_error or not math.isfinite(standard_error):
        return plain(value)
    exponent = math.floor(math.log10(standard_error))
    digits = 2 if standard_error < 3 * 10.0**exponent else 1
    text = f"{value:.{max(0, digits - 1 - exponent)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def interval_text(interval: Interval, standard_error: float | None) -> str:
    """Returns "-0.020 to 0.014"; one digit more where an end would read as 0 without being 0."""
    ends = (interval.low, interval.high)
    if standard_error and any(end != 0 == float(amount(end, standard_error)) for end in ends):
        standard_error /= 10
    return " to ".join(amount(end, standard_error) for end in ends)


def away(interval: Interval, centre: float) -> Interval:
    """Returns the interval of the amount by which a mean difference is above or below 0."""
    return Interval(-interval.high, -interval.low) if centre < 0 else interval


def p_text(p: float) -> str:
    """Returns "p = 0.0024", or "p < 0.0001"."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def percent(share: float) -> str:
    """Returns "29 %"."""
    return f"{100 * share:.0f} %"
