"""What was frozen of a study is what its record gives also once the database is made anew."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest

from sweeper.report.comparison import evidence
from sweeper.report.recorded import recorded_settings
from sweeper.selection.comparison import compare
from sweeper.selection.frozen import Frozen, FrozenCheckpoint, Role, environment_digest, tables_of
from sweeper.selection.refrozen import departures
from sweeper.store.store import StudyStore
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import rebuild

pytestmark = pytest.mark.slow  # real studies, though of trials without torch


@pytest.fixture
def read(study_of_rates):
    settings = recorded_settings(study_of_rates.folder)
    return partial(evidence, study=settings, folder=study_of_rates.folder.path)


@pytest.fixture
def study_of_rates(small, tmp_path):
    """Two arms and, since the lower rate is the better one here, a third that was added."""
    study = small(tmp_path, seeds="[0, 1, 2]", extensions="1")
    study.run(slots=3)
    return study


def frozen_of(record):
    found = compare(record)
    trials = [("baseline", seed) for seed in record.seeds]
    return Frozen(
        number=1,
        arm=found.choice.arm,
        sentence=found.choice.sentence,
        answer=found.answer.sentence,
        protocol="f" * 64,
        tables=tables_of(record, found),
        checkpoints=tuple(
            FrozenCheckpoint(role=Role.BASELINE, arm=arm, seed=seed, path="adapter", sha256="a0")
            for arm, seed in trials
        ),
        metric="loss",
        environment=environment_digest(record, trials),
    )


def test_a_rebuilt_database_of_an_extended_study_gives_what_was_frozen(study_of_rates, read):
    study = study_of_rates
    with StudyStore.open(study.url) as store:
        before = dataclasses.replace(read(store), closed=True)
        choice = frozen_of(before)
        store.freeze(choice, "the choice was frozen")

    rebuild(study.folder, replace=True, observer=SilentObserver())

    with StudyStore.read(study.url) as store:
        anew = read(store)
    assert [arm.round for arm in anew.arms] == [0, 0, 1]
    assert departures(choice, anew) == ()
