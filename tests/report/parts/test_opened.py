"""The test split: sealed, or what opening it brought."""

import dataclasses

import pytest

from sweeper.report.parts.opened import opened_part
from sweeper.selection.frozen import Role
from sweeper.selection.opened import Opened, OpenedLoss, Openings

VALIDATION = {"half": 1.590, "baseline": 1.602}


def loss(role, arm, seed, value):
    return OpenedLoss(
        role=role, arm=arm, seed=seed, validation_loss=VALIDATION.get(arm, 2.1), test_loss=value,
        per_record_path="x", per_record_sha256="y",
    )  # fmt: skip


@pytest.fixture
def opened(dossiers):
    losses = (
        loss(Role.CHOSEN, "half", 0, 1.61),
        loss(Role.CHOSEN, "half", 1, 1.612),
        loss(Role.BASELINE, "baseline", 0, 1.62),
        loss(Role.BASELINE, "baseline", 1, 1.624),
        loss(Role.INITIAL, None, 0, None),
    )
    result = Opened(
        opening=1, frozen="d", chosen="half", records_digest="r", records_read=30, records=29,
        target_tokens=300, set_digest="s", overlaps=(), losses=losses,
    )  # fmt: skip
    return dataclasses.replace(dossiers["answered"], openings=Openings(results=(result,)))


def test_the_losses_of_every_model_are_there_and_what_is_not_finite_is_empty(opened):
    part = opened_part(opened)

    assert [list(row.values()) for row in part.losses.rows] == [
        ["half", 0, 1.590, 1.61],
        ["half", 1, 1.590, 1.612],
        ["baseline", 0, 1.602, 1.62],
        ["baseline", 1, 1.602, 1.624],
        ["untrained model", 0, 2.1, None],
    ]


def test_what_it_says_of_the_choice_is_said(opened):
    first, verdict, *_ = opened_part(opened).sentences

    assert first == (
        "The test split was opened for half: 29 records with 300 target tokens were scored."
    )
    assert "on the test split" in verdict
    assert "half is lower than baseline" in verdict


def test_a_study_without_one_says_so(dossiers):
    part = opened_part(dossiers["answered"])

    assert (part.sentences, part.losses) == (["The study has no test split."], None)
