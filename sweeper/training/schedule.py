"""The learning rate as a pure function of a counter. Torch-free; nothing to save or restore.

With W the length of the warm-up and `final` the floor as a fraction of the peak:

    counter c = t, the number of the update being tried (updates that ran, plus one)
        rate / peak = t / W                               for t <= W
        progress p  = (t - W) / (N + 1 - W)               for t > W, N planned windows
    counter c = target tokens applied, the window being tried included
        rate / peak = c / W                               for c <= W
        progress p  = (c - W) / (B - W + n)               for c > W, B the budget, n the planned
                                                          target tokens of the last window

    constant: 1        linear: final + (1 - final)(1 - p)
    cosine:   final + (1 - final)(1 + cos(pi p)) / 2

So the first update already has a rate above zero, update W has the peak, and `final` is reached one
update after the last. A skipped window does not advance the counter. The peak multiplies the whole
of it: half the peak halves every rate.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sweeper.errors import Fault, PlanError
from sweeper.training.exposure import Planned
from sweeper.training.options import ScheduleOptions, Warmup


def rate(options: ScheduleOptions, *, peak: float, count: int, planned: Planned) -> float:
    """Returns the learning rate at a count; see the formula above.

    Args:
        count: In the unit of `options.counter`, the update or window being tried included.

    Raises:
        PlanError: The warm-up is given in another unit than the counter's.
    """
    warmup = warmup_length(options, planned=planned)
    if count <= warmup:
        return peak * (count / warmup)
    span = _end(options, planned) - warmup
    progress = min((count - warmup) / span, 1.0) if span > 0 else 1.0
    return peak * _decay(options, progress)


def count_of(options: ScheduleOptions, *, updates: int, target_tokens: int) -> int:
    """Returns the count that the schedule goes by.

    Args:
        updates: Updates that ran, plus the one being tried.
        target_tokens: Target tokens applied, plus those of the window being tried.
    """
    return updates if options.counter == "updates" else target_tokens


def warmup_length(options: ScheduleOptions, *, planned: Planned) -> int:
    """Returns the length of the warm-up in the counter's unit: updates, or target tokens.

    A fraction is of the planned windows or of the budget, rounded up. It is taken as the decimal
    number that was written: 0.07 of 100 is 7, though 0.07 * 100 is a little above it.

    Raises:
        PlanError: The warm-up is given in another unit than the counter's.
    """
    if options.warmup is None:
        return 0
    if options.warmup.fraction is not None:
        whole = planned.windows if options.counter == "updates" else planned.target_tokens
        return math.ceil(Fraction(repr(options.warmup.fraction)) * whole)
    return _length_in_counter(options, options.warmup)


def _length_in_counter(options: ScheduleOptions, warmup: Warmup) -> int:
    length = warmup.updates if options.counter == "updates" else warmup.target_tokens
    if length is not None:
        return length
    other = "target_tokens" if options.counter == "updates" else "updates"
    fault = Fault(
        what="the warm-up is given in another unit than the schedule counts in",
        where="training.schedule.warmup",
        got=f"warmup in {other}, counter: {options.counter}",
        expected=f"warmup: {{{options.counter}: ...}} or warmup: {{fraction: ...}}",
        hint=f"Give the warm-up in {options.counter}, or as a fraction.",
    )
    raise PlanError(fault)


def _end(options: ScheduleOptions, planned: Planned) -> int:
    """Returns the count one update after the last, where the rate is `final`."""
    if options.counter == "updates":
        return planned.windows + 1
    return planned.target_tokens + planned.last_window_target_tokens


def _decay(options: ScheduleOptions, progress: float) -> float:
    match options.kind:
        case "constant":
            return 1.0
        case "linear":
            return options.final + (1.0 - options.final) * (1.0 - progress)
        case "cosine":
            return options.final + (1.0 - options.final) * (1.0 + math.cos(math.pi * progress)) / 2
