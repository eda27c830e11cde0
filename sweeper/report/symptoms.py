"""What the record of a trial shows that is worth a question: one small function per symptom.

Pure: from the windows and evaluations of a trial to findings, which are facts with their numbers.
What may be behind them is no fact and stands in `guesses.py`. Every threshold is named here, with
the reason for it. To add a symptom: its name, a function, a line in the table at the foot.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sweeper.records import Reason, Skip
from sweeper.report.case import Case, WindowFacts


class Symptom(StrEnum):
    """What is looked for, in the order in which it is told."""

    NONFINITE = "nonfinite"
    LOSS_SPIKE = "loss_spike"
    RISING_LOSS = "rising_loss"
    FREQUENT_CLIPPING = "frequent_clipping"
    SCALER_OVERFLOWS = "scaler_overflows"
    STALLED_UPDATES = "stalled_updates"
    ZERO_TARGETS = "zero_targets"
    FLAT_LOSS = "flat_loss"
    RETENTION_DAMAGE = "retention_damage"
    THROUGHPUT_COLLAPSE = "throughput_collapse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that the record shows.

    Attributes:
        sentence: With its numbers; begins small and has no full stop.
        first_window: Of the windows that show it; None where it is not a matter of windows.
        numbers: What the sentence says, by name.
    """

    symptom: Symptom
    sentence: str
    first_window: int | None = None
    last_window: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


NORMAL_SPREAD = 1.4826
"""Turns the median absolute deviation into the standard deviation of a normal distribution."""

SPIKE_WINDOWS_BEFORE = 16
SPIKE_LEAST_WINDOWS_BEFORE = 3
SPIKE_SPREADS = 6.0
"""Windows hold other records, so that their losses scatter: one in a billion is this far out."""
SPIKE_NATS = 0.5
"""And less than this is no spike, however quiet the windows before were."""

RISE_NATS = 0.1
"""Validation losses of one set of records hardly scatter; a tenth of a nat is no chance."""

CLIPPED_SHARE = 0.25
"""Clipping is meant for outliers. Where it takes a quarter of all updates, it sets their length."""
CLIPPED_LEAST_UPDATES = 8

OVERFLOW_SHARE = 0.05
"""Scaling finds its scale by overflowing now and then: torch tries a larger one every 2000th."""
OVERFLOW_LEAST = 3

STALLED_ZERO_GRADIENTS = 3
"""A gradient of exactly zero happens to an adapter's A at update 1, never to all tensors."""

FLAT_SHARE = 0.005
"""Of the initial loss: what one learns nothing in."""
FLAT_LEAST_UPDATES = 10

COLLAPSE_SHARE = 0.5
COLLAPSE_WINDOWS = 3
"""A single slow window is the garbage collector's, or somebody's `ls`."""
COLLAPSE_LEAST_WINDOWS_BEFORE = 5


def nonfinite(case: Case) -> Finding | None:
    """Windows or evaluations with values that are not finite; float16 overflows apart."""
    windows = [w for w in case.windows if w.is_nonfinite and w.skip is not Skip.SCALER_OVERFLOW]
    scores = [s for s in (*case.validation, *case.retention) if s.loss is None]
    if not windows and not scores:
        return None
    if not windows:
        sentence = f"the evaluation after window {scores[0].window} was not finite"
        return _finding(Symptom.NONFINITE, sentence, evaluations=len(scores))
    what = "gradient norm" if windows[0].skip is Skip.NONFINITE_GRADIENT else "loss"
    sentence = f"the {what} was not finite in {_places(windows)}, so no update was made"
    return _finding(Symptom.NONFINITE, sentence, windows, windows=len(windows))


def loss_spike(case: Case) -> Finding | None:
    """Windows whose loss stands far above those of the windows before."""
    known = [w for w in case.windows if w.loss is not None]
    spikes = []
    for place, window in enumerate(known):
        before = [w.loss for w in known[max(place - SPIKE_WINDOWS_BEFORE, 0) : place]]
        rise = _rise(window.loss, before)
        if rise is not None:
            spikes.append((rise, window))
    if not spikes:
        return None
    rise, highest = max(spikes, key=lambda spike: spike[0])
    windows = [window for _, window in spikes]
    sentence = (
        f"the loss of window {highest.window} was {_nats(highest.loss)}, {_nats(rise)} above the"
        f" median of up to {SPIKE_WINDOWS_BEFORE} windows before"
    )
    if len(windows) > 1:
        sentence += f"; {_places(windows)} stood out so"
    return _finding(
        Symptom.LOSS_SPIKE,
        sentence,
        windows,
        highest_window=highest.window,
        loss=highest.loss,
        above_median=rise,
        windows=len(windows),
    )


