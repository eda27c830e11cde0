"""Everything on record about one trial, with what is stored as JSON text decoded."""

import json

import pytest

from sweeper.errors import NotFound
from sweeper.report.history import Checkpoint, Note, history


def test_a_failed_trial_keeps_its_evidence(studies, begun):
    (attempt,) = history(begun.file, "baseline/1").attempts

    assert attempt["evidence"] == {
        "error": "RuntimeError",
        "traceback": studies.TRACEBACK,
        "stderr_tail": "loading\n\N{PILE OF POO} no [kernel]\n",
    }
    assert attempt["environment"] == studies.ENVIRONMENT
    assert attempt["adapted_modules"] == ["q_proj", "v_proj"]
    assert attempt["configuration"] == {"training.learning_rate": "0.0002", "tune": '"lora"'}


def test_an_attempt_that_said_nothing_has_none(begun):
    (attempt,) = history(begun.file, "half/1").attempts

    assert attempt["evidence"] == {"signal": "SIGKILL"}
    assert (attempt["environment"], attempt["configuration"]) == (None, None)


def test_every_attempt_is_there_the_first_first(begun):
    attempts = history(begun.file, "baseline/0").attempts

    assert [attempt["reason"] for attempt in attempts] == ["preempted", "budget_reached"]


def test_windows_that_an_earlier_attempt_saved_are_part_of_it(begun):
    found = history(begun.file, "baseline/0")

    places = [(row["window"], row["attempt"]) for row in found.updates.rows]
    assert places == [(1, 1), (2, 2), (3, 2)]
    evaluations = [(row["grid_index"], row["attempt"]) for row in found.evaluations.rows]
    assert evaluations == [(0, 1), (0, 1), (1, 2), (1, 2)]


def test_checkpoints_are_there_with_the_attempt_that_made_them(begun):
    assert history(begun.file, "baseline/0").checkpoints == [
        Checkpoint(
            attempt=1,
            window=1,
            path="trials/baseline-0/attempts/1/checkpoints/00000001",
            size_bytes=2048,
        )
    ]


def test_what_was_read_stands_beside_what_was_planned(studies, begun):
    assert history(begun.file, "baseline/0").ledger == studies.LEDGER
    assert history(begun.file, "double/0").ledger is None


def test_what_changed_since_a_checkpoint_is_a_list(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.go_on_elsewhere(store, "baseline/0")

    first, second = history(recorded.file, "baseline/0").attempts

    assert first["resume_differences"] is None
    assert second["resume_differences"] == ["it ran on cpu and goes on on cuda"]


def test_remarks_and_stops_are_sentences_of_their_attempt(begun):
    assert history(begun.file, "double/0").notes == [
        Note(
            attempt=1,
            text="stopped in window 2: nonfinite_loss: the loss of window 2 was nan",
        )
    ]
    assert history(begun.file, "baseline/0").notes == [
        Note(attempt=2, text="padding is 40 % of what was computed")
    ]


def test_a_history_is_plain_json_without_a_number_that_is_not_finite(begun):
    plain = history(begun.file, "double/0").to_json()

    again = json.loads(json.dumps(plain, allow_nan=False))

    assert again == plain
    assert again["trial"]["trial"] == "double/0"
    assert [update["loss"] for update in again["updates"]] == [2.625, None]
    assert again["ledger"] is None
    assert [evaluation["split"] for evaluation in again["evaluations"]] == [
        "validation",
        "retention",
    ]


def test_an_unknown_trial_has_no_history(begun):
    with pytest.raises(NotFound, match="the study has no trial half/9"):
        history(begun.file, "half/9")
