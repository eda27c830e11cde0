"""What happened on the way, in words."""

import dataclasses

import pytest

from sweeper.report.parts.course import attempts, changes_on_the_way, faults, interventions, remarks
from sweeper.store.interventions import Intervention
from sweeper.store.restoring import Entry

ENDED = {"outcome": "limited", "reason": "wall_clock", "detail": "3600 s of 3600 s"}
AMENDED = {"limits": {"wall_clock": "4h"}, "before": {"wall_clock": "1h"}}


def entry(kind, detail, **changes):
    usual = {"number": 1, "cell": None, "after_attempt": None, "from_the_start": False}
    return Entry(kind=kind, detail=detail, at="2026-03-01T12:00:00.25Z", **(usual | changes))


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            entry(Intervention.AMEND, AMENDED),
            "limits were amended for all arms: wall_clock 4h (before: 1h).",
        ),
        (
            entry(Intervention.AMEND, ENDED, cell="half/0", after_attempt=1),
            "half/0 was let go on after its limit was raised; attempt 1 had ended: wall_clock.",
        ),
        (
            entry(Intervention.RETRY, ENDED, cell="half/0", after_attempt=2, from_the_start=True),
            "half/0 was tried again, from the start; attempt 2 had ended: wall_clock.",
        ),
        (
            entry(Intervention.CANCEL, {"why": "not needed"}, cell="half/0"),
            "half/0 was cancelled: not needed.",
        ),
        (
            entry(Intervention.CLOSE, {"why": "moved to /srv/new"}),
            "the study was closed: moved to [path left out].",
        ),
        (
            entry(Intervention.CLEAN, {"checkpoints": 3, "bytes": 9}),
            "3 checkpoints were removed to make room.",
        ),
        (
            entry(Intervention.ATTACH, {"source": "quality.csv"}),
            "metrics were attached from quality.csv.",
        ),
    ],
)
def test_an_intervention_is_a_sentence_with_its_time(done, said, dossiers):
    dossier = dataclasses.replace(dossiers["answered"], interventions=(done,))

    assert interventions(dossier) == [f"2026-03-01 12:00:00 UTC: {said}"]


def test_a_fault_says_how_a_trial_ended_and_keeps_an_error_s_words_to_itself(dossiers):
    assert faults(dossiers["answered"]) == []
    assert faults(dossiers["cut_short"])[:2] == [
        "double/0 limited (wall_clock): 3600 s of 3600 s.",
        "half/1 lost (killed): killed by SIGKILL.",
    ]
    assert (
        "double/0 failed (code_error) (its words are left out: they may quote a record)."
        in faults(dossiers["hostile"])
    )


def test_remarks_are_said_once_with_their_number(dossiers):
    assert remarks(dossiers["cut_short"]) == ["padding is 40 % (9 times)"]


def test_every_attempt_is_a_row_and_its_host_only_when_asked_for(dossiers):
    table = attempts(dossiers["cut_short"])

    assert len(table.rows) == 9
    assert "host" not in table.names()


def test_a_trial_that_went_on_elsewhere_is_named(studies, tmp_path):
    from sweeper.report.dossier import read_dossier

    found = studies.found(tmp_path)
    with found.open() as store:
        studies.go_on_elsewhere(store, "half/0")

    assert changes_on_the_way(read_dossier(found.folder.path)) == [
        "half/0, attempt 2, after window 1: it ran on cpu and goes on on cuda."
    ]
