from __future__ import annotations

import hashlib

import numpy as np
import pytest

from sweeper.data.holdout import held_out_subset
from sweeper.data.options import Packing
from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.data.stream import plan_stream
from sweeper.training.window import PlannedWindow
from sweeper.trial.windows import difference, held_out_sets, stream_of, training_windows

TOKENS = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]]
SUPERVISED = [[False, False, True, True], [False, True, True], [False, False, True, True, True]]


def record_digest(record):
    return hashlib.sha256(bytes(TOKENS[record])).hexdigest()


@pytest.fixture
def three_records(tmp_path):
    """Records with 2, 2 and 3 targets, the first two of one author."""
    rows = zip(TOKENS, SUPERVISED, strict=True)
    groups = [hashlib.sha256(b"author").digest()] * 2 + [None]
    records = [
        EncodedRecord(
            token_ids=t, supervised=s, digest=hashlib.sha256(bytes(t)).digest(), group=group
        )
        for (t, s), group in zip(rows, groups, strict=True)
    ]
    write_split(tmp_path / "train", records)
    return PreparedSplit.open(tmp_path, "train")


def test_windows_hold_the_records_of_the_stream_with_the_last_surplus_masked(three_records):
    """All 7 targets but the last: whatever record comes last, it loses its last target."""
    stream = plan_stream(
        three_records, seed=0, budget_target_tokens=6, records_per_update=2, max_epochs=1
    )

    windows = list(training_windows(three_records, stream))

    order = [record for window in stream.windows for record in window.records]
    examples = [example for window in windows for example in window.examples]
    last = TOKENS[order[2]]
    assert sorted(order) == [0, 1, 2]
    assert [e.token_ids.tolist() for e in examples] == [
        TOKENS[order[0]],
        TOKENS[order[1]],
        last[:-1],
    ]
    assert [window.target_tokens for window in windows] == [
        window.target_tokens for window in stream.windows
    ]
    assert sum(window.target_tokens for window in windows) == 6


def test_windows_carry_place_and_digest_of_the_stream(bench):
    split = PreparedSplit.open(bench.prepared, "train")
    stream = stream_of(bench.spec(budget=200), split)

    windows = list(training_windows(split, stream))

    assert [w.index for w in windows] == list(range(1, len(stream.windows) + 1))
    assert [w.first_record for w in windows[:3]] == [0, 4, 8]
    assert windows[-1].planned.record_digest == stream.record_digest
    assert sum(w.input_tokens for w in windows) == stream.input_tokens


def test_each_record_is_an_example_with_its_digest_its_group_and_its_tokens(three_records):
    """The first two records are of one group; the budget of 6 cuts the last target that is read."""
    stream = plan_stream(
        three_records, seed=0, budget_target_tokens=6, records_per_update=3, max_epochs=1
    )

    (window,) = training_windows(three_records, stream)

    order = stream.windows[0].records
    groups = [hashlib.sha256(b"author").hexdigest()] * 2 + [record_digest(2)]
    lengths = [len(TOKENS[record]) for record in order[:2]] + [len(TOKENS[order[2]]) - 1]
    assert [example.is_packed for example in window.examples] == [False] * 3
    assert [document.record for document in window.documents] == list(order)
    assert [d.digest for d in window.documents] == [record_digest(record) for record in order]
    assert [d.group for d in window.documents] == [groups[record] for record in order]
    assert [document.tokens for document in window.documents] == lengths


def test_packed_records_stand_end_to_end_in_a_row(three_records):
    """Lengths of 4, 3 and 5, in whatever order, go two and one, or one and two, into rows of 8."""
    stream = plan_stream(
        three_records,
        seed=0,
        budget_target_tokens=7,
        records_per_update=2,
        max_epochs=1,
        row_tokens=8,
    )

    (window,) = training_windows(three_records, stream)

    order = stream.windows[0].records
    assert [len(example.documents) for example in window.examples] == list(stream.windows[0].rows)
    assert [example.is_packed for example in window.examples] == [True, True]
    assert np.concatenate([e.token_ids for e in window.examples]).tolist() == [
        token for record in order for token in TOKENS[record]
    ]
    assert np.concatenate([e.supervised for e in window.examples]).tolist() == [
        target for record in order for target in SUPERVISED[record]
    ]
    assert [d.record for d in window.documents] == list(order)
    assert [d.tokens for d in window.documents] == [len(TOKENS[record]) for record in order]


