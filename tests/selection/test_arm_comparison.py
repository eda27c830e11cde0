from __future__ import annotations

import dataclasses

from sweeper.records import Reason
from sweeper.selection.arm_comparison import compare_arms
from sweeper.selection.evidence import EvaluationSet, StudyKind

BASELINE = [1.602, 1.598, 1.611, 1.605, 1.594]
HALF = [1.590, 1.589, 1.596, 1.597, 1.585]


def found_of(study):
    (found,) = compare_arms(study)
    return found


def test_a_clean_arm_is_eligible_and_needs_no_note(make_study):
    found = found_of(make_study({"half": HALF, "baseline": BASELINE}))

    assert found.is_eligible
    assert found.notes == ()
    assert found.breaks == ()


def test_of_another_batch_size_it_is_noted_that_the_number_of_updates_differs(make_study, alter):
    """Of 50 windows one was skipped in seed 1; seed 2 never came to its end and is left out."""
    study = make_study({"half": [*HALF[:2], Reason.KILLED], "baseline": BASELINE[:3]})
    for arm, seed, windows, skipped in [
        ("half", 0, 50, 0), ("half", 1, 50, 1), ("half", 2, 10, 0),
        ("baseline", 0, 100, 0), ("baseline", 1, 100, 0), ("baseline", 2, 100, 0),
    ]:  # fmt: skip
        study = alter(study, arm, seed, windows=windows, skipped=skipped)

    note = (
        "The number of updates differs: half made 49 to 50 where baseline made 100, from the same "
        "target tokens."
    )
    assert note in found_of(dataclasses.replace(study, kind=StudyKind.BATCH_SIZE)).notes
    assert note not in found_of(study).notes


def test_everything_that_bars_an_arm_is_named(make_study, alter, retain):
    study = make_study({"half": [*HALF[:3], Reason.DIVERGED, Reason.KILLED], "baseline": BASELINE})
    study = retain(study, {"half": [3.1] * 5, "baseline": [3.1] * 5})
    found = found_of(alter(study, "half", 0, initial_digest="other"))

    assert not found.is_eligible
    assert found.not_eligible_because == (
        "not comparable",
        "1 of 5 trials stopped",
        "1 of 5 trials missing",
        "retention guard failed",
    )


def test_an_arm_is_not_barred_by_a_trial_that_the_baseline_lacks(make_study):
    found = found_of(make_study({"half": HALF, "baseline": [*BASELINE[:4], Reason.KILLED]}))

    assert found.is_eligible


def test_what_weakens_the_numbers_is_noted(make_study, alter):
    study = make_study({"half": [1.59, 1.62, 2.2], "baseline": [1.61, 1.60, 1.58]})
    found = found_of(alter(study, "half", 1, target_tokens_applied=997_000, windows=300, skipped=1))

    assert found.notes == (
        (
            "half, seed 1: it trained on 0.3 % fewer target tokens (997000 against 1000000, 1 of "
            "its 300 windows skipped; within the tolerance of 0.5 %)."
        ),
        "half skipped 1 of 306 windows.",
        "half ended above its initial loss in 1 of 3 completed trials.",
        "Pairing by seed did not help half: r = -0.96.",
    )


def test_a_baseline_that_changes_its_evaluation_set_bars_every_arm(make_study):
    study = make_study({"half": HALF, "baseline": BASELINE, "double": HALF})
    other = EvaluationSet(set_digest="other", target_tokens=500, dtype="float32", micro_batch=4)
    cells = tuple(
        dataclasses.replace(cell, evaluation_sets={"validation": other}) if cell.seed == 3 else cell
        for cell in study.cells
    )
    study = dataclasses.replace(study, cells=cells)

    assert [found.verdict.label for found in compare_arms(study)] == ["not_comparable"] * 2
