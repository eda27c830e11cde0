from __future__ import annotations

import dataclasses
import math

import pytest

from sweeper.records import Reason
from sweeper.selection.evidence import EvaluationSet, StudyKind, TrialPrecision
from sweeper.selection.gates import (
    Gate,
    applied_note,
    baseline_breaks,
    checks,
    gate_breaks,
    pairings,
)

LOSSES = {"half": [1.59, 1.58, 1.60], "baseline": [1.60, 1.61, 1.62]}


@pytest.fixture
def study(make_study):
    return make_study(LOSSES)


@pytest.fixture
def batch_study(make_study):
    return make_study(
        LOSSES,
        kind=StudyKind.BATCH_SIZE,
        factor="training.records_per_update",
        values={"half": 4, "baseline": 8},
    )


def broken(study, arm="half"):
    return [(found.gate, found.seed) for found in gate_breaks(study, arm)]


def sentence(study):
    (found,) = gate_breaks(study, "half")
    return found.sentence


def configured(study, arm, **changes):
    """Sets keys of the arm's configuration in seed 1; dots are written as double underscores."""
    keys = {key.replace("__", "."): value for key, value in changes.items()}
    cells = tuple(
        dataclasses.replace(cell, configuration={**cell.configuration, **keys})
        if (cell.arm, cell.seed) == (arm, 1)
        else cell
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


def seeds_apart(study, **fields):
    """The study with something else in the baseline's seed 1, and in its pair."""
    cells = tuple(
        dataclasses.replace(cell, **fields) if cell.seed == 1 else cell for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


def test_an_adapter_that_begins_at_zero_has_the_same_initial_loss_in_every_seed(make_study):
    study = make_study({"half": [1.6, 1.7], "baseline": [1.61, 1.71]}, starts_alike=True)
    (found,) = baseline_breaks(seeds_apart(study, initial_loss=2.1001))

    assert baseline_breaks(study) == ()
    assert (found.gate, found.seed) == (Gate.INITIAL_LOSS, 1)
    assert found.sentence == (
        "baseline changes between seeds 0 and 1: the validation loss before the first update "
        "differs (2.1001 against 2.1, tolerance 1e-06 nats)"
    )


@pytest.mark.parametrize(
    ("starts_alike", "fields"),
    [
        (False, {"initial_loss": 2.2}),
        (True, {"initial_loss": 2.2, "environment": {"device": "another"}}),
        (True, {"initial_loss": 2.1 + 1e-7}),
    ],
    ids=["all weights are trained", "on another device", "within the tolerance"],
)
def test_otherwise_seeds_may_start_apart(make_study, starts_alike, fields):
    study = make_study({"half": [1.6, 1.7], "baseline": [1.61, 1.71]}, starts_alike=starts_alike)

    assert baseline_breaks(seeds_apart(study, **fields)) == ()


def test_trials_that_agree_pass_every_gate(study):
    assert gate_breaks(study, "half") == ()


@pytest.mark.parametrize(
    ("fields", "gate", "said"),
    [
        (
            {"initial_digest": "other"},
            Gate.INITIAL_TENSORS,
            "it started from other trainable tensors",
        ),
        (
            {"record_digests": ("1:8", "x", "y")},
            Gate.RECORD_ORDER,
            "it had read other records by record 16",
        ),
        (
            {"records_read": (7, 15, 24)},
            Gate.RECORD_ORDER,
            "its windows hold other numbers of records",
        ),
        (
            {"records_read": (8, 16), "record_digests": ("1:8", "1:16")},
            Gate.RECORD_ORDER,
            "it read 16 records, baseline 24",
        ),
        (
            {"initial_loss": 2.1 + 2e-6},
            Gate.INITIAL_LOSS,
            (
                "the validation loss before the first update differs (2.100002 against 2.1, "
                "tolerance 1e-06 nats)"
            ),
        ),
        (
            {"first_window_loss": 2.2},
            Gate.FIRST_WINDOW_LOSS,
            "the first window's loss differs (2.2 against 2.1, tolerance 1e-06 nats)",
        ),
        (
            {"environment": {"device": "gpu", "micro_batch": "4", "precision": "float32"}},
            Gate.ENVIRONMENT,
            "it ran in another environment: device (gpu against cpu)",
        ),
        (
            {"environment": {"micro_batch": "4", "precision": "float32"}},
            Gate.ENVIRONMENT,
            "it ran in another environment: device (not recorded against cpu)",
        ),
        (
            {"target_tokens_read": 999_999},
            Gate.TARGET_TOKENS_READ,
            "it read 999999 target tokens, baseline 1000000",
        ),
        (
            {"target_tokens_planned": 1_000_001},
            Gate.TARGET_TOKENS_READ,
            "it read 1000000 target tokens where 1000001 were planned",
        ),
        (
            {"target_tokens_applied": 993_800, "skipped": 1},
            Gate.TARGET_TOKENS_APPLIED,
            (
                "it trained on 0.62 % fewer target tokens (993800 against 1000000, 1 of its 3 "
                "windows skipped; tolerance 0.5 %)"
            ),
        ),
        (
            {"target_tokens_applied": 1_060_000},
            Gate.TARGET_TOKENS_APPLIED,
            "it trained on 6 % more target tokens (1060000 against 1000000; tolerance 0.5 %)",
        ),
    ],
)
def test_a_gate_fires_on_its_own_difference_and_says_it(study, alter, fields, gate, said):
    found = gate_breaks(alter(study, "half", 1, **fields), "half")

    assert [(each.gate, each.seed, each.sentence) for each in found] == [(gate, 1, said)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"set_digest": "other"},
            "its validation loss was measured on other records",
        ),
        (
            {"target_tokens": 499},
            "its validation loss was measured on another number of target tokens (499 against 500)",
        ),
        (
            {"dtype": "bfloat16"},
            "its validation loss was measured in bfloat16, baseline's in float32",
        ),
        (
            {"micro_batch": 2},
            "its validation loss was measured with another micro-batch (2 against 4)",
        ),
    ],
)
def test_evaluations_must_be_made_on_the_same_set_in_the_same_way(study, alter, changes, said):
    plain = EvaluationSet(set_digest="v", target_tokens=500, dtype="float32", micro_batch=4)
    sets = {"validation": dataclasses.replace(plain, **changes)}

    assert sentence(alter(study, "half", 1, evaluation_sets=sets)) == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"initial_digest": None}, "the digest of its initial tensors was not recorded"),
        ({"records_read": (), "record_digests": ()}, "its record order was not recorded"),
        (
            {"initial_loss": None},
            "the validation loss before the first update was not recorded",
        ),
        ({"first_window_loss": None}, "the first window's loss was not recorded"),
        ({"evaluation_sets": {}}, "its evaluation set was not recorded"),
        ({"environment": {}}, "its environment was not recorded"),
        ({"target_tokens_read": None}, "the count of target tokens it read was not recorded"),
        (
            {"target_tokens_applied": None},
            "the count of target tokens it trained on was not recorded",
        ),
    ],
)
def test_a_completed_trial_must_have_recorded_what_a_gate_needs(study, alter, fields, said):
    assert sentence(alter(study, "half", 1, **fields)) == f"it is complete, but {said}"


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_digest": None},
        {"initial_loss": None},
        {"environment": {}},
        {"records_read": (), "record_digests": ()},
        {"evaluation_sets": {}},
    ],
)
def test_a_completed_baseline_must_have_recorded_it_too(study, alter, fields):
    assert sentence(alter(study, "baseline", 1, **fields)).startswith("baseline is complete, but")


