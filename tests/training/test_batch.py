"""Padding by length, targets one position on."""

import numpy as np
import pytest

from sweeper.training.batch import make_batches
from sweeper.training.window import Example


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
    examples = [build.example([1] * 12)] * 4
    (batch,) = batches(build, examples=examples, micro_batch=4)
    assert batch.target_tokens == 44


def test_a_batch_without_targets_is_not_computed(build):
    silent = build.example([1, 2, 3], targets=[])
    speaking = build.example([1, 2], targets=[1])
    found = batches(build, examples=[silent, silent, silent, speaking, silent])
    assert [batch.target_tokens for batch in found] == [1]


def test_a_target_at_position_zero_is_a_broken_record():
    broken = Example(token_ids=np.array([1, 2], dtype=np.int32), supervised=np.array([True, True]))
    with pytest.raises(AssertionError, match="position 0"):
        list(make_batches([broken], 1, 0))