def rising_loss(case: Case) -> Finding | None:
    """A validation loss that ends above the lowest one before it."""
    scores = [(s.loss, s) for s in case.validation if s.loss is not None]
    if len(scores) < 2:
        return None
    lowest, at_lowest = min(scores, key=lambda score: score[0])
    final, at_final = scores[-1]
    if final - lowest <= RISE_NATS:
        return None
    where = (
        "before the first update" if at_lowest.index == 0 else f"after window {at_lowest.window}"
    )
    sentence = (
        f"the validation loss rose from {_nats(lowest)} {where} to {_nats(final)} after window"
        f" {at_final.window}"
    )
    return Finding(
        symptom=Symptom.RISING_LOSS,
        sentence=sentence,
        first_window=at_lowest.window + 1,
        last_window=at_final.window,
        numbers={"lowest": lowest, "final": final, "initial": scores[0][0]},
    )


def frequent_clipping(case: Case) -> Finding | None:
    """Gradients that are scaled down in more than a few updates."""
    ran = [w for w in case.windows if w.ran]
    clipped = [w for w in ran if w.clipped]
    if len(ran) < CLIPPED_LEAST_UPDATES or len(clipped) <= CLIPPED_SHARE * len(ran):
        return None
    median = statistics.median(w.gradient_norm or 0.0 for w in ran)
    share = len(clipped) / len(ran)
    assert case.clip_norm is not None, "nothing is clipped without a threshold"
    sentence = (
        f"{len(clipped)} of {len(ran)} updates ({share:.0%}) were clipped to a norm of"
        f" {case.clip_norm:g}; the median norm before was {median:.4g}"
    )
    return _finding(
        Symptom.FREQUENT_CLIPPING,
        sentence,
        clipped,
        clipped=len(clipped),
        updates=len(ran),
        median_norm=median,
        clip_norm=case.clip_norm,
    )


def scaler_overflows(case: Case) -> Finding | None:
    """float16 windows that were skipped because scaled gradients overflowed, more than a few."""
    skipped = [w for w in case.windows if w.skip is Skip.SCALER_OVERFLOW]
    if len(skipped) < OVERFLOW_LEAST or len(skipped) <= OVERFLOW_SHARE * len(case.windows):
        return None
    sentence = (
        f"scaled gradients overflowed in {len(skipped)} of {len(case.windows)} windows, which were"
        " read but not applied"
    )
    return _finding(
        Symptom.SCALER_OVERFLOWS,
        sentence,
        skipped,
        skipped=len(skipped),
        windows=len(case.windows),
    )


def stalled_updates(case: Case) -> Finding | None:
    """Updates that ran and moved nothing, as far as the record can tell."""
    if case.reason is Reason.STALLED_UPDATES:
        last = [w for w in case.windows if w.ran][-1:]
        sentence = "the trial was stopped because its updates moved no trainable weight"
        return _finding(Symptom.STALLED_UPDATES, sentence, last)
    row = _longest_row(case.windows, lambda w: w.ran and w.gradient_norm == 0.0)
    if len(row) >= STALLED_ZERO_GRADIENTS:
        sentence = f"the gradient was exactly zero in {_places(row)}, though updates ran"
        return _finding(Symptom.STALLED_UPDATES, sentence, row, updates=len(row))
    for before, after in itertools.pairwise(case.validation):
        if before.loss is not None and before.loss == after.loss and after.updates > before.updates:
            sentence = (
                f"the validation loss after window {after.window} is to the last bit that after"
                f" window {before.window}, with {after.updates - before.updates} updates in between"
            )
            return Finding(
                symptom=Symptom.STALLED_UPDATES,
                sentence=sentence,
                first_window=before.window + 1,
                last_window=after.window,
                numbers={"loss": before.loss, "updates": after.updates - before.updates},
            )
    return None


def zero_targets(case: Case) -> Finding | None:
    """Windows in which nothing is to be learned."""
    empty = [w for w in case.windows if w.target_tokens == 0]
    if not empty:
        return None
    sentence = f"{_places(empty)} held no target token, so no update was made"
    return _finding(Symptom.ZERO_TARGETS, sentence, empty, windows=len(empty))


def flat_loss(case: Case) -> Finding | None:
    """A validation loss that stays where it was, all the way."""
    losses = [s.loss for s in case.validation if s.loss is not None]
    updates = max((s.updates for s in case.validation), default=0)
    if len(losses) < 2 or updates < FLAT_LEAST_UPDATES:
        return None
    span = max(losses) - min(losses)
    if span >= FLAT_SHARE * losses[0]:
        return None
    sentence = (
        f"the validation loss stayed between {_nats(min(losses))} and {_nats(max(losses))} over"
        f" {updates} updates, within {FLAT_SHARE:.1%} of the initial one"
    )
    return Finding(
        symptom=Symptom.FLAT_LOSS,
        sentence=sentence,
        numbers={"initial": losses[0], "span": span, "updates": updates},
    )


