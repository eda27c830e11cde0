"""Duplicates and shared prompts between splits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.data.manifest import Dropped, DropReason, Overlap
from sweeper.data.options import FieldNames
from sweeper.data.overlaps import compare_splits
from sweeper.data.splits import LoadedSplit, SplitSource, load_split
from sweeper.errors import DataError, Fault

Splits = Callable[..., dict[str, LoadedSplit]]
Pair = tuple[str, str]


@pytest.fixture
def splits(tmp_path: Path, write_jsonl: Callable[..., str]) -> Splits:
    """Returns a factory of splits out of (prompt, answer) pairs, by name."""

    def load(**named: list[Pair]) -> dict[str, LoadedSplit]:
        for name, pairs in named.items():
            write_jsonl(f"{name}.jsonl", *({"prompt": p, "answer": a} for p, a in pairs))
        return {
            name: load_split(
                SplitSource(
                    name=name,
                    path=tmp_path / f"{name}.jsonl",
                    format="auto",
                    fields=FieldNames(),
                )
            )
            for name in named
        }

    return load


def pairs(first: int, last: int) -> list[Pair]:
    return [(f"prompt {number}", f"answer {number}") for number in range(first, last + 1)]


def refused(named: dict[str, LoadedSplit], *, drop_from_train: bool = False) -> tuple[Fault, ...]:
    with pytest.raises(DataError) as caught:
        compare_splits(named, drop_from_train=drop_from_train)
    return caught.value.faults


# Case B10: two of ten shared, one of them with other white space around it.
SHARED = [*pairs(1, 8), ("prompt 9", "answer 9"), (" prompt 10", "answer 10\n")]


def test_shared_records_are_refused_with_count_and_numbers(splits: Splits, tmp_path: Path) -> None:
    (fault,) = refused(splits(train=SHARED, validation=pairs(9, 18)))
    assert fault.what == "2 records of train are also in validation"
    assert fault.got == "number 9, 10 of 10"
    assert fault.where == f"{tmp_path / 'train.jsonl'} and {tmp_path / 'validation.jsonl'}"
    assert fault.hint == "Remove them, or set data.duplicates: drop_from_train"


def test_shared_records_are_dropped_from_train_where_that_was_asked(splits: Splits) -> None:
    compared = compare_splits(splits(train=SHARED, validation=pairs(9, 18)), drop_from_train=True)
    assert [r.place.record for r in compared.splits["train"].records] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(compared.splits["validation"].records) == 10
    assert compared.dropped == (
        Dropped(reason=DropReason.DUPLICATE, count=2, record_numbers=(9, 10)),
    )
    assert compared.notices == (
        "train: 2 records equal to records of validation (number 9, 10); dropped from train",
    )


def test_validation_equal_to_training_is_one_clear_message(splits: Splits) -> None:
    (fault,) = refused(splits(train=pairs(1, 4), validation=pairs(1, 4)))
    assert fault.what == "validation holds the same records as train"
    assert fault.hint == "Give each split records of its own"


def test_dropping_never_leaves_an_empty_train(splits: Splits) -> None:
    (fault,) = refused(splits(train=pairs(1, 2), validation=pairs(1, 4)), drop_from_train=True)
    assert fault.what == "every record of train is also held out"


def test_the_test_split_is_checked_too(splits: Splits) -> None:
    faults = refused(
        splits(train=pairs(1, 4), validation=pairs(5, 7), test=[*pairs(4, 4), *pairs(7, 9)])
    )
    assert [fault.what for fault in faults] == [
        "1 record of train is also in test",
        "1 record of validation is also in test",
    ]
    assert [fault.hint for fault in faults] == [
        "Remove them, or set data.duplicates: drop_from_train",
        "Remove them from validation",
    ]


def test_records_shared_with_retention_are_held_out_as_well(splits: Splits) -> None:
    (fault,) = refused(splits(train=pairs(1, 3), validation=pairs(4, 5), retention=pairs(3, 3)))
    assert fault.what == "1 record of train is also in retention"


def test_validation_and_retention_may_share_records_on_record(splits: Splits) -> None:
    named = splits(train=pairs(1, 3), validation=pairs(4, 5), retention=pairs(5, 6))
    compared = compare_splits(named, drop_from_train=False)
    assert compared.notices == (
        "validation: 1 record equal to records of retention (number 2); kept in both",
    )


def test_shared_prompts_are_counted_apart_from_duplicates(splits: Splits) -> None:
    train = [("What?", "this"), ("Who?", "me"), ("what? ", "that"), ("Where?", "here")]
    validation = [("WHAT?", "other"), ("Who?", "me")]
    compared = compare_splits(splits(train=train, validation=validation), drop_from_train=True)
    assert compared.overlaps == (
        Overlap(kind="exact", split="train", held_out="validation", count=1, record_numbers=(2,)),
        Overlap(
            kind="prompt", split="train", held_out="validation", count=2, record_numbers=(1, 3)
        ),
    )
    assert compared.notices[0] == (
        "train: 2 records share their prompt, not their answer, with validation (number 1, 3)"
    )


def test_shared_prompts_alone_are_not_refused(splits: Splits) -> None:
    named = splits(train=[("p", "a"), ("q", "b")], validation=[("p", "c")])
    assert len(compare_splits(named, drop_from_train=False).splits["train"].records) == 2


def test_pairs_without_overlap_are_on_record_with_zero(splits: Splits) -> None:
    named = splits(train=pairs(1, 3), validation=pairs(4, 5), test=pairs(6, 7))
    overlaps = compare_splits(named, drop_from_train=False).overlaps
    assert [(o.kind, o.split, o.held_out, o.count) for o in overlaps] == [
        ("exact", "train", "validation", 0),
        ("prompt", "train", "validation", 0),
        ("exact", "train", "test", 0),
        ("prompt", "train", "test", 0),
        ("exact", "validation", "test", 0),
        ("prompt", "validation", "test", 0),
    ]


def test_repeats_within_a_split_are_kept_and_told(splits: Splits) -> None:
    named = splits(train=[*pairs(1, 2), *pairs(1, 1)], validation=pairs(4, 5))
    compared = compare_splits(named, drop_from_train=False)
    assert len(compared.splits["train"].records) == 3
    assert compared.notices == (
        "train: 1 record equal to an earlier one of the same split; all kept",
    )


def test_only_the_first_twenty_numbers_are_listed(splits: Splits) -> None:
    named = splits(train=pairs(1, 40), validation=pairs(11, 40))
    (dropped,) = compare_splits(named, drop_from_train=True).dropped
    assert dropped.count == 30
    assert dropped.record_numbers == tuple(range(11, 31))
