"""What a study of rates changes besides the rate: the share of each weight that decays away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.selection.evidence import StudyEvidence, StudyKind
from sweeper.selection.wording import listing, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveDecay:
    """Peak rate x weight decay: the share that one update at the peak takes off each weight."""

    by_arm: Mapping[str, float]
    sentence: str


def effective_decay(study: StudyEvidence) -> EffectiveDecay | None:
    """Returns the arms' decay; None for other factors, and without weight decay."""
    if study.kind is not StudyKind.RATE or study.weight_decay == 0:
        return None
    by_arm = {
        arm.name: arm.number * study.weight_decay for arm in study.arms if arm.number is not None
    }
    products = listing([f"{name} {plain(product)}" for name, product in by_arm.items()])
    return EffectiveDecay(
        by_arm=by_arm,
        sentence=f"Rate x weight decay differs between the arms ({products}): they change the "
        "decay along with the rate, and a difference may come from either.",
    )