@pytest.mark.parametrize(
    "fields",
    [
        {"initial_digest": None},
        {"initial_loss": None},
        {"first_window_loss": None},
        {"records_read": (), "record_digests": ()},
        {"evaluation_sets": {}},
        {"environment": {}},
        {"target_tokens_read": 41_000},
        {"target_tokens_applied": 20_000},
    ],
)
def test_a_stopped_trial_is_exempt_from_what_it_did_not_reach(make_study, alter, fields):
    study = make_study({"half": [1.59, Reason.DIVERGED], "baseline": [1.60, 1.61]})

    assert gate_breaks(alter(study, "half", 1, **fields), "half") == ()


@pytest.mark.parametrize(
    ("fields", "gate"),
    [
        ({"initial_digest": "other"}, Gate.INITIAL_TENSORS),
        ({"record_digests": ("1:8", "other")}, Gate.RECORD_ORDER),
        ({"initial_loss": 2.0}, Gate.INITIAL_LOSS),
        ({"first_window_loss": 2.0}, Gate.FIRST_WINDOW_LOSS),
        ({"environment": {"device": "gpu"}}, Gate.ENVIRONMENT),
    ],
)
def test_a_stopped_trial_is_held_to_what_it_reached(make_study, alter, fields, gate):
    study = make_study({"half": [1.59, Reason.DIVERGED], "baseline": [1.60, 1.61]})

    assert broken(alter(study, "half", 1, **fields)) == [(gate, 1)]


