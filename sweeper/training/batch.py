"""Micro-batches: a few examples as padded tensors, no longer than their longest record.

Axes: b records, t tokens, n supervised positions of the whole batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sweeper.training.window import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one forward pass sees.

    Attributes:
        token_ids_bt: Tokens, padded at the right.
        present_bt: 1 where a record has a token and 0 where there is padding. It comes from the
            records' lengths, never from a token id: a padding token may also be a real one.
        rows_n: Row of each target, record by record.
        columns_n: Position whose output predicts the target: the one before it.
        targets_n: The target tokens themselves.
    """

    token_ids_bt: Tensor
    present_bt: Tensor
    rows_n: Tensor
    columns_n: Tensor
    targets_n: Tensor

    @property
    def target_tokens(self) -> int:
        """Number of targets."""
        return len(self.targets_n)

    @property
    def padding_tokens(self) -> int:
        """Positions that are computed for nothing."""
        return self.present_bt.numel() - int(self.present_bt.sum())

    def to(self, device: torch.device) -> Batch:
        """Returns the same batch on a device."""
        return Batch(
            token_ids_bt=self.token_ids_bt.to(device),
            present_bt=self.present_bt.to(device),
            rows_n=self.rows_n.to(device),
            columns_n=self.columns_n.to(device),
            targets_n=self.targets_n.to(device),
        )


def make_batches(
    examples: Iterable[Example], micro_batch: int, pad_token_id: int
) -> Iterator[Batch]:
    """Yields the examples in order, `micro_batch` at a time; the last batch may be smaller.

    Batches without any target are left out: they would add nothing to loss or gradient.
    """
    unread = iter(examples)
    while group := list(itertools.islice(unread, micro_batch)):
        if any(example.target_tokens for example in group):
            yield _pad(group, pad_token_id)


def _pad(examples: Sequence[Example], pad_token_id: int) -> Batch:
    shape = len(examples), max(len(example.token_ids) for example in examples)
    token_ids = np.full(shape, pad_token_id, dtype=np.int64)
    present = np.zeros(shape, dtype=np.int64)
    supervised = np.zeros(shape, dtype=np.bool_)
    for row, example in enumerate(examples):
        length = len(example.token_ids)
        token_ids[row, :length] = example.token_ids
        present[row, :length] = 1
        supervised[row, :length] = example.supervised
    assert not supervised[:, 0].any(), "nothing stands before position 0 that could predict it"
    rows, columns = np.nonzero(supervised)
    return Batch(
        token_ids_bt=torch.from_numpy(token_ids),
        present_bt=torch.from_numpy(present),
        rows_n=torch.from_numpy(rows),
        columns_n=torch.from_numpy(columns - 1),
        targets_n=torch.from_numpy(token_ids[rows, columns]),
    )
