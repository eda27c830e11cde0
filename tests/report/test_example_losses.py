"""The losses of single records at the declared checkpoint: which files count, and which do not."""

import hashlib

import pandas as pd
import pytest

from sweeper.report.example_losses import example_losses
from sweeper.selection.example_losses import ExampleLosses


def frame(*loss_sums, **changes):
    columns = {
        "digest": ["aa", "bb"],
        "group": ["g1", "g2"],
        "target_tokens": [3, 5],
        "loss_sum": list(loss_sums),
    }
    return pd.DataFrame(columns | changes)


@pytest.fixture
def row(tmp_path):
    """Writes the losses of an evaluation and returns its row."""

    def write(trial, index, records, **changes):
        arm, _, seed = trial.partition("/")
        content = records.to_parquet(None, index=False)
        name = f"{arm}-{seed}-{index}.parquet"
        (tmp_path / name).write_bytes(content)
        return {
            "trial": trial,
            "arm": arm,
            "seed": int(seed),
            "split": "validation",
            "grid_index": index,
            "loss": float(records["loss_sum"].sum() / 8),
            "per_record_path": name,
            "per_record_sha256": hashlib.sha256(content).hexdigest(),
        } | changes

    return write


@pytest.fixture
def read(tmp_path):
    def losses(*rows, completed=("baseline/0", "half/0"), at_best=False):
        return example_losses(tmp_path, rows, completed=completed, at_best=at_best)

    return losses


def test_the_last_evaluation_of_each_trial_counts_record_by_record(row, read):
    found = read(
        row("baseline/0", 0, frame(9.0, 9.0)),
        row("baseline/0", 1, frame(4.0, 8.0)),
        row("baseline/0", 2, frame(4.5, 8.5)),
        row("half/0", 2, frame(4.0, 0.1 + 0.2)),
        row("half/0", 1, frame(1.0, 1.0)),
    )

    assert found == ExampleLosses(
        groups=("g1", "g2"),
        target_tokens=(3, 5),
        loss_sums={("baseline", 0): (4.5, 8.5), ("half", 0): (4.0, 0.1 + 0.2)},
    )


def test_where_the_best_counts_it_is_the_earliest_of_the_lowest_after_an_update(row, read):
    found = read(
        row("half/0", 0, frame(0.5, 0.5)),
        row("half/0", 1, frame(4.5, 8.5)),
        row("half/0", 2, frame(4.0, 8.0)),
        row("half/0", 3, frame(3.0, 9.0)),
        row("half/0", 4, frame(9.0, 9.0), loss=None),
        at_best=True,
    )

    assert found.loss_sums == {("half", 0): (4.0, 8.0)}


def test_only_completed_trials_and_the_validation_split_take_part(row, read):
    found = read(
        row("baseline/0", 1, frame(4.0, 8.0)),
        row("baseline/0", 2, frame(1.0, 1.0), split="retention"),
        row("half/0", 1, frame(4.0, 8.0)),
        completed={"baseline/0"},
    )

    assert found.loss_sums == {("baseline", 0): (4.0, 8.0)}


@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({"per_record_path": None}, ()),
        ({"per_record_sha256": "another"}, (("half", 0),)),
        ({"per_record_path": "x"}, (("half", 0),)),
    ],
)
def test_a_file_that_is_not_there_or_was_changed_leaves_its_trial_out(row, read, changes, unread):
    """And is named, unless the trial never left one."""
    found = read(
        row("baseline/0", 1, frame(4.0, 8.0)), row("half/0", 1, frame(4.0, 8.0), **changes)
    )

    assert found.unread == unread

    assert set(found.loss_sums) == {("baseline", 0)}


def test_where_all_files_are_gone_that_is_known_and_not_that_there_never_were_any(row, read):
    found = read(row("half/0", 1, frame(4.0, 8.0), per_record_path="x"))

    assert (found.loss_sums, found.unread) == ({}, (("half", 0),))


def test_a_file_that_holds_no_losses_is_unread_also_with_its_digest_on_record(row, read):
    found = read(row("half/0", 1, frame(4.0, 8.0)[["digest", "loss_sum"]]))

    assert found.unread == (("half", 0),)


@pytest.mark.parametrize(
    "changes",
    [{"digest": ["aa", "cc"]}, {"group": ["g1", "g1"]}, {"target_tokens": [3, 6]}],
)
def test_a_trial_scored_on_other_records_is_left_out(row, read, changes):
    other = frame(4.0, 8.0, **changes)
    found = read(row("baseline/0", 1, frame(4.0, 8.0)), row("half/0", 1, other))

    assert set(found.loss_sums) == {("baseline", 0)}


def test_without_any_there_are_none(row, read):
    assert read() is None
    assert read(row("half/0", 0, frame(4.0, 8.0))) is None
