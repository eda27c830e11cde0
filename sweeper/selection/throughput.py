"""Whether seconds may be compared: what a target token took in each arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.selection.evidence import CellEvidence, StudyEvidence, StudyKind
from sweeper.selection.wording import percent

LARGEST_SPREAD = 0.05
"""A rate changes no work: seconds that differ by more between arms are the machine's doing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Training time per target token; evaluation, checkpoints and loading left out.

    Attributes:
        seconds_per_1000_target_tokens: By arm, over its completed trials; None without one.
        spread: Slowest arm / fastest arm - 1; None for fewer than two.
        is_noisy: Whether arms are not to be ranked by seconds.
        sentence: None where nothing is to be said.
    """

    seconds_per_1000_target_tokens: Mapping[str, float | None]
    spread: float | None
    is_noisy: bool
    sentence: str | None


def throughput(study: StudyEvidence) -> Throughput:
    """Returns what a target token took; in a study of rates, whether that differs too much."""
    by_arm = {arm.name: _seconds_of(study.cells_of(arm.name)) for arm in study.arms}
    known = [seconds for seconds in by_arm.values() if seconds]
    spread = max(known) / min(known) - 1 if len(known) > 1 else None
    is_noisy = study.kind is StudyKind.RATE and spread is not None and spread > LARGEST_SPREAD
    return Throughput(
        seconds_per_1000_target_tokens=by_arm,
        spread=spread,
        is_noisy=is_noisy,
        sentence=_noisy(spread) if is_noisy and spread is not None else None,
    )


def _seconds_of(cells: tuple[CellEvidence, ...]) -> float | None:
    ends = [cell.evaluations[-1] for cell in cells if cell.is_completed and cell.evaluations]
    known = [
        (end.training_seconds, end.target_tokens_read)
        for end in ends
        if end.training_seconds is not None
    ]
    tokens = sum(read for _, read in known)
    if len(known) < len(ends) or not tokens:
        return None
    return 1000 * math.fsum(seconds for seconds, _ in known) / tokens


def _noisy(spread: float) -> str:
    return (
        f"Wall-clock is noisy on this machine: a target token took up to {percent(spread)} longer "
        "in one arm than in another, and a rate changes no work. Arms are not ranked by seconds."
    )
