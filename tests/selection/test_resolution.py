"""What difference a study could have seen, in words."""

from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.selection.comparison import compare

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]


def said(study):
    return compare(study).arms[0].resolution


def test_it_is_the_spread_times_what_so_many_seeds_resolve(make_study):
    """2.050 standard deviations of 0.00288 for two arms and five seeds."""
    study = make_study({"half": HALF, "baseline": BASELINE, "double": [Reason.DIVERGED] * 5})

    assert said(study) == (
        "half: with 5 seeds and differences that spread by 0.002881 (sd), a true difference of "
        "0.0059 nats would be found in 4 studies of 5; 0.005 was declared to matter."
    )


def test_three_seeds_of_the_same_spread_resolve_less(make_study):
    """3.264 standard deviations of 0.003, a single arm."""
    study = make_study({"half": HALF[:3], "baseline": BASELINE[:3]})

    assert "with 3 seeds" in said(study)
    assert "a true difference of 0.0098 nats" in said(study)


@pytest.mark.parametrize(
    ("half", "sentence"),
    [
        ([1.59], "half: not known from these trials."),
        ([Reason.DIVERGED] * 3, "half: not known from these trials."),
        (
            [loss - 0.0078125 for loss in BASELINE],
            "half: not known, because the seeds do not vary.",
        ),
    ],
)
def test_without_a_spread_it_is_not_known(make_study, half, sentence):
    assert said(make_study({"half": half, "baseline": BASELINE[: len(half)]})) == sentence


def test_an_arm_that_is_not_comparable_has_none(make_study, alter):
    study = alter(make_study({"half": HALF, "baseline": BASELINE}), "half", 0, initial_digest="x")

    assert said(study) == "half: not known from these trials."
