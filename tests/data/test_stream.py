"""The stream of records: its order, its exact cut, its windows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sweeper.data.stream import (
    Stream,
    epoch_order,
    plan_stream,
    window_bounds,
    without_surplus,
)
from sweeper.errors import PlanError


@dataclass(frozen=True)
class Counted:
    """A split of which only counts are known: two prompt tokens, then the targets."""

    target_counts: NDArray[np.int64]
    digests: NDArray[np.uint8]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.target_counts + 2

    def length_to_target(self, index: int, target: int) -> int:
        return 2 + target


def digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def split(*counts: int, names: tuple[str, ...] | None = None) -> Counted:
    names = names or tuple(f"record {index}" for index in range(len(counts)))
    joined = b"".join(digest(name) for name in names)
    return Counted(
        target_counts=np.array(counts, dtype=np.int64),
        digests=np.frombuffer(joined, dtype=np.uint8).reshape(len(counts), 32),
    )


def plan(
    records: Counted,
    budget: int,
    per_update: int,
    seed: int = 0,
    epochs: int = 99,
    row_tokens: int | None = None,
) -> Stream:
    return plan_stream(
        records,
        seed=seed,
        budget_target_tokens=budget,
        records_per_update=per_update,
        max_epochs=epochs,
        row_tokens=row_tokens,
    )


def sizes(stream: Stream) -> list[int]:
    return [len(window.records) for window in stream.windows]


def targets(stream: Stream) -> list[int]:
    return [window.target_tokens for window in stream.windows]


counts_of_records = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@st.composite
def planned(draw: st.DrawFn) -> tuple[Counted, int, int, int]:
    counts = draw(counts_of_records)
    budget = draw(st.integers(1, 3 * sum(counts)))
    return split(*counts), budget, draw(st.integers(1, 12)), draw(st.integers(0, 5))


def read(stream: Stream) -> list[int]:
    return [record for window in stream.windows for record in window.records]


# R22: 1000 targets of records with 300 each.
def test_the_last_record_gives_only_what_the_budget_still_needs() -> None:
    stream = plan(split(300, 300, 300, 300), budget=1000, per_update=1)
    assert targets(stream) == [300, 300, 300, 100]
    assert [window.surplus_masked for window in stream.windows] == [0, 0, 0, 200]
    assert stream.target_tokens == 1000


def test_a_budget_of_1000_at_300_an_update_is_met_by_windows_of_300_300_and_400() -> None:
    """R22 under our tail rule: ten records of 100, three per update; a fourth whole update would
    read 1200. The tail of one record is less than half a window and joins the third."""
    stream = plan(split(*[100] * 12), budget=1000, per_update=3)
    assert targets(stream) == [300, 300, 400]
    assert sizes(stream) == [3, 3, 4]


def test_a_cut_record_ends_behind_its_last_kept_target() -> None:
    stream = plan(split(300, 300, 300, 300), budget=1000, per_update=1)
    assert [window.input_tokens for window in stream.windows] == [302, 302, 302, 102]
    assert stream.input_tokens == 1008


def test_a_budget_that_ends_with_a_record_cuts_nothing() -> None:
    stream = plan(split(300, 300, 300), budget=600, per_update=1)
    assert targets(stream) == [300, 300]
    assert stream.windows[-1].surplus_masked == 0
    assert stream.input_tokens == 604


def test_without_surplus_the_last_targets_are_masked_and_what_follows_is_cut_off() -> None:
    token_ids = np.array([10, 11, 12, 13, 14, 15], dtype=np.int32)
    supervised = np.array([False, True, False, True, True, False])
    kept_ids, kept_mask = without_surplus(token_ids, supervised, 2)
    assert kept_ids.tolist() == [10, 11]
    assert kept_mask.tolist() == [False, True]


def test_without_surplus_a_record_with_none_stays_whole() -> None:
    token_ids = np.array([10, 11, 12], dtype=np.int32)
    supervised = np.array([False, True, False])
    assert without_surplus(token_ids, supervised, 0)[0].tolist() == [10, 11, 12]


@pytest.mark.parametrize(
    ("records", "per_update", "bounds"),
    [
        (8, 4, [0, 4, 8]),
        (9, 4, [0, 4, 9]),
        (10, 4, [0, 4, 8, 10]),
        (11, 4, [0, 4, 8, 11]),
        (7, 3, [0, 3, 7]),
        (8, 3, [0, 3, 6, 8]),
        (5, 4, [0, 5]),
        (6, 4, [0, 4, 6]),
        (3, 4, [0, 3]),
        (1, 8, [0, 1]),
        (3, 1, [0, 1, 2, 3]),
    ],
)
def test_a_tail_under_half_a_window_joins_the_one_before_it(
    records: int, per_update: int, bounds: list[int]
) -> None:
    assert window_bounds(records, per_update) == bounds


def test_windows_cross_the_borders_of_epochs() -> None:
    stream = plan(split(1, 1, 1), budget=6, per_update=2)
    assert [window.epochs for window in stream.windows] == [(1, 1), (1, 2), (2, 2)]
    assert sorted(stream.windows[0].records + stream.windows[1].records[:1]) == [0, 1, 2]


def test_ten_records_three_times_at_four_an_update_are_eight_windows() -> None:
    """R21: 30 records are seven windows of four and one of two, exactly half a window."""
    stream = plan(split(*[1] * 10), budget=30, per_update=4)
    assert sizes(stream) == [4, 4, 4, 4, 4, 4, 4, 2]
    assert sorted(read(stream)) == sorted([*range(10)] * 3)
    assert stream.windows[2].epochs == (1, 1, 2, 2)


def test_three_epochs_of_nine_records_are_read_to_the_last_record() -> None:
    """huggingface/transformers #33455: 5 micro-batches of 2 per epoch, 2 to an update: rounding up
    gives 3 updates per epoch, 9 in all; rounding down gives 6 and ends before the epochs do. Ours
    run on over the borders of epochs: 27 records are six windows of four and one of three."""
    stream = plan(split(*[1] * 9), budget=27, per_update=4)
    assert sizes(stream) == [4, 4, 4, 4, 4, 4, 3]
    assert sorted(read(stream)) == sorted([*range(9)] * 3)
    assert stream.windows[-1].epochs[-1] == 3


def test_epochs_begun_are_counted_from_the_records_read() -> None:
    """huggingface/transformers #22110: 5 micro-batches per epoch, 2 to an update, 9 updates: 3
    epochs when a short update ends each, while rounding down tells of 5. Our windows are whole
    across epochs: 9 updates of 4 are 36 records, which is 3 epochs of 10 and 6 of the fourth."""
    stream = plan(split(*[1] * 10), budget=36, per_update=4)
    assert sizes(stream) == [4] * 9
    assert stream.windows[-1].epochs == (4, 4, 4, 4)
    assert sum(window.epochs.count(4) for window in stream.windows) == 6


@pytest.mark.parametrize(
    ("micro_batches", "per_update", "bounds"),
    [(5, 4, [0, 5]), (5, 2, [0, 2, 4, 5])],
)
def test_what_does_not_fill_a_window_is_still_read(
    micro_batches: int, per_update: int, bounds: list[int]
) -> None:
    """tracel-ai/burn #5695: 5 micro-batches at 4 to an update are 2 updates (4 and 1), the rate
    counted twice; the report had 1 and lost the last. Ours: a tail below half a window joins, so
    one window of 5, whose loss is divided by the targets of all 5.
    NVIDIA-NeMo/Automodel PR #2257: 5 at 2 to an update are 3 updates with all 5 read, not 4."""
    assert window_bounds(micro_batches, per_update) == bounds


