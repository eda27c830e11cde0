"""A record that is left out leaves everything else in its place."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from sweeper.errors import NotFound
from sweeper.training.window import Document, Example, PlannedWindow, Window
from sweeper.trial.replay.leaving_out import find_record, reads, windows_without

PAD = 63


def document(record, tokens):
    digest = hashlib.sha256(str(record).encode()).hexdigest()
    return Document(record=record, digest=digest, group=digest, tokens=tokens)


def row(*documents, is_packed=False):
    """Every token of a document is its record's number; all but the first are targets."""
    return Example(
        token_ids=np.concatenate([np.full(d.tokens, d.record, np.int32) for d in documents]),
        supervised=np.concatenate([np.arange(d.tokens) > 0 for d in documents]),
        documents=documents,
        is_packed=is_packed,
    )


def window(index, *examples):
    targets = sum(example.target_tokens for example in examples)
    planned = PlannedWindow(
        records=sum(len(example.documents) for example in examples),
        input_tokens=sum(example.input_tokens for example in examples),
        target_tokens=targets,
        record_digest="as it was",
    )
    return Window(index=index, first_record=0, examples=examples, planned=planned)


A, B, C = document(1, 3), document(2, 2), document(12, 4)


def chain(*read):
    """Returns the rolling digest of (record, targets read), worked out here."""
    digest = bytes(32)
    for record, targets in read:
        digest = hashlib.sha256(
            digest + bytes.fromhex(record.digest) + targets.to_bytes(8, "little")
        ).digest()
    return digest.hex()


def without(record, *windows):
    return list(windows_without(record, windows, record_digest=bytes(32).hex(), pad_token_id=PAD))


def test_its_tokens_become_padding_without_targets_in_their_place():
    (left,) = without(A, window(1, row(A), row(B)))

    assert [e.token_ids.tolist() for e in left.examples] == [[PAD, PAD, PAD], [2, 2]]
    assert [e.supervised.tolist() for e in left.examples] == [[False] * 3, [False, True]]
    assert [e.token_ids.dtype for e in left.examples] == [np.int32, np.int32]


def test_of_a_packed_row_its_part_alone_is_left_out():
    (left,) = without(B, window(1, row(A, B, C, is_packed=True)))

    assert left.examples[0].token_ids.tolist() == [1, 1, 1, PAD, PAD, 12, 12, 12, 12]
    assert left.examples[0].targets_by_document == (2, 0, 3)
    assert left.examples[0].is_packed


def test_the_plan_of_every_later_window_fits_what_is_read():
    """A has 2 targets, B 1, C 3; the chain goes on from what was read before."""
    first, second = without(B, window(1, row(A), row(B)), window(2, row(C)))

    assert (first.planned.target_tokens, second.planned.target_tokens) == (2, 3)
    assert first.planned.record_digest == chain((A, 2), (B, 0))
    assert second.planned.record_digest == chain((A, 2), (B, 0), (C, 3))
    assert (first.planned.records, first.planned.input_tokens) == (2, 5)


def test_it_is_left_out_wherever_it_is_read():
    left = without(A, window(1, row(A), row(B)), window(2, row(A)))

    assert [w.target_tokens for w in left] == [1, 0]


def test_the_windows_themselves_stay_as_they_were():
    original = window(1, row(A))

    without(A, original)

    assert original.examples[0].token_ids.tolist() == [1, 1, 1]


@pytest.mark.parametrize("named", ["12", C.digest, C.digest[:6], C.digest[:6].upper()])
def test_a_record_is_meant_by_its_index_or_by_how_its_digest_begins(named):
    assert find_record(named, [window(1, row(A), row(B)), window(2, row(C))]) == C


@pytest.mark.parametrize("named", ["7", "zz", "0" * 64])
def test_a_record_that_no_replayed_window_reads_is_refused(named):
    with pytest.raises(NotFound, match="no replayed window reads this record"):
        find_record(named, [window(1, row(A))])


def test_a_beginning_that_fits_several_is_refused():
    """The digests of both begin with nothing at all."""
    with pytest.raises(NotFound, match="several records begin so"):
        find_record("", [window(1, row(A), row(B))])


def test_a_record_that_is_read_twice_is_one_record():
    assert find_record("1", [window(1, row(A)), window(2, row(A))]) == A


def test_windows_know_which_records_they_read():
    assert reads(A, window(1, row(A, B, is_packed=True)))
    assert not reads(C, window(1, row(A, B, is_packed=True)))
