"""What a disturbed study has left is compared with the reference to the bit."""

import dataclasses
import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from trial_records import evaluation, update

from sweeper.records import Event, encode
from sweeper.trial.folder import AttemptFolder

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

UPDATE = update()
EVALUATION = evaluation()


@pytest.fixture(scope="module")
def record():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        yield importlib.import_module("chaos_record")


@pytest.fixture
def reference(record):
    computed = record.Computed(
        facts={("baseline/0", "window", 1): "loss=2.5"},
        history={("baseline/0", "window", 1): "[2.5]"},
        endpoints={"baseline/0": "['completed', 0.5]"},
        weights={"baseline/0": "ab12"},
    )
    return record.Recorded(
        computed=computed,
        attempts=(),
        contradictions=(),
        optuna={"baseline/0": "COMPLETE [0.5]"},
        late_results=0,
    )


def folder_with(path, *records, torn=""):
    folder = AttemptFolder(path)
    path.mkdir(exist_ok=True)
    lines = (
        encode(Event(sequence=number, at=NOON + timedelta(seconds=number), record=one))
        for number, one in enumerate(records, start=1)
    )
    folder.events.write_text("".join(f"{line}\n" for line in lines) + torn, encoding="utf-8")
    return folder


def test_a_study_that_left_the_same_has_no_differences(record, reference):
    assert record.differences(dataclasses.replace(reference, attempts=()), reference) == []


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ({"facts": {("baseline/0", "window", 1): "loss=2.5000000000000004"}}, "in the attempts'"),
        ({"history": {}}, "in the database, baseline/0 window 1: nothing"),
        ({"endpoints": {"baseline/0": "['lost', None]"}}, "the record of baseline/0"),
        ({"weights": {"baseline/0": "ab13"}}, "the weights of baseline/0: ab13; undisturbed ab12"),
        ({"weights": {"baseline/0": "ab12", "double/0": "c"}}, "undisturbed None"),
    ],
)
def test_a_planted_difference_is_found(record, reference, planted, told):
    computed = dataclasses.replace(reference.computed, **planted)
    (found,) = record.differences(dataclasses.replace(reference, computed=computed), reference)
    assert told in found


def test_another_value_in_optuna_is_found(record, reference):
    other = dataclasses.replace(reference, optuna={"baseline/0": "RUNNING None"})
    assert record.differences(other, reference) == [
        "Optuna's trial of baseline/0: RUNNING None; undisturbed COMPLETE [0.5]"
    ]


def test_of_very_many_differences_the_first_are_told(record, reference):
    many = tuple(f"difference {number}" for number in range(100))
    found = record.differences(dataclasses.replace(reference, contradictions=many), reference)
    assert found[-1] == "and 80 more differences"


def test_times_and_memory_are_no_facts(record, tmp_path):
    slow = dataclasses.replace(UPDATE, seconds=9.0, peak_memory_bytes=4)
    facts = dict(record.facts_of("baseline/0", folder_with(tmp_path, slow, EVALUATION)))

    assert facts.keys() == {("baseline/0", "window", 1), ("baseline/0", "validation", 0)}
    assert facts == dict(record.facts_of("baseline/0", folder_with(tmp_path, UPDATE, EVALUATION)))


def test_a_line_that_a_kill_has_cut_is_no_fact(record, tmp_path):
    folder = folder_with(tmp_path, UPDATE, torn='{"sequence": 2, "at"')
    assert len(list(record.facts_of("baseline/0", folder))) == 1


def test_an_attempt_that_computes_a_window_to_another_loss_contradicts_the_first(record, tmp_path):
    other = dataclasses.replace(UPDATE, loss=2.5000000000000004)
    folders = {
        ("baseline/0", 1): folder_with(tmp_path / "1", UPDATE).path,
        ("baseline/0", 2): folder_with(tmp_path / "2", other).path,
    }

    _, (told,) = record._facts(folders)

    assert told.startswith("baseline/0 #2 computed ('window', 1) anew")


def test_an_attempt_lives_from_the_first_sign_to_the_last(record, tmp_path):
    span = importlib.import_module("chaos_faults").Span
    folder = folder_with(tmp_path, UPDATE, EVALUATION)

    seen = record.life_of(folder, span(begin=NOON, end=NOON + timedelta(seconds=9)))

    assert (seen.begin, seen.end) == (NOON, NOON + timedelta(seconds=9))
    assert record.life_of(folder, None).end == NOON + timedelta(seconds=2)
    assert record.life_of(AttemptFolder(tmp_path / "never"), None) is None


def test_a_cell_is_to_be_completed_once(record):
    attempt = importlib.import_module("chaos_faults").Attempt
    process = importlib.import_module("chaos_faults").Process(pid=1, started_at=1.0)
    ends = [
        attempt(
            cell=cell,
            number=number,
            claimed_at=NOON,
            ended_at=NOON,
            life=None,
            outcome="completed",
            reason="budget_reached",
            coordinator=process,
        )
        for cell, number in (("baseline/0", 1), ("double/0", 1), ("double/0", 2))
    ]

    assert record.not_completed(ends, ["baseline/0", "baseline/1", "double/0"]) == [
        "baseline/1 was completed 0 times, not once",
        "double/0 was completed 2 times, not once",
    ]