@pytest.mark.parametrize("reason", [Reason.KILLED, Reason.WALL_CLOCK, Reason.CODE_ERROR])
def test_no_gate_is_asked_about_a_pair_that_is_missing(make_study, alter, reason):
    study = make_study({"half": [1.59, reason], "baseline": [1.60, 1.61]})

    assert gate_breaks(alter(study, "half", 1, initial_digest="other"), "half") == ()
    assert [pairing.cell.seed for pairing in pairings(study, "half")] == [0]


def test_a_trial_that_never_ran_is_no_pair(make_study):
    study = make_study({"half": [1.59, 1.60], "baseline": [1.60, None]})

    assert [pairing.cell.seed for pairing in pairings(study, "half")] == [0]


def test_every_broken_seed_is_named(study, alter):
    twice = alter(alter(study, "half", 0, initial_digest="x"), "half", 2, initial_digest="x")

    assert broken(twice) == [(Gate.INITIAL_TENSORS, 0), (Gate.INITIAL_TENSORS, 2)]


def test_another_setting_breaks_the_one_factor_gate(study):
    changed = configured(study, "half", training__clip_norm="2.0")

    assert sentence(changed) == (
        "it differs in training.clip_norm (2.0 against 1.0), which does not follow from "
        "training.learning_rate"
    )


def test_a_setting_that_only_one_arm_has_breaks_the_one_factor_gate(study):
    changed = configured(study, "half", lora__rank="8")

    assert sentence(changed).startswith("it differs in lora.rank (8 against not set)")


def test_a_key_derived_by_a_named_rule_may_differ(study):
    changed = configured(study, "half", training__final_rate="1e-5")
    named = dataclasses.replace(changed, derived_keys=frozenset({"training.final_rate"}))

    assert broken(changed) == [(Gate.ONE_FACTOR, 1)]
    assert gate_breaks(named, "half") == ()


def test_an_arm_with_the_baselines_value_compares_nothing(study):
    changed = configured(study, "half", training__learning_rate="0.0002")

    assert sentence(changed) == "it has baseline's value of training.learning_rate (0.0002)"


def test_the_compared_key_must_be_on_record(study, alter):
    assert sentence(alter(study, "half", 1, configuration={})) == (
        "training.learning_rate is not in its recorded configuration and in baseline's"
    )