def test_a_thousand_records_at_64_an_update_are_sixteen_windows() -> None:
    """R14: dropping the tail gives 15 updates and 960 records, keeping it 16, the last of 40. Ours
    keeps it as a window of its own: 40 is more than half of 64."""
    stream = plan(split(*[1] * 1000), budget=1000, per_update=64)
    assert sizes(stream) == [64] * 15 + [40]
    assert sorted(read(stream)) == list(range(1000))


def test_no_record_is_read_twice_to_make_ranks_equal() -> None:
    """R14: a DistributedSampler of 10 records over 4 ranks reads 12, two of them twice, or 8 and
    drops two. The stream knows no ranks: each of the 10 comes once."""
    stream = plan(split(*[1] * 10), budget=10, per_update=4)
    assert sorted(read(stream)) == list(range(10))


def test_reading_on_after_a_break_is_the_rest_of_the_same_order() -> None:
    """wyim-pgl/transgenic #59: of 64 samples, resumed after 20, 15 of the next 20 were wrong: the
    loader had shuffled anew. Here order[20:] follows, and none of the first 20 comes again."""
    records = split(*[1] * 64)
    order = epoch_order(records.digests, seed=5, epoch=1).tolist()
    before = read(plan(records, budget=20, per_update=4, seed=5))
    whole = read(plan(records, budget=64, per_update=4, seed=5))
    assert before == order[:20]
    assert whole[20:] == order[20:]
    assert set(whole[20:]).isdisjoint(before)


def test_a_cursor_in_a_later_epoch_points_into_that_epochs_order() -> None:
    """huggingface/accelerate #4195: the cursor k was restored, but not the order that it counts in.
    Record k of the second epoch is order(seed, 2)[k], whatever was drawn before."""
    records = split(*[1] * 16)
    second = epoch_order(records.digests, seed=5, epoch=2).tolist()
    assert read(plan(records, budget=32, per_update=4, seed=5))[16 + 7 :] == second[7:]


