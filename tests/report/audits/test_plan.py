"""Arms, seeds, budget and cells on record, against the protocol and the chain's extensions."""

from __future__ import annotations

import pytest

ABOUT = "Arms, seeds and cells"
QUARTER = 0.00005
NOTE = {"extension": "quarter", "value": QUARTER, "round": 1, "because": "half is at the edge"}


@pytest.fixture
def extended(decided, recorded_studies):
    """The study with a further arm, on record and in the chain."""
    with decided.open() as store:
        assert store.rounds.add(quarter(recorded_studies), NOTE)
    return decided


def quarter(recorded_studies, number=1):
    return [
        recorded_studies.PlannedCell(f"quarter/{seed}", "quarter", seed, QUARTER, number)
        for seed in (0, 1, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE sweeper_study SET arms = replace(arms, '0.0001', '0.0003')",
            "The record has 0.0003 as the value of the arm half, the protocol 0.0001.",
        ),
        (
            "UPDATE sweeper_study SET arms = '[[\"baseline\", 0.0002]]'",
            "The record has none as the value of the arm half, the protocol 0.0001.",
        ),
        (
            "UPDATE sweeper_study SET arms = replace(arms, 'half', 'third')",
            "The record has 0.0001 as the value of the arm third, the protocol none.",
        ),
        (
            "UPDATE sweeper_study SET seeds = '[0, 1, 2, 3]'",
            "The record has [0, 1, 2, 3] as the seeds, the protocol [0, 1, 2, 3, 4].",
        ),
        (
            "UPDATE sweeper_study SET budget_target_tokens = 31",
            "The record has 31 as the budget of target tokens, the protocol 30.",
        ),
        (
            "UPDATE sweeper_study SET factor_key = 'training.precision'",
            (
                "The record has training.precision as the compared key, the protocol "
                "training.learning_rate."
            ),
        ),
        (
            "UPDATE sweeper_cell SET value_number = 0.3 WHERE cell = 'half/1'",
            "half/1 is on record with the value 0.3, and was planned with 0.0001.",
        ),
        (
            "UPDATE sweeper_cell SET round = 1 WHERE cell = 'half/1'",
            "half/1 is on record with the round 1, and was planned with 0.",
        ),
        (
            "UPDATE sweeper_cell SET seed = 7 WHERE cell = 'half/1'",
            "half/1 is on record with the seed 7, and was planned with 1.",
        ),
        (
            "UPDATE sweeper_cell SET arm = 'third' WHERE cell = 'half/1'",
            "half/1 is on record with the arm third, and was planned with half.",
        ),
        (
            "DELETE FROM sweeper_cell WHERE cell = 'half/1'",
            "half/1 is not on record, and was agreed on or added.",
        ),
        (
            "UPDATE sweeper_study SET protocol = '{}'",
            "They are not compared: the protocol on record is none.",
        ),
    ],
    ids=[
        "value of an arm", "one arm less", "another arm", "seeds", "budget", "key",
        "value of a cell", "round", "seed", "arm", "one cell less", "protocol",
    ],
)  # fmt: skip
def test_a_changed_row_in_the_database(decided, change, findings, statement, found):
    change(decided, statement)

    assert found in findings(decided, ABOUT)


def test_a_cell_that_nobody_agreed_on(decided, recorded_studies, findings):
    with decided.open() as store:
        store.add_cells([recorded_studies.PlannedCell("half/9", "half", 9, 0.0001)])

    assert findings(decided, ABOUT) == [
        "half/9 is on record, and neither agreed on nor added as the chain has it."
    ]


def test_an_arm_that_was_added_is_what_the_chain_says_of_it(extended, findings):
    assert findings(extended, ABOUT) == []


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE sweeper_cell SET value_number = 0.3 WHERE cell = 'quarter/2'",
            "quarter/2 is on record with the value 0.3, and was planned with 5e-05.",
        ),
        (
            "UPDATE sweeper_cell SET round = 2 WHERE cell = 'quarter/2'",
            "quarter/2 is on record with the round 2, and was planned with 1.",
        ),
    ],
    ids=["value", "round"],
)
def test_a_changed_row_of_an_added_arm(extended, change, findings, statement, found):
    change(extended, statement)

    assert findings(extended, ABOUT) == [found]


def test_an_added_arm_that_the_chain_has_nothing_of(decided, recorded_studies, findings):
    with decided.open() as store:
        store.add_cells(quarter(recorded_studies))

    assert findings(decided, ABOUT) == [
        f"quarter/{seed} is on record, and neither agreed on nor added as the chain has it."
        for seed in (0, 1, 2, 3, 4)
    ]


@pytest.mark.parametrize(("budget", "found"), [(30, []), (32, ["has 32 as"])])
def test_a_budget_of_epochs_is_that_many_times_an_epoch_s_target_tokens(
    decided_studies, monkeypatch, tmp_path, findings, budget, found
):
    """Two target tokens an epoch, fifteen epochs."""
    module, recorded, _ = decided_studies
    text = recorded.STUDY_FILE.replace("budget: {target_tokens: 30}", "budget: {epochs: 15}")
    text = text.replace("max_length: 64", "max_length: 64\n  max_epochs: 15")
    monkeypatch.setattr(recorded, "STUDY_FILE", text)
    monkeypatch.setattr(recorded, "BUDGET", budget)

    study = module.found(tmp_path, recorded)

    expected = [
        f"The record {each} the budget of target tokens, the protocol 30." for each in found
    ]
    assert findings(study, ABOUT) == expected


def test_the_repeat_of_the_baseline_is_agreed_on_with_the_noise_floor(
    decided_studies, monkeypatch, tmp_path, findings
):
    module, recorded, _ = decided_studies
    with_repeat = recorded.STUDY_FILE.replace("selection: {", "selection: {noise_floor: true, ")
    monkeypatch.setattr(recorded, "STUDY_FILE", with_repeat)
    study = module.found(tmp_path, recorded)

    before = findings(study, ABOUT)
    with study.open() as store:
        cell = recorded.PlannedCell(recorded.REPEAT, "baseline~repeat", 0, 0.0002)
        store.add_cells([cell])

    assert before == ["baseline/0~repeat is not on record, and was agreed on or added."]
    assert findings(study, ABOUT) == []
