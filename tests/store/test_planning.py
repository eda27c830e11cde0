"""The study is recorded once, its cells in one order, and it may end early and go on."""

from __future__ import annotations

import dataclasses

import pytest

from sweeper.errors import StoreError, StudyConflict
from sweeper.records import Reason
from sweeper.store.claims import Owner
from sweeper.store.status import CellStatus
from sweeper.store.store import StudyStore

pytestmark = pytest.mark.every_database


def statuses(store):
    return [cell.status.value for cell in store.cells()]


def test_the_study_is_read_back_as_it_was_recorded(store, study):
    recorded = store.study()

    assert dataclasses.replace(recorded, created_at=None) == study
    assert list(recorded.arms) == ["baseline", "double"]
    assert recorded.created_at.utcoffset().total_seconds() == 0


def test_recording_the_same_study_again_changes_nothing(store, study):
    before = store.study()

    store.record_study(study)

    assert store.study() == before


def test_a_study_with_another_fingerprint_is_refused(store, study):
    other = dataclasses.replace(study, fingerprint="0" * 64)

    with pytest.raises(StudyConflict, match="another fingerprint"):
        store.record_study(other)

    assert store.study().fingerprint == study.fingerprint


def test_a_database_without_a_study_says_so(url):
    with StudyStore.create(url) as empty:
        assert empty.find_study() is None
        with pytest.raises(StoreError, match="holds no study yet"):
            empty.study()
        with pytest.raises(StoreError, match="holds no study yet"):
            empty.trials()


def test_cells_keep_the_plans_order_and_values(store):
    cells = store.cells()

    assert [(cell.cell, cell.arm, cell.seed, cell.value) for cell in cells] == [
        ("baseline/0", "baseline", 0, 0.0002),
        ("double/0", "double", 0, 0.0004),
        ("baseline/1", "baseline", 1, 0.0002),
        ("double/1", "double", 1, 0.0004),
    ]
    assert statuses(store) == ["waiting"] * 4


def test_adding_cells_again_adds_only_the_new_ones_at_the_end(store, cells, make_cell, owner):
    store.claim(owner, "cpu0")

    store.add_cells([make_cell("half/0", "half", 0, 0.0001), *cells])

    assert [cell.cell for cell in store.cells()] == [
        "baseline/0",
        "double/0",
        "baseline/1",
        "double/1",
        "half/0",
    ]
    assert store.cells()[0].status is CellStatus.RUNNING


def test_a_known_cell_with_another_value_is_refused(store, make_cell):
    with pytest.raises(StoreError, match="double/1: a planned cell is on record with other values"):
        store.add_cells([make_cell("double/1", "double", 1, 0.0005)])


def test_a_value_may_be_a_word(url, study, make_cell):
    precision = dataclasses.replace(
        study,
        factor_key="training.precision",
        arms={"baseline": "float32", "bfloat16": "bfloat16"},
    )
    with StudyStore.create(url) as words:
        words.record_study(precision)
        words.add_cells([make_cell("bfloat16/0", "bfloat16", 0, "bfloat16")])

        assert words.cells()[0].value == "bfloat16"
        assert words.trials()[0]["precision"] == "bfloat16"
        assert words.study().arms == {"baseline": "float32", "bfloat16": "bfloat16"}


@pytest.mark.parametrize("factor_key", ["training.loss-scale", "training.outcome", "run.trial"])
def test_a_factor_that_cannot_name_a_column_is_refused(url, study, factor_key):
    with (
        StudyStore.create(url) as empty,
        pytest.raises(StoreError, match="cannot name a column"),
    ):
        empty.record_study(dataclasses.replace(study, factor_key=factor_key))


def test_ending_early_closes_only_cells_that_never_started(store, owner, completed, ended):
    store.finish(store.claim(owner, "cpu0"), completed, max_resumes=3)
    store.finish(store.claim(owner, "cpu0"), ended(Reason.KILLED), max_resumes=3)

    assert store.close_not_run("the baseline failed") == 2

    assert statuses(store) == ["ended", "waiting", "not_run", "not_run"]
    assert [row["detail"] for row in store.trials()[2:]] == ["the baseline failed"] * 2
    assert [row["outcome"] for row in store.trials()[2:]] == [None, None]
    assert store.study().ended_why == "the baseline failed"
    assert store.study().ended_at >= store.study().created_at


def test_cells_that_were_not_run_are_not_claimed(store, owner):
    store.close_not_run("the baseline failed")

    assert store.claim(owner, "cpu0") is None


def test_a_reopened_study_goes_on_where_it_was(store, owner):
    store.close_not_run("the baseline failed")

    assert store.reopen_study() == 4

    assert (store.study().ended_why, store.study().ended_at) == (None, None)
    assert store.claim(owner, "cpu0").cell == "baseline/0"
    assert store.cells()[1].detail is None


def test_why_a_study_ended_is_kept(store):
    store.end_study("every cell has ended")

    assert store.study().ended_why == "every cell has ended"
    assert statuses(store) == ["waiting"] * 4


def test_a_repeat_has_a_place_beside_the_cell_of_its_seed(store, make_cell):
    store.add_cells([make_cell("baseline/0~repeat", "baseline~repeat", 0, 0.0002)])

    assert [cell.cell for cell in store.cells()][-2:] == ["double/1", "baseline/0~repeat"]
    assert store.claim(
        Owner(worker="w", host="h", pid=1, started_at="1.0"), "cpu0", cell="baseline/0~repeat"
    ).folder == ("trials/baseline~repeat-0/attempts/1")
