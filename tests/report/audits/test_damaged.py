"""A database with rows that cannot be read: an audit finds them, other commands name them."""

from __future__ import annotations

import json

import pytest

from sweeper.cli.main import main
from sweeper.errors import StoreError, StoreUnavailable
from sweeper.report.auditing import audit
from sweeper.report.comparison import compare, frozen_choice, taken_choice
from sweeper.report.dossier import read_dossier
from sweeper.selection.chain import EntryKind

UNREADABLE = "the study database holds what cannot be read: it was changed or damaged"
WAYS_OUT = (
    "`sweeper audit STUDY` says what else is not as it was recorded; `sweeper rebuild RUN "
    "--replace` makes the database anew from the run folder, and keeps this one."
)
HALF_4 = "WHERE cell = 'half/4'"
DAMAGE = {
    "seeds": (
        "UPDATE sweeper_study SET seeds = '[0,1,2,3]'",
        "sweeper_study, columns arms and seeds, and sweeper_cell",
    ),
    "one seed twice": (
        "UPDATE sweeper_study SET seeds = '[0,1,2,3,4,4]'",
        "sweeper_study, column seeds",
    ),
    "seeds that are none": (
        "UPDATE sweeper_study SET seeds = '[0,1,2,'",
        "sweeper_study, column seeds",
    ),
    "no baseline": (
        "UPDATE sweeper_study SET arms = replace(arms, 'baseline', 'base')",
        "sweeper_study, column arms",
    ),
    "factor": (
        "UPDATE sweeper_study SET factor_key = 'optimizer.learning_rate'",
        "sweeper_study, column factor_key",
    ),
    "environment": (
        f"UPDATE sweeper_attempt SET environment = '{{' {HALF_4}",
        "sweeper_attempt, cell half/4, attempt 1, column environment",
    ),
    "reason": (
        f"UPDATE sweeper_cell SET reason = 'boredom' {HALF_4}",
        "sweeper_cell, cell half/4, column reason",
    ),
    "outcome of an attempt": (
        f"UPDATE sweeper_attempt SET outcome = 'odd' {HALF_4}",
        "sweeper_attempts, trial half/4, column outcome",
    ),
    "loss": (
        f"UPDATE sweeper_evaluation SET loss = 'low' {HALF_4} AND split = 'validation'",
        "sweeper_evaluations, trial half/4, attempt 1, sequence 2, column loss",
    ),
    "window": (
        f"UPDATE sweeper_update SET records = 'two' {HALF_4} AND window = 2",
        "sweeper_updates, trial half/4, attempt 1, sequence 5, column records",
    ),
}


@pytest.fixture(params=DAMAGE)
def damage(request, frozen, change):
    """A study with one of them, and where it is."""
    statement, where = DAMAGE[request.param]
    change(frozen, statement)
    return frozen, where


def test_an_audit_finds_what_cannot_be_read_and_looks_at_the_rest(damage):
    study, where = damage

    found = {check.about: check for check in audit(study.file).checks}

    choice = found["The frozen choice"]
    assert any(each.startswith(f"Table {where}: {UNREADABLE}") for each in choice.findings)
    assert len(found) == 10
    assert found["The chain in the database"].is_sound
    assert found["The prepared data"].is_sound


@pytest.mark.parametrize("command", ["compare", "report"])
def test_what_concludes_from_it_names_it_and_the_ways_out(damage, command, capsys):
    study, where = damage

    with pytest.raises(SystemExit) as end:
        main([command, str(study.file)])

    told = capsys.readouterr().err
    assert end.value.code == 1
    assert told.startswith(f"error: table {where}: {UNREADABLE} (got ")
    assert WAYS_OUT in told


def test_the_weights_of_a_frozen_choice_are_looked_at_also_where_it_cannot_be_computed_anew(
    frozen, change, findings
):
    change(frozen, "UPDATE sweeper_study SET protocol = '{'")
    change(frozen, "UPDATE study_user_attributes SET value_json = '{' WHERE key = 'sweeper_choice'")
    frozen.weights("half/2").write_text("other weights")

    study, weights, optuna = findings(frozen, "The frozen choice")

    assert study.startswith("Table sweeper_study, column protocol: ")
    assert weights.startswith("half/2: the weights in trials/half-2/attempts/1/adapter are not")
    assert optuna.startswith("Table study_user_attributes, key sweeper_choice, column value_json: ")
    assert audit(frozen.file).study == "rates"


def test_an_infinite_loss_is_none_that_a_trial_has_sealed(frozen, change, findings):
    change(frozen, f"UPDATE sweeper_evaluation SET loss = 9e999 {HALF_4} AND split = 'retention'")

    assert findings(frozen, "Trials on record") == [
        "half/4, attempt 1: its evaluations on record are not what the chain sealed when it ended."
    ]


def test_an_entry_that_says_nothing_of_an_end_is_told_of_and_no_failure(frozen, change, findings):
    change(frozen, "UPDATE sweeper_chain SET entry = '{}' WHERE number = 5")

    assert findings(frozen, "The chain in the database") != []
    assert findings(frozen, "Trials on record") != []


def test_a_frozen_choice_that_cannot_be_read_is_no_failure_of_sweeper(frozen, change):
    change(frozen, "UPDATE sweeper_chain SET entry = '{}' WHERE kind = 'selection_frozen'")

    for read in (frozen_choice, read_dossier):
        with pytest.raises(StoreError, match=r"^table sweeper_chain, number 23, column entry: "):
            read(frozen.file)


def test_a_result_of_an_opening_that_cannot_be_read_is_none_either(frozen):
    with frozen.open() as store:
        store.chain.append(EntryKind.TEST_RESULT, {"losses": "none"})

    with pytest.raises(StoreError, match=r"^table sweeper_chain: .*no result of an opening"):
        read_dossier(frozen.file)


def test_a_fault_of_ours_is_not_taken_for_damage(frozen, monkeypatch):
    def broken(_):
        raise AssertionError

    monkeypatch.setattr("sweeper.report.comparison.judge", broken)

    with pytest.raises(AssertionError):
        compare(frozen.file)
    assert taken_choice(frozen.file) is None


def test_a_database_that_is_away_is_no_finding(frozen, monkeypatch):
    def away(_):
        raise StoreUnavailable("it is away")

    monkeypatch.setattr("sweeper.store.record_chain.RecordChain.recorded_interventions", away)

    with pytest.raises(StoreUnavailable):
        audit(frozen.file)


def test_checks_that_cannot_be_made_are_called_what_they_are_called_otherwise(frozen, monkeypatch):
    """But for the weights, which are those of other trials where a choice is frozen."""
    before = [check.about for check in audit(frozen.file).checks]
    monkeypatch.setattr(
        "sweeper.report.auditing._CHECKS",
        [(about, _unreadable) for about, _ in _checks()],
    )

    after = [check.about for check in audit(frozen.file).checks]

    assert [each.replace("other ", "") for each in before] == after
    assert json.dumps(audit(frozen.file).to_json())


def _checks():
    from sweeper.report.auditing import _CHECKS

    return _CHECKS


def _unreadable(_):
    raise StoreError("a row cannot be read")
