"""Tokenised splits on disk."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest

from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.data.stream import plan_stream
from sweeper.errors import NotFound

ONE = EncodedRecord(
    token_ids=(5, 6, 7), supervised=(False, True, True), digest=hashlib.sha256(b"1").digest()
)
TWO = EncodedRecord(
    token_ids=(8, 9, 10, 11),
    supervised=(False, True, False, True),
    digest=hashlib.sha256(b"2").digest(),
)


@pytest.fixture
def split(tmp_path: Path) -> PreparedSplit:
    write_split(tmp_path / "train", [ONE, TWO])
    return PreparedSplit.open(tmp_path, "train")


def test_records_come_back_as_they_were_written(split: PreparedSplit) -> None:
    token_ids, supervised = split.example(1)
    assert token_ids.tolist() == [8, 9, 10, 11]
    assert supervised.tolist() == [False, True, False, True]
    assert len(split) == 2


def test_arrays_have_the_types_that_trials_rely_on(split: PreparedSplit) -> None:
    assert (split.token_ids.dtype, split.supervised.dtype) == (np.int32, np.bool_)
    assert (split.offsets.dtype, split.target_counts.dtype) == (np.int64, np.int64)
    assert (split.digests.dtype, split.digests.shape) == (np.uint8, (2, 32))


def test_arrays_are_read_only_maps_of_the_files(split: PreparedSplit) -> None:
    assert isinstance(split.token_ids, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        split.token_ids[0] = 1


def test_counts_and_lengths_are_per_record(split: PreparedSplit) -> None:
    assert split.target_counts.tolist() == [2, 2]
    assert split.lengths.tolist() == [3, 4]


def test_a_record_without_a_group_is_known_by_its_own_digest(tmp_path: Path) -> None:
    group = hashlib.sha256(b"author").digest()
    write_split(tmp_path / "train", [ONE, dataclasses.replace(TWO, group=group)])

    split = PreparedSplit.open(tmp_path, "train")

    assert [bytes(row) for row in split.groups] == [ONE.digest, group]
    assert [bytes(row) for row in split.digests] == [ONE.digest, TWO.digest]


def test_the_digest_of_the_split_runs_over_those_of_its_records(split: PreparedSplit) -> None:
    assert split.records_digest == hashlib.sha256(ONE.digest + TWO.digest).hexdigest()


def test_the_length_to_a_target_ends_with_it(split: PreparedSplit) -> None:
    assert split.length_to_target(1, 1) == 2
    assert split.length_to_target(1, 2) == 4


def test_a_split_can_be_planned_from(split: PreparedSplit) -> None:
    """The budget of 3 cuts the record read last behind its first target, its second token."""
    stream = plan_stream(split, seed=0, budget_target_tokens=3, records_per_update=2, max_epochs=1)
    assert stream.target_tokens == 3
    assert stream.input_tokens == split.lengths[stream.windows[0].records[0]] + 2


def test_a_split_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no prepared split `test`"):
        PreparedSplit.open(tmp_path, "test")
