"""Next-fit packing, worked by hand and as a property of any lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.data.packing import next_fit, refuse_long_records
from sweeper.errors import PlanError


@pytest.mark.parametrize(
    ("lengths", "row_tokens", "rows"),
    [
        ([6, 6], 12, [2]),
        ([6, 7], 12, [1, 1]),
        ([12], 12, [1]),
        ([3, 9, 1, 12, 5, 5, 5], 12, [2, 1, 1, 2, 1]),
        ([1] * 25, 12, [12, 12, 1]),
        ([5, 5], 5, [1, 1]),
        ([], 12, []),
    ],
)
def test_rows_are_filled_in_order(lengths: list[int], row_tokens: int, rows: list[int]) -> None:
    assert next_fit(lengths, row_tokens) == rows


def test_a_closed_row_is_not_opened_again_for_a_record_that_would_fit() -> None:
    """First-fit would put the last record, of 2, beside the first, of 6: next-fit keeps order."""
    assert next_fit([6, 7, 2], 8) == [1, 1, 1]


def test_a_record_is_never_split_over_rows() -> None:
    with pytest.raises(AssertionError, match="never split"):
        next_fit([13], 12)


def test_a_record_that_no_row_holds_is_refused_with_both_lengths() -> None:
    with pytest.raises(PlanError) as caught:
        refuse_long_records(np.array([12, 13, 20, 3]), 12)

    (fault,) = caught.value.faults
    assert fault.what == "2 of 4 training records fit in no packed row"
    assert fault.where == "data.packing.row_tokens"
    assert (fault.got, fault.expected) == ("rows of 12 tokens, a record of 20", "at least 20")
    assert fault.hint is not None
    assert "data.max_length" in fault.hint


def test_a_record_as_long_as_a_row_is_accepted() -> None:
    refuse_long_records(np.array([12, 3]), 12)


@st.composite
def lengths_and_row(draw: st.DrawFn) -> tuple[list[int], int]:
    row_tokens = draw(st.integers(1, 40))
    return draw(st.lists(st.integers(1, row_tokens), max_size=60)), row_tokens


def filled(lengths: list[int], rows: list[int]) -> list[list[int]]:
    """The lengths of the records of each row."""
    unread = iter(lengths)
    return [list(itertools.islice(unread, count)) for count in rows]


@given(lengths_and_row())
@settings(deadline=None)
def test_no_record_is_lost_and_the_order_is_kept(case: tuple[list[int], int]) -> None:
    lengths, row_tokens = case
    rows = next_fit(lengths, row_tokens)
    assert list(itertools.chain.from_iterable(filled(lengths, rows))) == lengths
    assert all(count > 0 for count in rows)
    assert sum(rows) == len(lengths)


@given(lengths_and_row())
@settings(deadline=None)
def test_no_row_holds_more_than_it_may(case: tuple[list[int], int]) -> None:
    lengths, row_tokens = case
    assert all(sum(row) <= row_tokens for row in filled(lengths, next_fit(lengths, row_tokens)))


@given(lengths_and_row())
@settings(deadline=None)
def test_a_row_is_closed_only_when_the_next_record_does_not_fit(
    case: tuple[list[int], int],
) -> None:
    lengths, row_tokens = case
    rows = filled(lengths, next_fit(lengths, row_tokens))
    assert all(sum(row) + after[0] > row_tokens for row, after in itertools.pairwise(rows))


@given(lengths_and_row(), st.integers(0, 60))
@settings(deadline=None)
def test_what_comes_later_does_not_change_the_rows_before(
    case: tuple[list[int], int], cut: int
) -> None:
    lengths, row_tokens = case
    early, whole = next_fit(lengths[:cut], row_tokens), next_fit(lengths, row_tokens)
    assert early[:-1] == whole[: len(early[:-1])]
