"""Whether the rates that were compared enclose the best one. For studies of the rate only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.differences import ALPHA, FEWEST_PAIRS_FOR_A_CLAIM
from sweeper.selection.evidence import BASELINE, Arm, StudyEvidence, StudyKind
from sweeper.selection.extension import next_arm
from sweeper.selection.noise_floor import floor_nats
from sweeper.selection.statistics import finite, has_zero_spread, mean, paired_t_p, vertex_log2
from sweeper.selection.wording import listing, plain


class BoundaryKind(StrEnum):
    """Where the best arm lies among the rates compared."""

    BRACKETED = "bracketed"
    EDGE_OF_STABILITY = "edge_of_stability"
    EDGE = "edge"
    FLAT = "flat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Where the best arm lies.

    Attributes:
        best: The eligible arm with the lowest mean loss; of equal ones the baseline.
        vertex_log2: Where a parabola through half, baseline and double is lowest, in doublings of
            the baseline's rate: descriptive, never a recommendation. None where there is none.
        next_arm: The arm that the study may run next, beyond an edge; None for none.
    """

    kind: BoundaryKind
    best: str
    sentence: str
    vertex_log2: float | None
    next_arm: Arm | None = None


def judge_boundary(study: StudyEvidence, eligible: frozenset[str]) -> Boundary | None:
    """Returns where the best eligible arm lies.

    None while the study is open, without an eligible arm, and with fewer seeds than a claim takes:
    which arm is best is not known then.
    """
    if study.kind is not StudyKind.RATE or study.is_pending:
        return None
    if len(study.seeds) < FEWEST_PAIRS_FOR_A_CLAIM:
        return None
    ordered = sorted(study.arms, key=_rate)
    candidates = [arm for arm in ordered if arm.name in eligible]
    if not candidates:
        return None
    best = min(candidates, key=lambda arm: (mean(_losses(study, arm)), arm.name != BASELINE))
    unbeaten = [arm.name for arm in _beside(ordered, best) if not _is_beaten(study, arm, best)]
    kind = _kind(study, ordered, candidates, best)
    beyond = next_arm(study, best.name) if kind is BoundaryKind.EDGE else None
    return Boundary(
        kind=kind,
        best=best.name,
        sentence=_sentence(kind, best.name, unbeaten, beyond),
        vertex_log2=_vertex(study, candidates),
        next_arm=beyond,
    )


def _kind(
    study: StudyEvidence, ordered: Sequence[Arm], candidates: Sequence[Arm], best: Arm
) -> BoundaryKind:
    """At an edge nothing shows that the loss rises beyond it.

    An arm beyond it that was run and is worse does, whether or not it may be chosen.
    """
    beside = _beside(ordered, best)
    if len(beside) == 2 and all(_is_beaten(study, arm, best) for arm in beside):
        return BoundaryKind.BRACKETED
    below = [arm for arm in beside if _rate(arm) < _rate(best)]
    above = [arm for arm in beside if _rate(arm) > _rate(best)]
    if best is candidates[-1] and any(_failed(study, arm) for arm in above):
        return BoundaryKind.EDGE_OF_STABILITY
    outward = [side for side, end in ((below, 0), (above, -1)) if best is candidates[end]]
    if any(not any(_is_beaten(study, arm, best) for arm in side) for side in outward):
        return BoundaryKind.EDGE
    return BoundaryKind.FLAT


def _beside(ordered: Sequence[Arm], best: Arm) -> tuple[Arm, ...]:
    """The arms with the next lower and the next higher rate, where there are such."""
    place = ordered.index(best)
    return (*ordered[:place][-1:], *ordered[place + 1 :][:1])


def _is_beaten(study: StudyEvidence, neighbour: Arm, best: Arm) -> bool:
    """Unstable, or higher than the best arm by a paired test that counts the whole family.

    A difference below the noise floor is none, and from a part of the pairs nothing is claimed.
    """
    if _failed(study, neighbour):
        return True
    pairs = [
        (mine.endpoint, theirs.endpoint)
        for mine, theirs in zip(
            study.cells_of(neighbour.name), study.cells_of(best.name), strict=True
        )
        if mine.endpoint is not None and theirs.endpoint is not None
    ]
    differences = [mine - theirs for mine, theirs in pairs]
    magnitude = max((abs(mine) for mine, _ in pairs), default=0.0)
    alike = has_zero_spread(differences, magnitude=magnitude)
    p = paired_t_p(differences)
    is_part = len(pairs) < max(len(study.seeds), FEWEST_PAIRS_FOR_A_CLAIM)
    if p is None or alike or is_part:
        return False
    above = mean(differences)
    return above > 0 and above >= floor_nats(study) and p * len(study.rivals) <= ALPHA


def _failed(study: StudyEvidence, arm: Arm) -> bool:
    return any(cell.is_stopped for cell in study.cells_of(arm.name))


def _losses(study: StudyEvidence, arm: Arm) -> tuple[float, ...]:
    return finite(cell.endpoint for cell in study.cells_of(arm.name))


def _rate(arm: Arm) -> float:
    assert arm.number is not None
    return arm.number


def _vertex(study: StudyEvidence, candidates: Sequence[Arm]) -> float | None:
    centre = _rate(study.baseline)
    means = [
        mean(_losses(study, arm))
        for factor in (0.5, 1.0, 2.0)
        for arm in candidates
        if math.isclose(_rate(arm), factor * centre)
    ]
    return vertex_log2(*means) if len(means) == 3 else None


def _sentence(kind: BoundaryKind, best: str, unbeaten: Sequence[str], beyond: Arm | None) -> str:
    verb = "is" if len(unbeaten) == 1 else "are"
    words = {
        BoundaryKind.BRACKETED: f"The rates on both sides of {best} are reliably worse or "
        "unstable: the range is bracketed.",
        BoundaryKind.EDGE_OF_STABILITY: f"{best} has the highest rate that did not fail; the "
        "range is not bracketed. Warm-up or clipping would be a study of its own.",
        BoundaryKind.EDGE: f"{best} is at the edge of the rates that can be chosen: the optimum "
        f"may lie beyond; the range is not bracketed.{_beyond(beyond)}",
        BoundaryKind.FLAT: f"The loss is flat within noise around {best}: {listing(unbeaten)} "
        f"{verb} not shown to be worse.",
    }
    return words[kind]


def _beyond(arm: Arm | None) -> str:
    if arm is None or arm.number is None:
        return ""
    return f" The next arm is {arm.name} ({plain(arm.number)})."
