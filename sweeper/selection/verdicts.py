"""One verdict per arm.

The checks are asked in the order of `_CHECKS`; the first that applies is the verdict. How each is
worded is in `sentences`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection import sentences
from sweeper.selection.case import Case, Measured, measured
from sweeper.selection.differences import FEWEST_PAIRS_FOR_A_CLAIM


class VerdictKind(StrEnum):
    """What is said of an arm."""

    NOT_COMPARABLE = "not_comparable"
    BASELINE_UNSTABLE = "baseline_unstable"
    UNSTABLE = "unstable"
    INCOMPLETE = "incomplete"
    TOO_FEW_SEEDS = "no_claim:too_few_seeds"
    ZERO_SPREAD = "no_claim:zero_spread"
    BELOW_NOISE_FLOOR = "no_claim:below_noise_floor"
    BETTER = "better"
    BETTER_PROVISIONAL = "better:provisional"
    WORSE = "worse"
    WORSE_PROVISIONAL = "worse:provisional"
    RELIABLE_BUT_BELOW_DELTA = "reliable_but_below_delta"
    EQUIVALENT_WITHIN_DELTA = "equivalent_within_delta"
    NO_RELIABLE_DIFFERENCE = "no_reliable_difference"


BETTER_KINDS = frozenset({VerdictKind.BETTER, VerdictKind.BETTER_PROVISIONAL})
WORSE_KINDS = frozenset({VerdictKind.WORSE, VerdictKind.WORSE_PROVISIONAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said of one arm.

    Attributes:
        label: The kind, with its counts where it has them: "unstable:2/3".
        is_partial: Whether some pairs are left out of the arm's numbers.
        is_provisional: Whether too few seeds stand behind it to act on it.
    """

    kind: VerdictKind
    label: str
    sentence: str
    is_partial: bool = False
    is_provisional: bool = False


def judge(case: Case) -> Verdict:
    """Returns the arm's verdict."""
    found = (check(case) for check in _CHECKS)
    first = next((verdict for verdict in found if verdict is not None), None)
    return _from_statistics(measured(case)) if first is None else first


def _not_comparable(case: Case) -> Verdict | None:
    if not case.breaks:
        return None
    return _plain(VerdictKind.NOT_COMPARABLE, sentences.not_comparable(case))


def _baseline_unstable(case: Case) -> Verdict | None:
    if not any(cell.is_stopped for cell in case.baseline_cells):
        return None
    kind = VerdictKind.BASELINE_UNSTABLE
    sentence = sentences.baseline_unstable(case)
    return Verdict(kind=kind, label=kind.value, sentence=sentence, is_partial=True)


def _unstable(case: Case) -> Verdict | None:
    n_stopped = sum(cell.is_stopped for cell in case.cells)
    if n_stopped == 0:
        return None
    label = f"{VerdictKind.UNSTABLE}:{n_stopped}/{len(case.cells)}"
    sentence = sentences.unstable(case)
    return Verdict(kind=VerdictKind.UNSTABLE, label=label, sentence=sentence, is_partial=True)


def _incomplete(case: Case) -> Verdict | None:
    n_missing = len(case.missing_pairs)
    if n_missing == 0:
        return None
    label = f"{VerdictKind.INCOMPLETE}:{n_missing}/{len(case.cells)}"
    sentence = sentences.incomplete(case)
    return Verdict(kind=VerdictKind.INCOMPLETE, label=label, sentence=sentence, is_partial=True)


def _too_few_seeds(case: Case) -> Verdict | None:
    if case.difference is None or case.difference.n >= FEWEST_PAIRS_FOR_A_CLAIM:
        return None
    return _plain(VerdictKind.TOO_FEW_SEEDS, sentences.too_few_seeds(case))


def _zero_spread(case: Case) -> Verdict | None:
    if case.difference is None or not case.difference.has_zero_spread:
        return None
    return _plain(VerdictKind.ZERO_SPREAD, sentences.zero_spread(case))


_CHECKS: tuple[Callable[[Case], Verdict | None], ...] = (
    _not_comparable,
    _baseline_unstable,
    _unstable,
    _incomplete,
    _too_few_seeds,
    _zero_spread,
)


def _from_statistics(found: Measured) -> Verdict:
    delta = found.study.smallest_difference
    if found.is_reliable and found.is_below_noise:
        kind, sentence = VerdictKind.BELOW_NOISE_FLOOR, sentences.below_noise_floor(found)
    elif found.is_reliable and found.matters:
        kind, sentence = _direction(found), sentences.better_or_worse(found)
    elif found.is_reliable:
        kind, sentence = VerdictKind.RELIABLE_BUT_BELOW_DELTA, sentences.below_delta(found)
    elif -delta < found.interval_90.low and found.interval_90.high < delta:
        kind, sentence = VerdictKind.EQUIVALENT_WITHIN_DELTA, sentences.equivalent(found)
    else:
        kind, sentence = VerdictKind.NO_RELIABLE_DIFFERENCE, sentences.no_difference(found)
    return Verdict(
        kind=kind, label=kind.value, sentence=sentence, is_provisional=found.is_provisional
    )


def _direction(found: Measured) -> VerdictKind:
    if found.mean < 0:
        return VerdictKind.BETTER_PROVISIONAL if found.is_provisional else VerdictKind.BETTER
    return VerdictKind.WORSE_PROVISIONAL if found.is_provisional else VerdictKind.WORSE


def _plain(kind: VerdictKind, sentence: str) -> Verdict:
    return Verdict(kind=kind, label=kind.value, sentence=sentence)
