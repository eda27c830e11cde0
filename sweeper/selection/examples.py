"""The difference record by record: would another validation sample of this kind agree?

Secondary, and never a claim of its own: two trials of the same arm differ from record to record as
well, so that this test alone finds "differences" between identical arms. The unit of a claim is the
seed; here records are what is drawn at random, and records of one group are drawn together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from sweeper.selection.differences import ALPHA, Difference
from sweeper.selection.evidence import BASELINE, StudyEvidence
from sweeper.selection.example_losses import ExampleLosses
from sweeper.selection.statistics import Interval, mean
from sweeper.selection.wording import amount, interval_text, listing, seeds_text

FEWEST_GROUPS_FOR_A_BOOTSTRAP = 50
RESAMPLES = 1000
LARGEST_DISAGREEMENT = 0.2
"""Share by which two standard errors may differ; 1000 resamples give one to about 2 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEstimate:
    """Sum of differences / sum of target tokens, with the error of drawing other groups.

    Attributes:
        difference: Nats per target token.
        groups: That were drawn independently.
        error: Standard error; None for a single group.
        error_of_records: The same as if every record were a group of its own.
    """

    difference: float
    groups: int
    error: float | None
    error_of_records: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSources:
    """The error of drawing other seeds and other records together.

    Attributes:
        degrees_of_freedom: Satterthwaite's.
        interval_95: For new seeds and new records of this kind.
    """

    error: float
    degrees_of_freedom: float
    interval_95: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleDifference:
    """Arm minus baseline over the records of the validation split, averaged over seeds first.

    Attributes:
        seeds: Pairs that were averaged: those of the paired difference.
        records: Of the split.
        estimate: Its difference equals the paired mean.
        bootstrap_error: The error by drawing groups with replacement; None below 50 groups.
        two_sources: None below two seeds, and where seeds do not vary.
        only_on_this_split: Whether the interval over seeds leaves 0 out and the wider one does not.
    """

    seeds: int
    records: int
    estimate: RatioEstimate
    bootstrap_error: float | None
    two_sources: TwoSources | None
    only_on_this_split: bool
    sentence: str


def compare_examples(
    study: StudyEvidence, arm: str, difference: Difference
) -> ExampleDifference | None:
    """Returns the arm's difference over records.

    None unless the losses of single records are on record for every pair compared.
    """
    found = study.examples
    seeds = [pair.seed for pair in difference.by_seed]
    if found is None or not seeds or not _has_all(found, arm, seeds):
        return None
    differences = _mean_differences(found, arm, seeds)
    weights, groups = found.target_tokens, found.groups
    estimate = ratio_estimate(differences, weights, groups)
    both = None if difference.has_zero_spread else combine(difference, estimate)
    result = ExampleDifference(
        seeds=len(seeds),
        records=len(differences),
        estimate=estimate,
        bootstrap_error=bootstrap_error(differences, weights, groups),
        two_sources=both,
        only_on_this_split=_only_here(difference, both),
        sentence="",
    )
    return replace(result, sentence=_sentence(arm, result))


def left_out(study: StudyEvidence, arm: str, difference: Difference) -> str | None:
    """Returns that files of losses are gone or changed, and the arm is not compared for it.

    None where it is compared, or the losses of single records never were on record.
    """
    unread = () if study.examples is None else study.examples.unread
    seeds = [pair.seed for pair in difference.by_seed]
    lost = [
        f"{name}/{seed}" for name in (arm, BASELINE) for seed in seeds if (name, seed) in unread
    ]
    if not lost:
        return None
    files, verb = ("file", "is") if len(lost) == 1 else ("files", "are")
    return (
        f"{arm} is not compared with {BASELINE} record by record: the {files} with the losses of "
        f"single records of {listing(lost)} {verb} gone or changed. Whether other validation "
        "records would agree is not known, and nothing said of it allows for that."
    )


def ratio_estimate(
    differences: Sequence[float], target_tokens: Sequence[int], groups: Sequence[str]
) -> RatioEstimate:
    """Returns the token-weighted difference of records and the error of drawing others.

    Args:
        differences: Summed token losses of each record, arm minus baseline, in nats.

    Source: ratio estimator, linearised; groups are summed before, so that records that are drawn
        together count once.
    """
    by_group = _sums_by_group(differences, target_tokens, groups)
    return RatioEstimate(
        difference=math.fsum(differences) / sum(target_tokens),
        groups=len(by_group),
        error=_ratio_error([d for d, _ in by_group], [tokens for _, tokens in by_group]),
        error_of_records=_ratio_error(differences, target_tokens),
    )


