"""When a study ends before all of its cells have run."""

import dataclasses

import pytest

from sweeper.records import OutcomeKind, Reason
from sweeper.selection.evidence import REPEAT
from sweeper.store.reading import CellRecord
from sweeper.store.status import CellStatus
from sweeper.sweep.early_end import baseline_failure, first_trial_failure, is_proven


def cell(name, outcome=None, reason=None):
    arm, seed = name.split("/")
    return CellRecord(
        cell=name,
        arm=arm,
        seed=int(seed.removesuffix("~repeat")),
        value=1e-4,
        status=CellStatus.ENDED if outcome else CellStatus.WAITING,
        outcome=outcome,
        reason=reason,
        detail="why",
        attempts=1,
        optuna_number=0,
    )


def trial(name, *, outcome=None, updates=0, initial_loss=None, attempts=1):
    return {
        "trial": name,
        "outcome": outcome,
        "reason": "code_error",
        "detail": "why",
        "updates": updates,
        "initial_loss": initial_loss,
        "attempts": attempts,
    }


NEVER_BEGUN = trial("half/0", updates=None, attempts=0)
UNDER_WAY = {"updates": 1, "initial_loss": 4.0}

STOPPED_BASELINE = cell("baseline/1", OutcomeKind.STOPPED, Reason.DIVERGED)
STOPPED_ARM = cell("double/1", OutcomeKind.STOPPED, Reason.DIVERGED)
LOST_BASELINE = cell("baseline/0", OutcomeKind.LOST, Reason.KILLED)
STOPPED_REPEAT = dataclasses.replace(
    cell("baseline/0~repeat", OutcomeKind.STOPPED, Reason.DIVERGED), arm=REPEAT
)
OPEN = cell("half/1")


def test_a_stopped_baseline_ends_the_study_with_its_reason():
    why = baseline_failure([OPEN, STOPPED_BASELINE], rule="baseline_failed")

    assert why == "baseline_failed: baseline/1 was stopped (diverged): why"


@pytest.mark.parametrize("cells", [[OPEN], [STOPPED_ARM], [LOST_BASELINE], [STOPPED_REPEAT]])
def test_other_endings_do_not(cells):
    assert baseline_failure(cells, rule="baseline_failed") is None


def test_a_study_may_have_agreed_never_to_end_early():
    assert baseline_failure([STOPPED_BASELINE], rule="never") is None


def test_a_first_trial_that_failed_before_its_first_update_ends_the_study():
    why = first_trial_failure([trial("baseline/0", outcome="failed"), NEVER_BEGUN])

    assert why == "the first trial failed: baseline/0 (code_error): why"


@pytest.mark.parametrize(
    "trials",
    [
        [NEVER_BEGUN],
        [trial("baseline/0"), NEVER_BEGUN],
        [trial("baseline/0", outcome="stopped"), NEVER_BEGUN],
        [trial("baseline/0", outcome="failed", **UNDER_WAY), NEVER_BEGUN],
        [trial("baseline/0", outcome="failed"), trial("half/0", attempts=1)],
    ],
)
def test_every_other_state_of_the_trials_does_not(trials):
    assert first_trial_failure(trials) is None


@pytest.mark.parametrize(
    ("ended", "proven"),
    [
        (trial("baseline/0"), False),
        (trial("baseline/0", **UNDER_WAY), False),
        (trial("baseline/0", outcome="failed"), False),
        (trial("baseline/0", outcome="lost"), False),
        (trial("baseline/0", outcome="failed", updates=1), False),
        (trial("baseline/0", outcome="failed", **UNDER_WAY), True),
        (trial("baseline/0", outcome="lost", **UNDER_WAY), True),
        (trial("baseline/0", outcome="stopped"), True),
        (trial("baseline/0", outcome="limited"), False),
        (trial("baseline/0", outcome="limited", **UNDER_WAY), True),
        (trial("baseline/0", outcome="completed"), True),
    ],
)
def test_only_trials_that_ended_after_their_first_update_or_by_themselves_are_proof(ended, proven):
    assert is_proven([NEVER_BEGUN, ended]) is proven
