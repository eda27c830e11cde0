"""`sweeper open-test`: what it prints for programs, with and without an opening on record."""

from __future__ import annotations

import json

import pytest

from sweeper.selection.chain import EntryKind


@pytest.fixture
def records(tmp_path):
    """A file that may hold the test records; it is not read before it is opened."""
    file = tmp_path / "test.jsonl"
    file.write_text("{}\n")
    return file


@pytest.fixture
def opened_before(frozen):
    """The study after its test split was opened: half scored 1.61 on it, the baseline 1.62."""
    with frozen.open() as store:
        digest = store.chain.last(EntryKind.SELECTION_FROZEN).digest
        store.chain.append(EntryKind.TEST_INTENT, {"frozen": digest, "test": "7" * 64})
        store.chain.append(EntryKind.TEST_RESULT, {**RESULT, "frozen": digest})
    return frozen


def loss(role, arm, validation, test):
    return {
        "role": role,
        "arm": arm,
        "seed": 0,
        "validation_loss": validation,
        "test_loss": test,
        "per_record_path": "losses.parquet",
        "per_record_sha256": "0" * 64,
    }


RESULT = {
    "opening": 1,
    "chosen": "half",
    "records_digest": "7" * 64,
    "records_read": 40,
    "records": 40,
    "target_tokens": 400,
    "set_digest": "s",
    "overlaps": [],
    "losses": [loss("chosen", "half", 1.59, 1.61), loss("baseline", "baseline", 1.602, 1.62)],
    "environment": {},
    "reason": None,
}


@pytest.mark.parametrize(("options", "status"), [(["--dry-run"], 0), ([], 2)])
def test_as_json_the_plan_is_one_object_whether_or_not_it_is_refused(
    sweeper, frozen, records, options, status
):
    ran = sweeper("open-test", frozen.file, "--test", records, "--json", *options)

    with frozen.open() as store:
        link = store.chain.last(EntryKind.SELECTION_FROZEN)
    told = json.loads(ran.out)
    checkpoints = told.pop("checkpoints")
    sentence = told.pop("sentence")
    assert ran.status == status
    assert told == {
        "frozen": link.digest,
        "chosen": "half",
        "records_digest": "7" * 64,
        "records": 40,
        "reason": None,
        "sentences": [],
    }
    assert sentence.startswith("half is chosen: better than baseline")
    assert checkpoints[:3] == [
        {"role": "chosen", "arm": "half", "seed": 0, "validation_loss": 1.59},
        {"role": "baseline", "arm": "baseline", "seed": 0, "validation_loss": 1.602},
        {"role": "initial", "arm": None, "seed": 0, "validation_loss": 2.5},
    ]


def test_as_json_a_refused_second_opening_prints_the_first_result_and_nothing_else(
    sweeper, opened_before
):
    ran = sweeper("open-test", opened_before.file, "--yes", "--json")

    told = json.loads(ran.out)
    assert ran.status == 2
    assert (told["opening"], told["chosen"], told["records_read"]) == (1, "half", 40)
    assert [each["test_loss"] for each in told["losses"]] == [1.61, 1.62]
    assert told["test_difference"] == pytest.approx(-0.01)
    assert "only the first opening counts" in ran.err


def test_for_people_a_refused_second_opening_says_when_the_first_was(sweeper, opened_before):
    ran = sweeper("open-test", opened_before.file, "--yes")

    assert ran.status == 2
    assert ran.out.startswith("The test split was opened before, at 20")
    assert "1.6100" in ran.out
