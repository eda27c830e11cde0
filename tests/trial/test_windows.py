from __future__ import annotations

import hashlib

import numpy as np
import pytest

from sweeper.data.holdout import held_out_subset
from sweeper.data.prepared import EncodedRecord, PreparedSplit, write_split
from sweeper.data.stream import plan_stream
from sweeper.trial.windows import difference, held_out_sets, stream_of, training_windows

TOKENS = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]]
SUPERVISED = [[False, False, True, True], [False, True, True], [False, False, True, True, True]]


@pytest.fixture
def three_records(tmp_path):
    """Records with 2, 2 and 3 targets."""
    rows = zip(TOKENS, SUPERVISED, strict=True)
    records = [
        EncodedRecord(token_ids=t, supervised=s, digest=hashlib.sha256(bytes(t)).digest())
        for t, s in rows
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
    assert windows[-1].record_digest == stream.record_digest
    assert sum(w.input_tokens for w in windows) == stream.input_tokens


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
