"""The arms: each has a rate, a number of records to an update, or a precision of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from sweeper.selection.evidence import StudyKind, kind_of
from sweeper.study.schema import Study
from sweeper.training.options import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """One arm's rates.

    Attributes:
        value: The arm's value of the compared key.
        learning_rate_peak: The highest rate of its schedule.
        learning_rate_final: What the decay goes to; the peak where the schedule is constant.
        lr_x_weight_decay: The share of each weight that an update at the peak decays away.
        records_per_update: Where that is the compared key; None where all arms take as many.
        precision: Where that is the compared key; None where all arms compute in the study's.
        round: In which round it was added; 0 for an arm of the study file.
    """

    name: str
    value: float | str
    learning_rate_peak: float
    learning_rate_final: float
    lr_x_weight_decay: float
    records_per_update: int | None = None
    precision: Precision | None = None
    round: int = 0


def plan_arms(study: Study) -> tuple[ArmPlan, ...]:
    """Returns the arms, the baseline first, the others as the study lists them."""
    kind = kind_of(study.compare.key)
    return tuple(_arm(study, kind, name, value) for name, value in study.arm_values.items())


def _arm(study: Study, kind: StudyKind, name: str, value: float | str) -> ArmPlan:
    if kind is StudyKind.RATE:
        return plan_arm(study, name, float(value))
    same = plan_arm(study, name, study.learning_rate)
    if kind is StudyKind.BATCH_SIZE:
        return replace(same, value=float(value), records_per_update=int(value))
    precision = cast("Precision", value)
    return replace(same, value=precision, precision=precision)


def plan_arm(study: Study, name: str, peak: float, *, added_in: int = 0) -> ArmPlan:
    """Returns the arm with that peak rate.

    Args:
        added_in: The round in which it is added; 0 for an arm of the study file.
    """
    schedule, decay = study.training.schedule, study.training.optimizer.weight_decay
    final = 1.0 if schedule.kind == "constant" else schedule.final
    return ArmPlan(
        name=name,
        value=peak,
        learning_rate_peak=peak,
        learning_rate_final=peak * final,
        lr_x_weight_decay=peak * decay,
        round=added_in,
    )