def retention_damage(case: Case) -> Finding | None:
    """A retention loss that rose by more than the study allows."""
    losses = [(s.loss, s) for s in case.retention if s.loss is not None]
    if len(losses) < 2:
        return None
    (initial, _), (final, at_final) = losses[0], losses[-1]
    if final - initial <= case.retention_margin:
        return None
    sentence = (
        f"the retention loss rose from {_nats(initial)} to {_nats(final)} after window"
        f" {at_final.window}: {_nats(final - initial)}, with {case.retention_margin:g} allowed"
    )
    return Finding(
        symptom=Symptom.RETENTION_DAMAGE,
        sentence=sentence,
        numbers={"initial": initial, "final": final, "allowed": case.retention_margin},
    )


def throughput_collapse(case: Case) -> Finding | None:
    """Windows in a row that ran at less than half the speed of those before."""
    rates = [w.tokens / w.seconds if w.seconds > 0 else math.inf for w in case.windows]
    starts = range(COLLAPSE_LEAST_WINDOWS_BEFORE, len(rates))
    first, count = max(((at, _slow_from(at, rates)) for at in starts), key=_count, default=(0, 0))
    if count < COLLAPSE_WINDOWS:
        return None
    row = case.windows[first : first + count]
    rate = statistics.median(rates[first : first + count])
    usual = statistics.median(rates[:first])
    sentence = (
        f"{_places(row)} ran at {rate:,.0f} tokens per second in the median, those before at"
        f" {usual:,.0f}"
    )
    return _finding(
        Symptom.THROUGHPUT_COLLAPSE,
        sentence,
        row,
        tokens_per_second=rate,
        tokens_per_second_before=usual,
        windows=len(row),
    )


def _rise(loss: float | None, before: Sequence[float | None]) -> float | None:
    """Returns how far the loss is above the median before, if that makes it a spike."""
    known = [value for value in before if value is not None]
    if loss is None or len(known) < SPIKE_LEAST_WINDOWS_BEFORE:
        return None
    median = statistics.median(known)
    spread = NORMAL_SPREAD * statistics.median(abs(value - median) for value in known)
    rise = loss - median
    return rise if rise > max(SPIKE_NATS, SPIKE_SPREADS * spread) else None


def _slow_from(first: int, rates: Sequence[float]) -> int:
    """Returns how many windows in a row, from one on, are slow beside all those before it."""
    limit = COLLAPSE_SHARE * statistics.median(rates[:first])
    return sum(1 for _ in itertools.takewhile(lambda rate: rate < limit, rates[first:]))


def _count(row: tuple[int, int]) -> int:
    return row[1]


def _longest_row(
    windows: Sequence[WindowFacts], belongs: Callable[[WindowFacts], bool]
) -> list[WindowFacts]:
    rows = [list(row) for is_one, row in itertools.groupby(windows, belongs) if is_one]
    return max(rows, key=len, default=[])


def _finding(
    symptom: Symptom,
    sentence: str,
    windows: Sequence[WindowFacts] = (),
    /,
    **numbers: float | None,
) -> Finding:
    return Finding(
        symptom=symptom,
        sentence=sentence,
        first_window=windows[0].window if windows else None,
        last_window=windows[-1].window if windows else None,
        numbers={name: value for name, value in numbers.items() if value is not None},
    )


def _places(windows: Sequence[WindowFacts]) -> str:
    """Returns "window 7", "windows 7 to 9", or "4 windows between 7 and 90"."""
    first, last = windows[0].window, windows[-1].window
    if first == last:
        return f"window {first}"
    if last - first + 1 == len(windows):
        return f"windows {first} to {last}"
    return f"{len(windows)} windows between {first} and {last}"


def _nats(loss: float | None) -> str:
    return f"{loss:.4f}"


SYMPTOMS: tuple[tuple[Symptom, Callable[[Case], Finding | None]], ...] = (
    (Symptom.NONFINITE, nonfinite),
    (Symptom.LOSS_SPIKE, loss_spike),
    (Symptom.RISING_LOSS, rising_loss),
    (Symptom.FREQUENT_CLIPPING, frequent_clipping),
    (Symptom.SCALER_OVERFLOWS, scaler_overflows),
    (Symptom.STALLED_UPDATES, stalled_updates),
    (Symptom.ZERO_TARGETS, zero_targets),
    (Symptom.FLAT_LOSS, flat_loss),
    (Symptom.RETENTION_DAMAGE, retention_damage),
    (Symptom.THROUGHPUT_COLLAPSE, throughput_collapse),
)
