"""The fixed subset of a held-out split."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from sweeper.data.holdout import held_out_subset


def digests(*names: str) -> NDArray[np.uint8]:
    joined = b"".join(hashlib.sha256(name.encode()).digest() for name in names)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(names), 32)


def test_without_a_limit_every_record_is_scored_in_its_order() -> None:
    assert held_out_subset(digests("a", "b", "c"), None).tolist() == [0, 1, 2]


def test_a_limit_above_the_number_of_records_keeps_all_of_them() -> None:
    assert held_out_subset(digests("a", "b"), 5).tolist() == [0, 1]


def test_a_limit_keeps_that_many_records_ascending() -> None:
    chosen = held_out_subset(digests(*"abcdefgh"), 3).tolist()
    assert len(chosen) == 3
    assert chosen == sorted(chosen)


def test_the_choice_follows_the_records_and_not_their_order() -> None:
    names = np.array(list("abcdefgh"))
    turned = names[::-1]
    chosen = set(names[held_out_subset(digests(*names), 3)])
    assert set(turned[held_out_subset(digests(*turned), 3)]) == chosen


def test_a_smaller_limit_keeps_a_part_of_what_a_larger_one_keeps() -> None:
    records = digests(*"abcdefgh")
    assert set(held_out_subset(records, 2)) < set(held_out_subset(records, 5))
