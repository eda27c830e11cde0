"""What the data section of a study accepts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sweeper.data.options import DataOptions, SealedSource, Source, SplitShares

FILES = {"train": {"path": "t"}, "validation": {"path": "v"}}


def test_splits_are_given_as_files_or_as_shares_of_one_source() -> None:
    assert DataOptions(max_length=8, **FILES).split is None  # type: ignore[arg-type]
    shares = {"source": {"path": "s"}, "split": {"validation": 0.1}}
    assert DataOptions(max_length=8, **shares).train is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        {"train": {"path": "t"}},
        {"source": {"path": "s"}},
        FILES | {"source": {"path": "s"}},
        FILES | {"split": {"validation": 0.1}},
        {"train": {"path": "t"}, "source": {"path": "s"}, "split": {"validation": 0.1}},
        {"source": {"path": "s"}, "split": {"validation": 0.1}, "test": {"path": "x"}},
    ],
)
def test_half_of_either_or_both_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(
        ValidationError, match=r"give `train` and `validation`|comes out of `source`"
    ):
        DataOptions(max_length=8, **data)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "give either `path` or `hub`"),
        ({"path": "p", "hub": "h"}, "give either `path` or `hub`"),
        ({"path": "p", "revision": "r"}, "belong to `hub`"),
    ],
)
def test_a_source_is_one_place(place: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Source(**place)


@pytest.mark.parametrize("place", [{}, {"path": "p", "sha256": "ab" * 32}, {"sha256": "AB" * 32}])
def test_a_sealed_source_is_one_place_or_a_digest(place: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SealedSource(**place)


@pytest.mark.parametrize(
    "shares",
    [{"validation": 0.0}, {"validation": 0.5, "test": 0.5}, {"validation": 1.0}],
)
def test_shares_leave_records_for_training_and_validation(shares: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="must"):
        SplitShares(**shares)