def bootstrap_error(
    differences: Sequence[float], target_tokens: Sequence[int], groups: Sequence[str]
) -> float | None:
    """Returns the standard error by drawing whole groups with replacement, as a check.

    The generator is fixed, and groups are taken in the order of their names: equal records give
    equal digits. None below `FEWEST_GROUPS_FOR_A_BOOTSTRAP` groups.
    """
    by_group = _sums_by_group(differences, target_tokens, groups)
    n = len(by_group)
    if n < FEWEST_GROUPS_FOR_A_BOOTSTRAP:
        return None
    sums, tokens = (np.array(column, dtype=np.float64) for column in zip(*by_group, strict=True))
    generator = np.random.default_rng(0)
    ratios = np.empty(RESAMPLES)
    for place in range(RESAMPLES):
        drawn = generator.integers(0, n, n)
        ratios[place] = sums[drawn].sum() / tokens[drawn].sum()
    return float(ratios.std(ddof=1))


def combine(difference: Difference, estimate: RatioEstimate) -> TwoSources | None:
    """Returns the error of new seeds and new records; None where one of the two is unknown.

    Source: Satterthwaite (1946) for the degrees of freedom of a sum of variances.
    """
    seed_error, record_error = difference.standard_error, estimate.error
    if difference.mean is None or seed_error is None or record_error is None:
        return None
    return two_sources(
        difference.mean,
        seed_error=seed_error,
        seeds=difference.n,
        record_error=record_error,
        groups=estimate.groups,
    )


def two_sources(
    centre: float, *, seed_error: float, seeds: int, record_error: float, groups: int
) -> TwoSources | None:
    """Returns the interval about `centre`; None where neither source varies."""
    error = math.hypot(seed_error, record_error)
    if error == 0:
        return None
    shares = (seed_error / error) ** 4 / (seeds - 1), (record_error / error) ** 4 / (groups - 1)
    degrees = 1 / math.fsum(shares)
    half = float(special.stdtrit(degrees, 1 - ALPHA / 2)) * error
    return TwoSources(
        error=error,
        degrees_of_freedom=degrees,
        interval_95=Interval(centre - half, centre + half),
    )


def _has_all(found: ExampleLosses, arm: str, seeds: Sequence[int]) -> bool:
    return all((name, seed) in found.loss_sums for name in (arm, BASELINE) for seed in seeds)


def _mean_differences(found: ExampleLosses, arm: str, seeds: Sequence[int]) -> list[float]:
    """Arm minus baseline of each record, over the seeds."""
    by_seed = [
        [
            mine - theirs
            for mine, theirs in zip(
                found.loss_sums[arm, seed], found.loss_sums[BASELINE, seed], strict=True
            )
        ]
        for seed in seeds
    ]
    return [mean(of_record) for of_record in zip(*by_seed, strict=True)]


def _sums_by_group(
    differences: Sequence[float], target_tokens: Sequence[int], groups: Sequence[str]
) -> list[tuple[float, int]]:
    """Difference and target tokens of each group, by its name."""
    members: Mapping[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    return [
        (
            math.fsum(differences[place] for place in members[group]),
            sum(target_tokens[place] for place in members[group]),
        )
        for group in sorted(members)
    ]


def _ratio_error(differences: Sequence[float], target_tokens: Sequence[int]) -> float | None:
    n = len(differences)
    if n < 2:
        return None
    total = sum(target_tokens)
    ratio = math.fsum(differences) / total
    residuals = [d - ratio * tokens for d, tokens in zip(differences, target_tokens, strict=True)]
    return math.sqrt(math.fsum(r * r for r in residuals) / (n * (n - 1))) * n / total


def _only_here(difference: Difference, both: TwoSources | None) -> bool:
    if both is None or difference.interval_95 is None:
        return False
    return both.interval_95.holds(0.0) and not difference.interval_95.holds(0.0)


def _sentence(arm: str, found: ExampleDifference) -> str:
    estimate = found.estimate
    shown = amount(estimate.difference, estimate.error)
    count = f"{found.records} records"
    if estimate.groups < found.records:
        count += f" in {estimate.groups} groups"
    text = (
        f"{arm} - {BASELINE} over {count} of this validation split, averaged over "
        f"{seeds_text(found.seeds)}: {shown} nats per target token"
    )
    if estimate.error is not None:
        text += f" (standard error over records {estimate.error:.2g})"
    return f"{text}.{_wider(found)}{_check(found)}"


def _wider(found: ExampleDifference) -> str:
    both = found.two_sources
    if both is None:
        return ""
    text = (
        " Allowing for other seeds and other records, the 95 % interval is "
        f"{interval_text(both.interval_95, both.error)}"
    )
    return f"{text}: it includes 0." if both.interval_95.holds(0.0) else f"{text}."


def _check(found: ExampleDifference) -> str:
    """Says so when the two ways to the error disagree; then neither is to be relied upon."""
    error, resampled = found.estimate.error, found.bootstrap_error
    if not error or resampled is None or abs(resampled / error - 1) <= LARGEST_DISAGREEMENT:
        return ""
    return (
        f" Drawing groups with replacement gives a standard error of {resampled:.2g} instead: "
        "few groups decide, and neither is to be relied upon."
    )