@pytest.mark.parametrize(
    ("precision", "off", "breaks"),
    [
        (TrialPrecision.FLOAT32, 5e-7, 0),
        (TrialPrecision.FLOAT32, 2e-6, 1),
        (TrialPrecision.BFLOAT16, 5e-4, 0),
        (TrialPrecision.BFLOAT16, 2e-3, 1),
        (TrialPrecision.FLOAT16, 5e-4, 0),
        (TrialPrecision.FLOAT16, 2e-3, 1),
    ],
)
def test_equal_losses_are_as_equal_as_the_precision_allows(study, alter, precision, off, breaks):
    changed = dataclasses.replace(
        alter(study, "half", 1, initial_loss=2.1 + off), precision=precision
    )

    assert len(gate_breaks(changed, "half")) == breaks


@pytest.mark.parametrize(
    ("mine", "theirs", "breaks"),
    [
        (None, None, 0),
        (math.nan, math.nan, 0),
        (math.inf, math.inf, 0),
        (math.nan, 2.0, 1),
        (2.0, math.inf, 1),
    ],
)
def test_first_windows_without_a_loss_are_equal_to_each_other_only(
    study, alter, mine, theirs, breaks
):
    changed = alter(study, "half", 1, first_window_loss=mine)
    changed = alter(changed, "baseline", 1, first_window_loss=theirs)

    assert len(gate_breaks(changed, "half")) == breaks


def test_the_retention_loss_before_training_is_gated_where_there_is_one(study, alter, retain):
    retained = retain(study, {"half": [3.0] * 3, "baseline": [3.0] * 3})

    assert gate_breaks(retained, "half") == ()
    assert sentence(alter(retained, "half", 2, retention_initial_loss=3.1)) == (
        "the retention loss before the first update differs (3.1 against 3.0, tolerance 1e-06 nats)"
    )


def test_only_a_rate_study_compares_the_first_windows_loss(batch_study, alter):
    changed = alter(batch_study, "half", 1, first_window_loss=9.0)
    gated = {kind: Gate.FIRST_WINDOW_LOSS in dict(checks(kind)) for kind in StudyKind}

    assert gated == {
        StudyKind.RATE: True,
        StudyKind.BATCH_SIZE: False,
        StudyKind.PRECISION: False,
    }
    assert broken(changed) == [(Gate.ONE_FACTOR, seed) for seed in (0, 1, 2)]


