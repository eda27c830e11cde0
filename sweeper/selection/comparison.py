"""The whole comparison of a study, from its evidence to the answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sweeper.selection.answer import Answer, answer_question
from sweeper.selection.arm_comparison import ArmComparison, arm_time_to_target, compare_arms
from sweeper.selection.boundary import Boundary, judge_boundary
from sweeper.selection.choice import Choice, choose
from sweeper.selection.effective_decay import EffectiveDecay, effective_decay
from sweeper.selection.evidence import BASELINE, QuestionKind, StudyEvidence, StudyKind
from sweeper.selection.gates import baseline_breaks
from sweeper.selection.noise_floor import NoiseFloor, noise_floor
from sweeper.selection.rate_description import describe_rates, rate_sensitivity
from sweeper.selection.slope import Slope, final_slope
from sweeper.selection.summaries import ArmSummary, remarks, summarise
from sweeper.selection.throughput import Throughput, throughput
from sweeper.selection.time_to_target import Target, TimeToTarget, caveat, find_target


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a study shows; losses and differences are in nats per target token.

    Attributes:
        is_at_best: Whether losses are those of the checkpoint with the lowest validation loss.
        is_closed: Whether no trial will go on.
        is_pending: Whether trials may still go on, so that nothing is final.
        is_partial: Whether trials are missing, for now or for good.
        baseline_notes: Sentences on the baseline that change no verdict.
        arms: Every arm but the baseline, in declared order.
        target: The loss whose time is taken; the arms have their times.
        target_caveat: What such a time does not mean; None where the rate does not decay.
        throughput: What a target token took, and whether seconds may be compared.
        effective_decay: Rate x weight decay; None for other factors, and without decay.
        noise_floor: What running the baseline once more showed; None where the study asks for none.
        boundary: Where the best rate lies; None for other factors, while trials are missing, with
            too few seeds for a claim, and where an arm is not comparable.
        lr_sensitivity: Mean excess over the best arm's capped loss; not comparable with values
            published for wider ranges. None for other factors, while trials are missing,
            where none has completed, and where an arm is not comparable.
        rate_notes: Sentences on the two numbers that describe the rates and decide nothing: this
            one, and where a parabola through three means is lowest.
        precisions: That the trials ran in, as these reported it: one, where all ran alike; empty
            before a trial has run.
    """

    question: QuestionKind
    question_text: str
    kind: StudyKind
    factor: str
    seeds: tuple[int, ...]
    smallest_difference: float
    retention_margin: float
    is_at_best: bool
    is_closed: bool
    is_pending: bool
    is_partial: bool
    baseline: ArmSummary
    baseline_notes: tuple[str, ...]
    baseline_time_to_target: TimeToTarget | None
    baseline_slope: Slope | None
    arms: tuple[ArmComparison, ...]
    answer: Answer
    choice: Choice
    target: Target
    target_caveat: str | None
    throughput: Throughput
    effective_decay: EffectiveDecay | None
    noise_floor: NoiseFloor | None
    boundary: Boundary | None
    lr_sensitivity: float | None
    rate_notes: tuple[str, ...]
    precisions: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Returns plain dicts, lists, numbers and text; None where a number is unknown."""
        return _fields(self)


def compare(study: StudyEvidence) -> Comparison:
    """Returns the comparison of the study's arms with its baseline."""
    baseline = summarise(study, BASELINE)
    arms = compare_arms(study)
    comparable = not any(arm.breaks for arm in arms)
    eligible = _eligible(study, baseline, arms)
    boundary = judge_boundary(study, eligible) if comparable else None
    choice = choose(study, baseline, arms, boundary)
    summaries = [baseline, *(arm.summary for arm in arms)]
    sensitivity = rate_sensitivity(study, summaries) if comparable else None
    return Comparison(
        question=study.question,
        question_text=study.question_text,
        kind=study.kind,
        factor=study.factor,
        seeds=study.seeds,
        smallest_difference=study.smallest_difference,
        retention_margin=study.retention_margin,
        is_at_best=study.is_at_best,
        is_closed=study.closed,
        is_pending=study.is_pending,
        is_partial=study.is_incomplete or study.is_pending,
        baseline=baseline,
        baseline_notes=remarks(baseline),
        baseline_time_to_target=arm_time_to_target(study, BASELINE),
        baseline_slope=final_slope(study, BASELINE),
        arms=arms,
        answer=answer_question(study, arms, choice),
        choice=choice,
        target=find_target(study),
        target_caveat=caveat(study),
        throughput=throughput(study),
        effective_decay=effective_decay(study),
        noise_floor=noise_floor(study),
        boundary=boundary,
        lr_sensitivity=sensitivity,
        rate_notes=describe_rates(study, sensitivity, boundary),
        precisions=_precisions(study),
    )


def _eligible(
    study: StudyEvidence, baseline: ArmSummary, arms: tuple[ArmComparison, ...]
) -> frozenset[str]:
    complete = baseline.n_completed == baseline.n_planned
    own = {BASELINE} if complete and not baseline_breaks(study) else set()
    return frozenset({arm.arm for arm in arms if arm.is_eligible} | own)


def _precisions(study: StudyEvidence) -> tuple[str, ...]:
    ran = [cell.environment for cell in study.all_cells() if cell.environment]
    return tuple(sorted({each.get("precision", "not recorded") for each in ran}))


def _fields(value: object) -> dict[str, object]:
    assert dataclasses.is_dataclass(value)
    names = [field.name for field in dataclasses.fields(value)]
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    return value