def test_skipping_whole_epochs_does_not_begin_the_order_anew() -> None:
    """huggingface/accelerate PR #4071: at 125 steps per epoch, resumed after 200, the epoch was set
    back to the first. Window 201 begins at record 75 of the second epoch, in that epoch's order."""
    records = split(*[1] * 125)
    second = epoch_order(records.digests, seed=5, epoch=2).tolist()
    stream = plan(records, budget=250, per_update=1, seed=5)
    assert [window.records[0] for window in stream.windows[200:]] == second[75:]
    assert stream.windows[200].epochs == (2,)


def test_records_are_ordered_by_the_hash_of_seed_epoch_and_digest() -> None:
    records = split(1, 1, 1, 1)
    keys = [
        hashlib.sha256(b"7 2 " + digest(name)).hexdigest()
        for name in ("record 0", "record 1", "record 2", "record 3")
    ]
    expected = [index for _, index in sorted(zip(keys, range(4), strict=True))]
    assert epoch_order(records.digests, seed=7, epoch=2).tolist() == expected


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    digests = split(*[1] * 20).digests
    first = epoch_order(digests, seed=0, epoch=1).tolist()
    assert epoch_order(digests, seed=0, epoch=2).tolist() != first
    assert epoch_order(digests, seed=1, epoch=1).tolist() != first
    assert epoch_order(digests, seed=0, epoch=1).tolist() == first


def test_equal_records_keep_their_order_in_the_file() -> None:
    records = split(1, 1, 1, names=("same", "same", "same"))
    assert epoch_order(records.digests, seed=3, epoch=1).tolist() == [0, 1, 2]


def test_the_rolling_digest_runs_over_digests_and_counts_of_the_targets_read() -> None:
    stream = plan(split(3, names=("only",)), budget=2, per_update=1)
    """It begins with 32 zero bytes."""
    expected = hashlib.sha256(bytes(32) + digest("only") + (2).to_bytes(8, "little")).hexdigest()
    assert stream.record_digest == expected


def test_the_rolling_digest_tells_a_cut_record_from_a_whole_one() -> None:
    whole = plan(split(5, 5), budget=10, per_update=1)
    cut = plan(split(5, 5), budget=9, per_update=1)
    assert whole.windows[0].record_digest == cut.windows[0].record_digest
    assert whole.windows[1].records == cut.windows[1].records
    assert whole.record_digest != cut.record_digest


def test_other_window_sizes_read_the_same_prefix() -> None:
    records = split(*range(1, 13))
    twos = plan(records, budget=70, per_update=2)
    fours = plan(records, budget=70, per_update=4)
    assert twos.windows[1].record_digest == fours.windows[0].record_digest
    assert twos.record_digest == fours.record_digest


def test_a_budget_beyond_the_allowed_epochs_is_refused_with_both_numbers() -> None:
    with pytest.raises(PlanError) as caught:
        plan(split(4, 6), budget=25, per_update=1, epochs=2)
    (fault,) = caught.value.faults
    assert fault.what == "the budget needs 3 epochs of the training split"
    assert fault.got == "25 target tokens = 2.50 epochs of 10"
    assert fault.expected == "at most 20 with data.max_epochs: 2"


def test_a_budget_of_exactly_the_allowed_epochs_is_accepted() -> None:
    assert plan(split(4, 6), budget=20, per_update=1, epochs=2).target_tokens == 20


@given(planned())
@settings(deadline=None)
def test_what_is_read_equals_the_budget_to_the_token(case: tuple[Counted, int, int, int]) -> None:
    records, budget, per_update, seed = case
    stream = plan(records, budget, per_update, seed)
    assert sum(targets(stream)) == budget
    assert stream.target_tokens == budget
    assert min(targets(stream)) > 0


@given(planned())
@settings(deadline=None)
def test_windows_are_whole_but_for_the_last(case: tuple[Counted, int, int, int]) -> None:
    records, budget, per_update, seed = case
    *whole, last = sizes(plan(records, budget, per_update, seed))
    assert whole == [per_update] * len(whole)
    assert not whole or per_update <= 2 * last < 3 * per_update


@given(planned())
@settings(deadline=None)
def test_only_the_last_record_is_cut_and_only_by_less_than_itself(
    case: tuple[Counted, int, int, int],
) -> None:
    records, budget, per_update, seed = case
    stream = plan(records, budget, per_update, seed)
    read = [record for window in stream.windows for record in window.records]
    surplus = int(records.target_counts[read].sum()) - budget
    assert stream.windows[-1].surplus_masked == surplus
    assert 0 <= surplus < records.target_counts[read[-1]]
    assert all(window.surplus_masked == 0 for window in stream.windows[:-1])


