"""Half and double scale the whole schedule."""

from __future__ import annotations

import pytest

from sweeper.study.arms import plan_arms


def test_peak_floor_and_decay_scale_with_the_factor(load) -> None:
    """Peak 0.25, floor one half of the peak, decay 0.5: all are exact in binary."""
    study = load(
        ("{kind: cosine}", "{kind: cosine, final: 0.5}"),
        (
            "records_per_update: 4",
            "records_per_update: 4\n  optimizer: {kind: adamw, weight_decay: 0.5}",
        ),
    ).study

    arms = [
        (arm.name, arm.learning_rate_peak, arm.learning_rate_final, arm.lr_x_weight_decay)
        for arm in plan_arms(study)
    ]

    assert arms == [
        ("baseline", 0.25, 0.125, 0.125),
        ("half", 0.125, 0.0625, 0.0625),
        ("double", 0.5, 0.25, 0.25),
    ]


@pytest.mark.parametrize(("kind", "final"), [("constant", 0.25), ("linear", 0.0), ("cosine", 0.0)])
def test_a_constant_schedule_ends_at_its_peak_and_others_at_zero(load, kind, final) -> None:
    study = load(("{kind: cosine}", f"{{kind: {kind}}}")).study

    assert plan_arms(study)[0].learning_rate_final == final
