"""What was replayed against what is on record, bit by bit. Pure, torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sweeper.records import Evaluation, Update
from sweeper.trial.replay.recorded_run import Anomaly, EvaluationKey
from sweeper.trial.replay.report import (
    Difference,
    EvaluationPair,
    Verdict,
    WindowPair,
    number,
)

_OF_A_WINDOW = (
    "record_digest",
    "target_tokens",
    "learning_rate",
    "loss_scale",
    "loss",
    "gradient_norm",
    "clipped",
    "skip",
    "updates",
    "target_tokens_applied",
)
"""In the order in which they come about, so that the first that differs is nearest to the cause."""

_OF_AN_EVALUATION = ("set_digest", "updates", "loss")


def window_pairs(
    recorded: Mapping[int, Update], replayed: Iterable[Update]
) -> Iterator[WindowPair]:
    """Yields each replayed window beside its record; of a window without one, nothing is equal."""
    for update in replayed:
        before = recorded.get(update.window)
        yield WindowPair(
            window=update.window,
            recorded_loss=None if before is None else number(before.loss),
            replayed_loss=number(update.loss),
            recorded_gradient_norm=None if before is None else number(before.gradient_norm),
            replayed_gradient_norm=number(update.gradient_norm),
            recorded_skip=None if before is None else before.skip,
            replayed_skip=update.skip,
            is_equal=before is not None and not _differing(before, update, _OF_A_WINDOW),
        )


def evaluation_pairs(
    recorded: Mapping[EvaluationKey, Evaluation], replayed: Iterable[Evaluation]
) -> Iterator[EvaluationPair]:
    """Yields each evaluation that was made in both."""
    for evaluation in replayed:
        before = recorded.get((evaluation.split, evaluation.index))
        if before is not None:
            yield EvaluationPair(
                split=evaluation.split,
                index=evaluation.index,
                window=evaluation.window,
                recorded_loss=number(before.loss),
                replayed_loss=number(evaluation.loss),
                is_equal=not _differing(before, evaluation, _OF_AN_EVALUATION),
            )


def first_difference(
    recorded: Mapping[int, Update],
    evaluations: Mapping[EvaluationKey, Evaluation],
    replayed: Iterable[Update | Evaluation],
) -> Difference | None:
    """Returns the first fact, in the order of the replay, that is not as it was recorded."""
    for record in replayed:
        if isinstance(record, Update):
            place, facts = f"window {record.window}", _OF_A_WINDOW
            found = _difference(place, recorded.get(record.window), record, facts)
        else:
            place = f"evaluation {record.index} of {record.split}"
            before = evaluations.get((record.split, record.index))
            found = _difference(place, before, record, _OF_AN_EVALUATION)
        if found is not None:
            return found
    return None


def verdict(recorded: Anomaly | None, replayed: Anomaly | None, *, is_equal: bool) -> Verdict:
    """Returns what became of the anomaly.

    Args:
        is_equal: Whether everything that both report is the same, to the bit.
    """
    if recorded is None and replayed is None:
        return Verdict.IDENTICAL if is_equal else Verdict.DIFFERENT
    if recorded is None:
        return Verdict.NEW
    if replayed is None:
        return Verdict.NOT_REPRODUCED
    if recorded.reason is not replayed.reason:
        return Verdict.ANOTHER
    return Verdict.REPRODUCED if recorded.window == replayed.window else Verdict.MOVED


def _difference(
    place: str,
    before: Update | Evaluation | None,
    now: Update | Evaluation,
    facts: Sequence[str],
) -> Difference | None:
    names = [] if before is None else _differing(before, now, facts)
    if not names:
        return None
    return Difference(
        place=place,
        fact=names[0],
        recorded=_text(getattr(before, names[0])),
        replayed=_text(getattr(now, names[0])),
    )


def _differing(
    before: Update | Evaluation, now: Update | Evaluation, facts: Sequence[str]
) -> list[str]:
    return [name for name in facts if _text(getattr(before, name)) != _text(getattr(now, name))]


def _text(fact: object) -> str:
    """Returns the fact so that two are the same text exactly when they are the same bits.

    `repr` gives every float the digits that tell it from its neighbours, and 0.0 and -0.0 theirs;
    a NaN is a NaN.
    """
    return repr(fact) if isinstance(fact, float) else str(fact)
