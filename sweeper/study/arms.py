"""The arms of a rate study: each scales the whole schedule."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.study.schema import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmPlan:
    """One arm's rates.

    Attributes:
        value: The arm's value of the compared key.
        learning_rate_peak: The highest rate of its schedule.
        learning_rate_final: What the decay goes to; the peak where the schedule is constant.
        lr_x_weight_decay: The share of each weight that an update at the peak decays away.
    """

    name: str
    value: float | str
    learning_rate_peak: float
    learning_rate_final: float
    lr_x_weight_decay: float


def plan_arms(study: Study) -> tuple[ArmPlan, ...]:
    """Returns the arms, the baseline first, the others as the study lists them."""
    schedule, decay = study.training.schedule, study.training.optimizer.weight_decay
    final = 1.0 if schedule.kind == "constant" else schedule.final
    peaks = {name: study.learning_rate * factor for name, factor in study.factors.items()}
    return tuple(
        ArmPlan(
            name=name,
            value=peak,
            learning_rate_peak=peak,
            learning_rate_final=peak * final,
            lr_x_weight_decay=peak * decay,
        )
        for name, peak in peaks.items()
    )
