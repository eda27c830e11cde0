"""Rate x weight decay: what a study of rates changes besides the rate."""

from __future__ import annotations

import pytest

from sweeper.selection.comparison import compare
from sweeper.selection.effective_decay import effective_decay
from sweeper.selection.evidence import StudyKind

LOSSES = {"half": [1.6, 1.7], "baseline": [1.6, 1.7], "double": [1.6, 1.7]}


def test_a_study_of_rates_with_decay_says_the_products(make_study):
    found = compare(make_study(LOSSES, weight_decay=0.1)).effective_decay

    assert found.by_arm == pytest.approx({"half": 1e-5, "baseline": 2e-5, "double": 4e-5})
    assert found.sentence == (
        "Rate x weight decay differs between the arms (half 1e-05, baseline 2e-05 and double "
        "4e-05): they change the decay along with the rate, and a difference may come from either."
    )


@pytest.mark.parametrize(
    "rules",
    [
        {"weight_decay": 0.0},
        {"weight_decay": 0.1, "kind": StudyKind.BATCH_SIZE},
        {"weight_decay": 0.1, "kind": StudyKind.PRECISION},
    ],
)
def test_without_decay_and_for_other_factors_there_is_nothing_to_say(make_study, rules):
    assert effective_decay(make_study(LOSSES, **rules)) is None