@given(planned(), st.integers(1, 12))
@settings(deadline=None)
def test_the_records_read_do_not_depend_on_the_window_size(
    case: tuple[Counted, int, int, int], other: int
) -> None:
    records, budget, per_update, seed = case
    one, two = plan(records, budget, per_update, seed), plan(records, budget, other, seed)
    assert one.record_digest == two.record_digest
    assert one.input_tokens == two.input_tokens


@given(counts_of_records, st.randoms(use_true_random=False), st.integers(0, 5))
@settings(deadline=None)
def test_the_order_does_not_depend_on_where_records_stand_in_the_file(
    counts: list[int], shuffler: object, seed: int
) -> None:
    names = tuple(f"record {index}" for index in range(len(counts)))
    moved = list(range(len(counts)))
    shuffler.shuffle(moved)  # type: ignore[attr-defined]
    other = split(*(counts[at] for at in moved), names=tuple(names[at] for at in moved))
    budget = max(1, sum(counts) * 3 // 2)
    one = plan(split(*counts, names=names), budget, 3, seed)
    two = plan(other, budget, 3, seed)
    assert [w.record_digest for w in one.windows] == [w.record_digest for w in two.windows]


# Lengths are the targets and two prompt tokens: 4, 5, 3 and so on.
def test_without_packing_each_record_is_a_row() -> None:
    stream = plan(split(2, 3, 1), budget=6, per_update=2)
    assert [window.rows for window in stream.windows] == [(1, 1), (1,)]
    assert (stream.rows, stream.records, stream.row_tokens) == (3, 3, None)


def test_windows_take_rows_when_records_are_packed() -> None:
    """Twelve records of 5 tokens, two to a row of 12, three rows to an update."""
    stream = plan(split(*[3] * 12), budget=36, per_update=3, row_tokens=12)
    assert [window.rows for window in stream.windows] == [(2, 2, 2), (2, 2, 2)]
    assert sizes(stream) == [6, 6]
    assert [window.first_record for window in stream.windows] == [0, 6]
    assert (stream.rows, stream.records, stream.row_tokens) == (6, 12, 12)


@pytest.mark.parametrize(
    ("records", "rows"),
    [(8, [4]), (9, [3, 2]), (10, [3, 2]), (7, [4])],
)
def test_the_tail_rule_counts_rows(records: int, rows: list[int]) -> None:
    """Two records to a row: 8 are four rows, and a tail of one row is less than half of three; 9
    are five, and a tail of two is more."""
    stream = plan(split(*[3] * records), budget=3 * records, per_update=3, row_tokens=12)
    assert [len(window.rows) for window in stream.windows] == rows


def test_rows_are_made_of_the_records_as_they_are_cut() -> None:
    """Records of 10 targets and 12 tokens; the budget cuts the second to 4 tokens, which fit beside
    the first in a row of 16."""
    stream = plan(split(10, 10), budget=12, per_update=4, row_tokens=16)
    assert stream.windows[0].rows == (2,)
    assert stream.windows[0].surplus_masked == 8
    assert stream.input_tokens == 16


def test_a_row_runs_on_into_the_next_epoch() -> None:
    stream = plan(split(3, 3, 3), budget=18, per_update=1, row_tokens=10)
    assert [window.rows for window in stream.windows] == [(2,), (2,), (2,)]
    assert [window.epochs for window in stream.windows] == [(1, 1), (1, 2), (2, 2)]


def test_a_record_that_fits_in_no_row_is_refused_though_it_would_not_be_read() -> None:
    """Otherwise it would depend on the seed whether a study can be planned."""
    with pytest.raises(PlanError, match="1 of 2 training records fit in no packed row"):
        plan(split(3, 30), budget=1, per_update=1, row_tokens=16)


@given(planned(), st.integers(42, 100))
@settings(deadline=None)
def test_packing_reads_the_same_records_and_meets_the_budget(
    case: tuple[Counted, int, int, int], row_tokens: int
) -> None:
    records, budget, per_update, seed = case
    plain = plan(records, budget, per_update, seed)
    packed = plan(records, budget, per_update, seed, row_tokens=row_tokens)
    assert read(packed) == read(plain)
    assert packed.record_digest == plain.record_digest
    assert (packed.target_tokens, packed.input_tokens) == (budget, plain.input_tokens)
    assert [sum(window.rows) for window in packed.windows] == sizes(packed)


@given(planned(), st.integers(42, 100))
@settings(deadline=None)
def test_packed_windows_are_whole_but_for_the_last(
    case: tuple[Counted, int, int, int], row_tokens: int
) -> None:
    records, budget, per_update, seed = case
    stream = plan(records, budget, per_update, seed, row_tokens=row_tokens)
    *whole, last = [len(window.rows) for window in stream.windows]
    assert whole == [per_update] * len(whole)
    assert not whole or per_update <= 2 * last < 3 * per_update