def test_each_window_knows_what_the_plan_says_of_it(three_records):
    stream = plan_stream(
        three_records, seed=0, budget_target_tokens=6, records_per_update=1, max_epochs=1
    )

    windows = list(training_windows(three_records, stream))

    planned = [
        PlannedWindow(
            records=1,
            input_tokens=window.input_tokens,
            target_tokens=window.target_tokens,
            record_digest=window.record_digest,
        )
        for window in stream.windows
    ]
    assert [window.planned for window in windows] == planned
    assert [(w.input_tokens, w.target_tokens) for w in windows] == [
        (window.input_tokens, window.target_tokens) for window in stream.windows
    ]


@pytest.mark.parametrize("packing", [None, Packing(row_tokens=30)])
def test_windows_after_a_break_are_those_that_would_have_come(bench, packing):
    """wyim-pgl/transgenic #59: the loader shuffled anew, and 15 of the next 20 samples were wrong.
    Six epochs of 40 records; the break is after window 13, in the second."""
    spec = bench.spec(budget=1200, packing=packing)
    split = PreparedSplit.open(bench.prepared, "train")
    stream = stream_of(spec, split)

    rest = list(training_windows(split, stream, after_window=13))

    whole = list(training_windows(split, stream))
    assert [window.index for window in rest] == [window.index for window in whole[13:]]
    assert [w.documents for w in rest] == [w.documents for w in whole[13:]]
    assert [w.planned for w in rest] == [w.planned for w in whole[13:]]
    assert rest[0].first_record == sum(len(w.documents) for w in whole[:13])


def test_a_packed_spec_gives_packed_windows_and_held_out_sets_that_are_not(bench):
    spec = bench.spec(budget=200, packing=Packing(row_tokens=30))
    split = PreparedSplit.open(bench.prepared, "train")

    windows = list(training_windows(split, stream_of(spec, split)))

    rows = [example for window in windows for example in window.examples]
    held_out = [
        each for s in held_out_sets(bench.prepared, max_records=None) for each in s.examples
    ]
    assert all(example.is_packed and example.input_tokens <= 30 for example in rows)
    assert max(len(example.documents) for example in rows) > 1
    assert not any(example.is_packed for example in held_out)
    assert {len(example.documents) for example in held_out} == {1}


def test_the_rows_of_a_packed_stream_are_part_of_the_plan(bench):
    split = PreparedSplit.open(bench.prepared, "train")
    plain = bench.spec(budget=200)
    stream = stream_of(plain.model_copy(update={"packing": Packing(row_tokens=30)}), split)

    sentence = difference(plain.planned, stream)

    packed = bench.spec(budget=200, packing=Packing(row_tokens=30))
    assert difference(packed.planned, stream) is None
    assert sentence is not None
    assert f"rows is {stream.rows}, planned None" in sentence


def test_a_stream_as_planned_has_no_difference(bench):
    spec = bench.spec(budget=200)

    stream = stream_of(spec, PreparedSplit.open(bench.prepared, "train"))

    assert difference(spec.planned, stream) is None


def test_each_planned_number_that_differs_is_named(bench):
    spec = bench.spec(budget=200)
    stream = stream_of(spec, PreparedSplit.open(bench.prepared, "train"))
    planned = spec.planned.model_copy(update={"windows": 1, "record_digest": "00"})

    sentence = difference(planned, stream)

    assert f"windows is {len(stream.windows)}, planned 1" in sentence
    assert f"record_digest is {stream.record_digest}, planned 00" in sentence
    assert "target_tokens" not in sentence


def test_held_out_sets_are_whole_and_validation_comes_first(bench):
    sets = held_out_sets(bench.prepared, max_records=None)

    split = PreparedSplit.open(bench.prepared, "validation")
    assert [(s.split, len(s.examples)) for s in sets] == [("validation", 12), ("retention", 5)]
    assert sets[0].set_digest == split.records_digest
    assert sets[0].examples[3].token_ids.tolist() == split.example(3)[0].tolist()


def test_a_limited_set_is_the_hashed_subset_and_has_its_digest(bench):
    validation = held_out_sets(bench.prepared, max_records=4)[0]

    split = PreparedSplit.open(bench.prepared, "validation")
    chosen = held_out_subset(split.digests, 4)
    expected = hashlib.sha256(b"".join(split.digests[i].tobytes() for i in chosen)).hexdigest()
    assert validation.set_digest == expected
    assert [e.token_ids.tolist() for e in validation.examples] == [
        split.example(int(i))[0].tolist() for i in chosen
    ]
    assert np.all(np.diff(chosen) > 0)
