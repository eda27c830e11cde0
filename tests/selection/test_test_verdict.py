"""What the test split says of the choice; with the worked cases T01, T03, T12 and T13."""

import dataclasses

import pytest

from sweeper.selection.frozen import Role
from sweeper.selection.test_verdict import Confirmation, OpenedRule, judge_opened

RULE = OpenedRule(smallest_difference=0.005)

T01 = [-0.012, -0.009, -0.015, -0.008, -0.009]
TINY = [-0.002, -0.0025, -0.003, -0.002, -0.0015]


def test_gaps_and_shrinkage_are_those_of_the_worked_case(openings, cases):
    given, expected = cases["T12"]["given"], cases["T12"]["expect"]
    pairs = {name: (given["val"][name], given["test"][name]) for name in ("init", "base", "half")}

    found = judge_opened(openings.of_means(**pairs), RULE)

    gaps = {gap.role: gap.gap for gap in found.gaps}
    assert gaps[Role.INITIAL] == pytest.approx(expected["gap"]["init"], abs=1e-12)
    assert gaps[Role.BASELINE] == pytest.approx(expected["gap"]["base"], abs=1e-12)
    assert gaps[Role.CHOSEN] == pytest.approx(expected["gap"]["half"], abs=1e-12)
    assert found.split_difficulty == gaps[Role.INITIAL]
    adjusted = expected["gap_adjusted_for_split_difficulty"]
    assert found.selection_part == pytest.approx(adjusted, abs=1e-12)
    assert found.difference.validation_mean == pytest.approx(
        expected["validation_difference"], abs=1e-12
    )
    assert found.difference.mean == pytest.approx(expected["test_difference"], abs=1e-12)
    assert found.difference.shrinkage == pytest.approx(expected["shrinkage"], abs=1e-12)


def test_the_difference_is_paired_by_seed_and_tested_once(openings):
    found = judge_opened(openings.with_test_differences(T01), RULE).difference

    assert found.n == 5
    assert found.mean == pytest.approx(-0.0106, abs=1e-12)
    assert found.sd == pytest.approx(0.002880972, abs=1e-9)
    assert found.p == pytest.approx(0.001189968, abs=1e-9), "not multiplied by the arms compared"
    assert found.interval_95.low == pytest.approx(-0.014177, abs=1e-6)
    assert found.interval_95.high == pytest.approx(-0.007023, abs=1e-6)
    assert found.lower_in == 5


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        pytest.param(T01, Confirmation.CONFIRMED, id="as on the validation split"),
        pytest.param(TINY, Confirmation.SAME_SIGN, id="reliable, but less than matters"),
        pytest.param(T01[:3], Confirmation.SAME_SIGN, id="three seeds are provisional"),
        pytest.param([-0.010, 0.004, -0.003], Confirmation.SAME_SIGN, id="not reliable"),
        pytest.param([-0.01, -0.01, -0.01, -0.01, -0.01], Confirmation.SAME_SIGN, id="all alike"),
        pytest.param([0.010, -0.004, 0.003], Confirmation.REVERSED, id="the other way round"),
        pytest.param([-d for d in T01], Confirmation.REVERSED, id="reliably the other way round"),
    ],
)
def test_one_of_three_words_says_what_became_of_the_difference(openings, differences, word):
    opened = openings.with_test_differences(differences, seeds=len(differences))

    assert judge_opened(opened, RULE).word is word


def test_a_difference_below_the_noise_floor_is_not_confirmed(openings):
    rule = dataclasses.replace(RULE, noise_floor=0.011)

    found = judge_opened(openings.with_test_differences(T01), rule)

    assert found.word is Confirmation.SAME_SIGN


def test_where_no_improvement_was_claimed_there_is_no_word(openings):
    rule = dataclasses.replace(RULE, claims_improvement=False)

    assert judge_opened(openings.with_test_differences(T01), rule).word is None


def test_a_baseline_that_was_kept_has_a_gap_and_no_difference(openings):
    opened = openings.opened(
        openings.losses(Role.BASELINE, "baseline", [1.602, 1.598], [1.622, 1.619]),
        openings.losses(Role.INITIAL, None, [2.1, 2.1], [2.12, 2.12]),
        chosen="baseline",
    )

    found = judge_opened(opened, RULE)

    assert [gap.role for gap in found.gaps] == [Role.BASELINE, Role.INITIAL]
    assert found.selection_part == pytest.approx(0.0205 - 0.02, abs=1e-12)
    assert found.difference is None
    assert found.word is None


def test_a_loss_that_is_not_finite_is_left_out_and_counted(openings):
    opened = openings.opened(
        openings.losses(Role.CHOSEN, "half", [1.0, 1.0, 1.0], [1.5, None, 1.25]),
        openings.losses(Role.BASELINE, "baseline", [1.0, 1.0, 1.0], [1.75, 1.5, 1.5]),
    )

    found = judge_opened(opened, RULE)

    chosen = found.gaps[0]
    assert (chosen.n, chosen.left_out, chosen.gap) == (2, 1, 0.375)
    assert [pair.seed for pair in found.difference.by_seed] == [0, 2]


def test_the_rule_is_that_of_the_study(make_study):
    from sweeper.selection.comparison import compare

    losses = {"half": [1.590, 1.589, 1.596, 1.597, 1.585], "baseline": [1.602] * 4 + [1.594]}
    study = make_study(losses | {"double": [1.7, 1.71, 1.69, 1.72, 1.7]}, smallest_difference=0.004)

    rule = OpenedRule.of(compare(study))

    assert rule == OpenedRule(smallest_difference=0.004, noise_floor=0.0, claims_improvement=True)
