from __future__ import annotations

import pytest

from sweeper.records import Reason
from sweeper.selection.choice import ChoiceKind
from sweeper.selection.comparison import compare

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]
QUARTER = [1.580, 1.579, 1.586, 1.587, 1.575]
HIGHER = [1.702, 1.699, 1.710, 1.706, 1.693]
FLAT = [1.603, 1.596, 1.612, 1.604, 1.595]
STABLE_RETENTION = [3.100, 3.120, 3.080, 3.110, 3.090]
SLIGHTLY_HIGHER = [3.101, 3.122, 3.079, 3.111, 3.092]
MUCH_HIGHER = [3.201, 3.222, 3.179, 3.211, 3.192]


def chosen(study):
    return compare(study).choice


def test_a_better_arm_is_chosen_and_the_edge_is_said(make_study):
    found = chosen(make_study({"half": HALF, "baseline": BASELINE, "double": HIGHER}))

    assert (found.kind, found.arm) == (ChoiceKind.BETTER, "half")
    assert found.sentence == (
        "half is chosen: better than baseline by 0.0106 nats per target token (95 % interval "
        "0.0070 to 0.0142), comparable, stable, retention not measured. Its validation loss was "
        "selected on this split and is therefore somewhat optimistic. half is at the edge of the "
        "rates that can be chosen: the optimum may lie beyond; the range is not bracketed."
    )


def test_the_edge_is_said_as_well_where_an_arm_that_is_not_comparable_hides_the_range(
    make_study, alter
):
    study = make_study({"half": HALF, "baseline": BASELINE, "double": HIGHER})
    found = compare(alter(study, "double", 0, initial_digest="other"))

    assert found.boundary is None
    assert found.choice.arm == "half"
    assert found.choice.sentence.endswith(
        "half is at the edge of the rates compared: the range is not bracketed."
    )


def test_the_lowest_of_several_better_arms_is_chosen(make_study):
    found = chosen(make_study({"half": HALF, "quarter": QUARTER, "baseline": BASELINE}))

    assert found.arm == "quarter"


def test_a_chosen_arm_inside_the_range_says_nothing_of_an_edge(make_study):
    found = chosen(make_study({"quarter": HIGHER, "half": HALF, "baseline": BASELINE}))

    assert found.arm == "half"
    assert found.sentence.endswith("somewhat optimistic.")


def test_a_passed_retention_guard_is_said(make_study, retain):
    study = retain(
        make_study({"half": HALF, "baseline": BASELINE}),
        {"half": SLIGHTLY_HIGHER, "baseline": STABLE_RETENTION},
    )

    assert "retention guard passed" in chosen(study).sentence


def test_a_better_arm_that_loses_abilities_is_not_chosen(make_study, retain):
    study = retain(
        make_study({"half": HALF, "baseline": BASELINE}),
        {"half": MUCH_HIGHER, "baseline": STABLE_RETENTION},
    )
    found = chosen(study)

    assert (found.kind, found.arm) == (ChoiceKind.BASELINE_KEPT, "baseline")
    assert found.sentence == (
        "baseline is kept: half is better in validation loss, but cannot be chosen (retention "
        "guard failed)."
    )


def test_a_provisional_verdict_never_selects(make_study):
    found = chosen(make_study({"half": HALF[:3], "baseline": BASELINE[:3]}))

    assert found.arm == "baseline"
    assert found.sentence == (
        "baseline is kept: half is better only provisionally, and a provisional verdict never "
        "selects."
    )


@pytest.mark.parametrize("half", [FLAT, HIGHER, [Reason.DIVERGED] * 5, [*HALF[:4], Reason.KILLED]])
def test_the_baseline_is_kept_unless_another_arm_is_shown_to_be_better(make_study, half):
    found = chosen(make_study({"half": half, "baseline": BASELINE}))

    assert (found.kind, found.arm) == (ChoiceKind.BASELINE_KEPT, "baseline")
    assert found.sentence == "baseline is kept: no other arm is shown to be better."


def test_an_arm_that_is_not_comparable_is_not_chosen(make_study, alter):
    study = make_study({"half": HALF, "baseline": BASELINE})

    assert chosen(alter(study, "half", 0, initial_digest="other")).arm == "baseline"


@pytest.mark.parametrize("last", [None, Reason.USER_CANCELLED, Reason.DEADLINE])
def test_nothing_is_chosen_when_the_baseline_stopped_and_trials_never_ended(make_study, last):
    study = make_study(
        {"half": [*HALF[:4], last], "baseline": [Reason.DIVERGED, *BASELINE[1:]]}, closed=False
    )
    found = chosen(study)

    assert (found.kind, found.arm) == (ChoiceKind.NOTHING, None)
    assert found.sentence == (
        "Nothing is chosen: baseline was stopped, and 1 of 10 trials was not brought to an end."
    )


def test_without_an_eligible_baseline_the_lowest_eligible_arm_is_named_as_such(make_study):
    study = make_study(
        {
            "half": HALF,
            "quarter": QUARTER,
            "baseline": [Reason.DIVERGED, *BASELINE[1:]],
            "double": [*QUARTER[:4], Reason.DIVERGED],
        }
    )
    found = chosen(study)

    assert (found.kind, found.arm) == (ChoiceKind.BASELINE_INELIGIBLE, "quarter")
    assert found.sentence == (
        "quarter is chosen because baseline is ineligible; no improvement is shown."
    )


def test_nothing_is_chosen_when_no_arm_is_eligible(make_study):
    failing = [Reason.DIVERGED, *HALF[1:]]
    found = chosen(make_study({"half": failing, "baseline": failing}))

    assert (found.kind, found.arm) == (ChoiceKind.NOTHING, None)
    assert found.sentence == (
        "Nothing is chosen: baseline was stopped and no other arm is eligible."
    )


@pytest.mark.parametrize("half", [HALF, [Reason.KILLED] * 5], ids=["half completed", "none did"])
def test_nothing_is_chosen_when_no_trial_of_the_baseline_was_completed(make_study, half):
    found = chosen(make_study({"half": half, "baseline": [Reason.CODE_ERROR] * 5}, closed=True))

    assert (found.kind, found.arm) == (ChoiceKind.NOTHING, None)
    assert found.sentence == "Nothing is chosen: no trial of baseline was completed."


@pytest.mark.parametrize("last", [None, Reason.KILLED, Reason.WALL_CLOCK, Reason.CODE_ERROR])
def test_nothing_is_chosen_yet_while_a_trial_may_go_on(make_study, last):
    study = make_study(
        {"half": HALF, "baseline": BASELINE, "double": [*HIGHER[:4], last]}, closed=False
    )
    found = chosen(study)

    assert (found.kind, found.arm) == (ChoiceKind.NOT_YET, None)
    assert found.sentence == (
        "Nothing is chosen yet: 1 of 15 trials has neither completed nor been stopped."
    )


def test_a_closed_study_chooses_among_its_complete_arms(make_study):
    study = make_study(
        {"half": HALF, "baseline": BASELINE, "double": [*HIGHER[:4], Reason.KILLED]}, closed=True
    )

    assert chosen(study).arm == "half"
