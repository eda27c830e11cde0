"""An arm against the baseline, seed by seed, and every number computed from that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.selection.evidence import BASELINE, CellEvidence, StudyEvidence
from sweeper.selection.statistics import (
    Interval,
    all_pairs_improvement,
    correlation,
    detectable_in_sd,
    has_zero_spread,
    holm,
    mean,
    paired_improvement,
    paired_t_p,
    sample_sd,
    sign_flip_p,
    standard_error,
    t_interval,
    unpaired_error,
)

ALPHA = 0.05
"""The chance of claiming a difference somewhere among arms that are all alike."""

FEWEST_PAIRS_FOR_A_CLAIM = 3
"""Below it nothing is said beyond the numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedDifference:
    """Arm minus baseline in one seed, nats per target token; negative means the arm is lower."""

    seed: int
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Arm minus baseline over the seeds that both completed.

    Attributes:
        by_seed: In declared order of seeds.
        n: Pairs.
        n_planned: Seeds of the study.
        is_partial: Whether pairs are left out.
        differences_alike: Whether all seeds gave the same difference, up to rounding.
        baseline_alike: Whether all seeds gave the baseline the same loss, up to rounding.
        p: Two-sided, paired t; None where the differences do not vary.
        p_holm: Adjusted over all planned arms; None while pairs may still come.
        simultaneous: Interval at level `simultaneous_level` = 1 - alpha / arms.
        sign_flip_p: Exact; can reach 5 % from 6 seeds on, and is shown from there on.
        lower_in: Pairs in which the arm is lower.
        paired_improvement: Share of seeds in which the arm is lower, a stopped trial ranking last.
        all_pairs_improvement: The same over all pairs of an arm's and a baseline's trial.
        correlation: Of the two arms over seeds; below 0 pairing did not help.
        unpaired_error: Standard error had the seeds not been shared.
        resolution: True difference that this study sees in 80 % of cases; not observed power.
    """

    by_seed: tuple[SeedDifference, ...]
    n: int
    n_planned: int
    is_partial: bool
    differences_alike: bool
    baseline_alike: bool
    mean: float | None
    sd: float | None
    standard_error: float | None
    interval_95: Interval | None
    interval_90: Interval | None
    simultaneous: Interval | None
    simultaneous_level: float
    p: float | None
    p_holm: float | None
    sign_flip_p: float | None
    lower_in: int
    paired_improvement: float | None
    all_pairs_improvement: float | None
    correlation: float | None
    unpaired_error: float | None
    resolution: float | None

    @property
    def has_zero_spread(self) -> bool:
        """Whether the seed does not reach the losses, so that nothing can be claimed."""
        return self.differences_alike or self.baseline_alike

    @property
    def is_testable(self) -> bool:
        """Whether its p value takes part in the family as it is."""
        return self.n >= FEWEST_PAIRS_FOR_A_CLAIM and not self.has_zero_spread


def compare_with_baseline(study: StudyEvidence, arm: str) -> Difference:
    """Returns the arm's difference, its Holm p still open."""
    by_seed = _by_seed(study, arm)
    differences = [pair.difference for pair in by_seed]
    mine, theirs = _paired_losses(study, arm)
    alpha = ALPHA / len(study.rivals)
    alike = _are_alike(differences, mine, theirs)
    sd = sample_sd(differences)
    in_sd = detectable_in_sd(len(differences), alpha=alpha)
    return Difference(
        by_seed=by_seed,
        n=len(differences),
        n_planned=len(study.seeds),
        is_partial=len(differences) < len(study.seeds),
        differences_alike=alike,
        baseline_alike=has_zero_spread(theirs),
        mean=mean(differences) if differences else None,
        sd=sd,
        standard_error=standard_error(differences),
        interval_95=t_interval(differences, 1 - ALPHA),
        interval_90=t_interval(differences, 1 - 2 * ALPHA),
        simultaneous=t_interval(differences, 1 - alpha),
        simultaneous_level=1 - alpha,
        p=None if alike else paired_t_p(differences),
        p_holm=None,
        sign_flip_p=sign_flip_p(differences),
        lower_in=sum(difference < 0 for difference in differences),
        paired_improvement=_paired_improvement(study, arm),
        all_pairs_improvement=all_pairs_improvement(
            _ranked(study.cells_of(arm)), _ranked(study.cells_of(BASELINE))
        ),
        correlation=correlation(mine, theirs),
        unpaired_error=unpaired_error(mine, theirs),
        resolution=None if sd is None or in_sd is None else sd * in_sd,
    )


def adjust_family(study: StudyEvidence, found: Mapping[str, Difference]) -> dict[str, Difference]:
    """Returns the differences of the comparable arms with their Holm p.

    The family is every planned arm: one that failed, that is not comparable, or whose pairs are
    missing stays in it with p = 1, so that no arm gains from another's failure. While the study is
    open, an arm with missing pairs shows no Holm p of its own.
    """
    names = [arm.name for arm in study.rivals]
    raw = {
        name: difference.p
        for name, difference in found.items()
        if difference.is_testable and not difference.is_partial
    }
    p_values = [raw.get(name) for name in names]
    adjusted = holm([1.0 if p is None else p for p in p_values])
    return {
        name: replace(found[name], p_holm=_shown(study, found[name], p_holm))
        for name, p_holm in zip(names, adjusted, strict=True)
        if name in found
    }


def _shown(study: StudyEvidence, difference: Difference, p_holm: float) -> float | None:
    return None if study.is_pending and difference.is_partial else p_holm


def _by_seed(study: StudyEvidence, arm: str) -> tuple[SeedDifference, ...]:
    pairs = (
        (seed, study.cell(arm, seed).endpoint, study.cell(BASELINE, seed).endpoint)
        for seed in study.seeds
    )
    return tuple(
        SeedDifference(seed=seed, difference=mine - theirs)
        for seed, mine, theirs in pairs
        if mine is not None and theirs is not None
    )


def _paired_losses(study: StudyEvidence, arm: str) -> tuple[list[float], list[float]]:
    pairs = zip(study.cells_of(arm), study.cells_of(BASELINE), strict=True)
    both = [
        (mine.endpoint, theirs.endpoint)
        for mine, theirs in pairs
        if mine.endpoint is not None and theirs.endpoint is not None
    ]
    return [mine for mine, _ in both], [theirs for _, theirs in both]


def _are_alike(
    differences: Sequence[float], mine: Sequence[float], theirs: Sequence[float]
) -> bool:
    magnitude = max((abs(loss) for loss in (*mine, *theirs)), default=0.0)
    return has_zero_spread(differences, magnitude=magnitude)


def _paired_improvement(study: StudyEvidence, arm: str) -> float | None:
    pairs = [
        (mine, theirs)
        for mine, theirs in zip(study.cells_of(arm), study.cells_of(BASELINE), strict=True)
        if not (mine.is_missing or theirs.is_missing)
    ]
    return paired_improvement(
        _ranked([mine for mine, _ in pairs]), _ranked([theirs for _, theirs in pairs])
    )


def _ranked(cells: Sequence[CellEvidence]) -> list[float]:
    """The losses of completed and stopped trials, a stopped one last."""
    return [
        math.inf if cell.endpoint is None else cell.endpoint
        for cell in cells
        if not cell.is_missing
    ]