def sized(study):
    """Gives the cells of a batch-size study its own key in their configurations."""
    sizes = {"half": "4", "baseline": "8"}
    cells = tuple(
        dataclasses.replace(cell, configuration={"training.records_per_update": sizes[cell.arm]})
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


def test_a_batch_size_study_compares_record_order_where_windows_of_both_end(batch_study, alter):
    marks = (4, 8, 12, 16, 20, 24)
    digests = tuple(f"1:{mark}" for mark in marks)
    wrong = (*digests[:3], "other", *digests[4:])
    good = alter(sized(batch_study), "half", 1, records_read=marks, record_digests=digests)
    bad = alter(sized(batch_study), "half", 1, records_read=marks, record_digests=wrong)

    assert gate_breaks(good, "half") == ()
    assert sentence(bad) == "it had read other records by record 16"


def test_a_batch_size_study_lets_the_micro_batch_of_the_environment_differ(batch_study, alter):
    fields = {"device": "cpu", "micro_batch": "2", "precision": "float32"}
    study = sized(batch_study)

    assert gate_breaks(alter(study, "half", 1, environment=fields), "half") == ()
    assert broken(alter(study, "half", 1, environment={**fields, "precision": "x"})) == [
        (Gate.ENVIRONMENT, 1)
    ]


@pytest.fixture
def precision_study(make_study):
    study = make_study(
        {"bfloat16": [1.59, 1.58], "baseline": [1.60, 1.61]},
        kind=StudyKind.PRECISION,
        factor="training.precision",
        values={"bfloat16": "bfloat16", "baseline": "float32"},
    )
    told = {"bfloat16": "bfloat16", "baseline": "float32"}
    cells = tuple(
        dataclasses.replace(
            cell,
            configuration={"training.precision": f'"{told[cell.arm]}"'},
            environment={"device": "cpu", "micro_batch": "4", "precision": told[cell.arm]},
        )
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


@pytest.mark.parametrize(("initial_loss", "breaks"), [(2.12, 0), (2.08, 0), (2.122, 1)])
def test_a_precision_study_has_its_own_tolerance_for_the_first_loss(
    precision_study, alter, initial_loss, breaks
):
    """1 % of 2.1 is 0.021 nats."""
    changed = alter(precision_study, "bfloat16", 1, initial_loss=initial_loss)

    assert len(gate_breaks(changed, "bfloat16")) == breaks


def test_the_tolerance_is_the_declared_share_of_the_baseline_s_loss(precision_study, alter):
    """2 % of 2.0 is 0.04 nats; of the arm's own 2.041 it would be more."""
    declared = dataclasses.replace(precision_study, precision_tolerance=0.02)
    changed = alter(declared, "bfloat16", 1, initial_loss=2.041)
    changed = alter(changed, "baseline", 1, initial_loss=2.0)

    (found,) = gate_breaks(changed, "bfloat16")

    assert found.gate is Gate.INITIAL_LOSS
    assert found.sentence == (
        "the validation loss before the first update differs (2.041 against 2.0, tolerance 0.04"
        " nats)"
    )


@pytest.mark.parametrize(
    ("baseline", "off", "breaks"),
    [("float32", 5e-7, 0), ("float32", 2e-6, 1), ("bfloat16", 5e-4, 0), ("bfloat16", 2e-3, 1)],
)
def test_the_baseline_itself_starts_in_every_seed_as_alike_as_its_precision_allows(
    precision_study, alter, baseline, off, breaks
):
    """The declared tolerance is between precisions, and the baseline has one."""
    arms = tuple(
        dataclasses.replace(arm, value=baseline if arm.name == "baseline" else "float16")
        for arm in precision_study.arms
    )
    study = dataclasses.replace(precision_study, arms=arms, starts_alike=True)

    assert len(baseline_breaks(alter(study, "baseline", 1, initial_loss=2.1 + off))) == breaks


def test_a_precision_study_does_not_compare_the_first_window_s_loss(precision_study, alter):
    assert (
        gate_breaks(alter(precision_study, "bfloat16", 1, first_window_loss=9.0), "bfloat16") == ()
    )


@pytest.mark.parametrize(
    ("fields", "gate"),
    [
        ({"initial_digest": "other tensors"}, Gate.INITIAL_TENSORS),
        ({"record_digests": ("1:8", "other", "1:24")}, Gate.RECORD_ORDER),
        ({"target_tokens_read": 999_999}, Gate.TARGET_TOKENS_READ),
        ({"target_tokens_applied": 994_999}, Gate.TARGET_TOKENS_APPLIED),
        (
            {"environment": {"device": "gpu", "micro_batch": "4", "precision": "bfloat16"}},
            Gate.ENVIRONMENT,
        ),
        (
            {"environment": {"device": "cpu", "micro_batch": "8", "precision": "bfloat16"}},
            Gate.ENVIRONMENT,
        ),
    ],
)
def test_whatever_does_not_follow_from_the_precision_is_gated(precision_study, alter, fields, gate):
    assert broken(alter(precision_study, "bfloat16", 1, **fields), "bfloat16") == [(gate, 1)]


def test_a_trial_has_to_compute_in_the_precision_that_it_was_told(precision_study, alter):
    fields = {"device": "cpu", "micro_batch": "4"}
    fields["precision"] = "bfloat16, then float32 after window 2"
    changed = alter(precision_study, "bfloat16", 1, environment=fields)
    baseline = alter(precision_study, "baseline", 1, environment=fields)

    (found,) = gate_breaks(changed, "bfloat16")
    assert (found.gate, found.sentence) == (
        Gate.ENVIRONMENT,
        (
            "it was told bfloat16 and computed in another precision (bfloat16, then float32 after"
            " window 2)"
        ),
    )
    (found,) = gate_breaks(baseline, "bfloat16")
    assert found.sentence.startswith("baseline was told float32 and computed in another precision")


def test_skips_of_an_arm_within_the_tolerance_are_a_finding(precision_study, alter):
    """5 000 of a million are exactly half a percent."""
    skipped = {"target_tokens_applied": 995_000, "skipped": 2, "windows": 400}
    changed = alter(precision_study, "bfloat16", 1, **skipped)

    assert gate_breaks(changed, "bfloat16") == ()
    assert [applied_note(pairing) for pairing in pairings(changed, "bfloat16")] == [
        None,
        (
            "it trained on 0.5 % fewer target tokens (995000 against 1000000, 2 of its 400 windows"
            " skipped; within the tolerance of 0.5 %)"
        ),
    ]


def test_a_precision_study_needs_the_same_set_but_not_the_same_way_to_score_it(
    precision_study, alter
):
    way = EvaluationSet(set_digest="v", target_tokens=500, dtype="bfloat16", micro_batch=8)
    other = dataclasses.replace(way, set_digest="other")
    environment = {"device": "cpu", "micro_batch": "4", "precision": "bfloat16"}
    environment["loss_scaling"] = "yes"
    same_set = alter(
        precision_study,
        "bfloat16",
        1,
        evaluation_sets={"validation": way},
        environment=environment,
    )
    other_set = alter(precision_study, "bfloat16", 1, evaluation_sets={"validation": other})

    assert gate_breaks(same_set, "bfloat16") == ()
    assert broken(other_set, "bfloat16") == [(Gate.EVALUATION_SET, 1)]


@pytest.mark.parametrize("arm", ["half", "double", "half_alt"])
def test_applied_tokens_of_case_t08(make_study, alter, cases, arm):
    given, expected = cases["T08"]["given"]["applied_target_tokens"], cases["T08"]["expect"]
    applied = given[arm]
    study = alter(make_study(LOSSES), "half", 1, target_tokens_applied=applied)

    assert applied / given["base"] - 1 == pytest.approx(expected["relative"][arm], abs=1e-12)
    assert (gate_breaks(study, "half") == ()) is expected["comparable"][arm]


@pytest.mark.parametrize(
    ("applied", "is_within"), [(995_000, True), (994_999, False), (1_005_000, True)]
)
def test_exactly_half_a_percent_is_within_the_tolerance(study, alter, applied, is_within):
    changed = alter(study, "half", 1, target_tokens_applied=applied)

    assert (gate_breaks(changed, "half") == ()) is is_within


@pytest.mark.parametrize(
    ("applied", "note"),
    [
        (1_000_000, None),
        (993_800, None),
        (
            997_000,
            (
                "it trained on 0.3 % fewer target tokens (997000 against 1000000; within the "
                "tolerance of 0.5 %)"
            ),
        ),
    ],
)
def test_a_difference_within_the_tolerance_is_noted(study, alter, applied, note):
    changed = alter(study, "half", 1, target_tokens_applied=applied)

    assert applied_note(pairings(changed, "half")[1]) == note


def test_a_baseline_that_trained_on_nothing_is_not_divided_by(study, alter):
    changed = alter(study, "baseline", 1, target_tokens_applied=0)

    assert sentence(changed) == (
        "it trained on more target tokens (1000000 against 0; tolerance 0.5 %)"
    )


def test_the_baseline_must_be_evaluated_on_one_set_in_every_seed(study, alter):
    other = EvaluationSet(set_digest="other", target_tokens=500, dtype="float32", micro_batch=4)
    changed = study
    changed = alter(changed, "baseline", 2, evaluation_sets={"validation": other})
    (found,) = baseline_breaks(changed)

    assert baseline_breaks(study) == ()
    assert (found.gate, found.arm, found.seed) == (Gate.EVALUATION_SET, "baseline", 2)
    assert found.sentence == (
        "baseline changes between seeds 0 and 2: its validation loss was measured on other records"
    )
