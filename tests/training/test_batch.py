"""Padding by length or rows end to end, and targets one position on."""

import dataclasses

import numpy as np
import pytest
import torch

from sweeper.training.batch import make_batches


def batches(build, *, examples, micro_batch=2, pad_token_id=0):
    return list(make_batches(examples, micro_batch, pad_token_id))


def test_batches_are_no_longer_than_their_longest_record(build):
    examples = [build.example(range(length)) for length in (3, 5, 2)]
    found = batches(build, examples=examples)
    assert [tuple(batch.token_ids_bt.shape) for batch in found] == [(2, 5), (1, 2)]
    assert [batch.padding_tokens for batch in found] == [2, 0]


def test_a_target_is_predicted_from_the_position_before_it(build):
    (batch,) = batches(build, examples=[build.example([5, 6, 7, 8], targets=[2, 3])])
    assert batch.columns_n.tolist() == [1, 2]
    assert batch.targets_n.tolist() == [7, 8]


def test_a_final_end_token_that_is_also_the_padding_token_stays_a_target(build):
    """Answers `a b <eos>` and `a <eos>`, <eos> = 9 = padding: a b eos / a eos, and no more."""
    examples = [build.example([1, 2, 3, 9]), build.example([1, 2, 9])]
    (batch,) = batches(build, examples=examples, pad_token_id=9)
    assert batch.targets_n.tolist() == [2, 3, 9, 2, 9]
    assert batch.present_bt.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_four_records_of_twelve_supervised_tokens_have_forty_four_targets(build):
    """R27: 44, not 48: the first token of a record is no target."""
    examples = [build.example([1] * 12)] * 4
    (batch,) = batches(build, examples=examples, micro_batch=4)
    assert batch.target_tokens == 44


def test_a_batch_without_targets_is_not_computed(build):
    silent = build.example([1, 2, 3], targets=[])
    speaking = build.example([1, 2], targets=[1])
    found = batches(build, examples=[silent, silent, silent, speaking, silent])
    assert [batch.target_tokens for batch in found] == [1]


def test_a_target_at_position_zero_is_a_broken_record(build):
    broken = dataclasses.replace(build.example([1, 2]), supervised=np.array([True, True]))
    with pytest.raises(AssertionError, match="position 0"):
        list(make_batches([broken], 1, 0))


def test_packed_rows_are_one_row_in_which_positions_begin_anew_with_every_document(build):
    """Two rows to a batch; documents of 3 and 2 tokens, then one of 4."""
    rows = [
        build.packed(build.example([1, 2, 3]), build.example([4, 5])),
        build.packed(build.example([6, 7, 8, 9])),
    ]
    (batch,) = batches(build, examples=rows)
    assert batch.token_ids_bt.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert batch.positions_bt.tolist() == [[0, 1, 2, 0, 1, 0, 1, 2, 3]]
    assert batch.rows_n.tolist() == [0] * 6
    assert batch.columns_n.tolist() == [0, 1, 3, 5, 6, 7]
    assert batch.targets_n.tolist() == [2, 3, 5, 7, 8, 9]


def test_packed_rows_have_no_mask_and_no_padding(build):
    """huggingface/transformers PR #46634: a two-dimensional mask undoes the separation, even one
    that masks nothing."""
    rows = [build.packed(build.example([1, 2, 3])), build.packed(build.example([1, 2]))]
    (batch,) = batches(build, examples=rows)
    assert batch.present_bt is None
    assert batch.padding_tokens == 0
    assert batch.to(torch.device("cpu")).present_bt is None


def test_padded_records_have_a_mask_and_no_positions(build):
    (batch,) = batches(build, examples=[build.example([1, 2, 3])])
    assert batch.positions_bt is None
    assert batch.to(torch.device("cpu")).present_bt.tolist() == [[1, 1, 1]]


def test_two_packed_documents_of_six_supervised_tokens_have_ten_targets(build):
    """R27: shifting the row as a whole would give 11, one of them predicted from the document
    before."""
    row = build.packed(build.example([1] * 6), build.example([2] * 6))
    (batch,) = batches(build, examples=[row])
    assert batch.target_tokens == 10
    assert batch.columns_n.tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_document_of_which_nothing_is_supervised_is_context_for_nobody(build):
    row = build.packed(build.example([1, 2, 3], targets=[]), build.example([4, 5, 6], targets=[2]))
    (batch,) = batches(build, examples=[row])
    assert batch.columns_n.tolist() == [4]
    assert batch.positions_bt[0, batch.columns_n].tolist() == [1]


def test_packed_rows_are_taken_a_micro_batch_at_a_time(build):
    rows = [build.packed(build.example([n, n]), build.example([n, n])) for n in range(3)]
    found = batches(build, examples=rows)
    assert [tuple(batch.token_ids_bt.shape) for batch in found] == [(1, 8), (1, 4)]


def test_a_packed_document_whose_first_token_is_a_target_is_a_broken_row(build):
    """The position before it belongs to another document."""
    row = build.packed(build.example([1, 2]), build.example([3, 4]))
    supervised = np.array([False, True, True, True])
    broken = dataclasses.replace(row, supervised=supervised)
    with pytest.raises(AssertionError, match="another document"):
        list(make_batches([broken], 1, 0))


def test_a_row_that_is_more_than_its_documents_is_broken(build):
    row = build.packed(build.example([1, 2]), build.example([3, 4]))
    broken = dataclasses.replace(row, documents=row.documents[:1])
    with pytest.raises(AssertionError, match="not all of the row"):
        list(make_batches([broken], 1, 0))


def test_packed_and_other_rows_are_not_mixed(build):
    plain, row = build.example([1, 2]), build.packed(build.example([3, 4]))
    with pytest.raises(AssertionError, match="packed rows among others"):
        list(make_batches([plain, row], 2, 0))
    with pytest.raises(AssertionError, match="other rows among packed ones"):
        list(make_batches([row, plain], 2, 0))


def test_several_documents_in_a_row_that_is_not_packed_are_refused(build):
    """They would read across their border without a word."""
    row = build.packed(build.example([1, 2]), build.example([3, 4]))
    with pytest.raises(AssertionError, match="packed rows among others"):
        list(make_batches([dataclasses.replace(row, is_packed=False)], 1, 0))
