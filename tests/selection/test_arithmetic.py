"""What evaluating in another precision does to a loss, apart from training in it."""

from __future__ import annotations

import pytest

from sweeper.selection.arithmetic import arithmetic_alone
from sweeper.selection.comparison import compare
from sweeper.selection.evidence import StudyKind

LOSSES = {"bf16": [1.59, 1.58], "baseline": [1.60, 1.61]}


@pytest.fixture
def study(make_study):
    return make_study(
        LOSSES,
        kind=StudyKind.PRECISION,
        factor="training.precision",
        values={"bf16": "bfloat16", "baseline": "float32"},
    )


def test_it_is_what_the_same_untrained_weights_differ_by(study, alter):
    """0.25 and 0.125 above 2.1, whose mean is 0.1875."""
    changed = alter(study, "bf16", 0, initial_loss=2.1 + 0.25)
    changed = alter(changed, "bf16", 1, initial_loss=2.1 + 0.125)

    assert arithmetic_alone(changed, "bf16") == (
        "bf16 is evaluated in bfloat16 and baseline in float32: with the same untrained weights, "
        "bf16 - baseline is +0.1875 nats per target token on average over 2 seeds, up to 0.25 in "
        "one of them. A difference at the end holds this part, which training did not make."
    )


def test_where_every_seed_differs_alike_it_is_said_once(study, alter):
    changed = alter(study, "bf16", 0, initial_loss=2.1 - 0.25)
    changed = alter(changed, "bf16", 1, initial_loss=2.1 - 0.25)

    assert "is -0.25 nats per target token on average over 2 seeds. A" in arithmetic_alone(
        changed, "bf16"
    )


def test_a_seed_without_both_losses_is_left_out(study, alter):
    changed = alter(study, "bf16", 0, initial_loss=None)

    assert arithmetic_alone(changed, "bf16") == (
        "bf16 is evaluated in bfloat16 and baseline in float32: with the same untrained weights, "
        "both have the same loss."
    )
    assert arithmetic_alone(alter(changed, "baseline", 1, initial_loss=None), "bf16") is None


def test_it_is_noted_of_the_arm_and_for_no_other_factor(study, make_study):
    (arm,) = compare(study).arms

    assert arithmetic_alone(study, "bf16") in arm.notes
    assert arithmetic_alone(make_study(LOSSES, values={"bf16": 1.0, "baseline": 2.0}), "bf16") is (
        None
    )
