"""Micro-batches: a few examples as tensors, in one of two forms.

Records are padded at the right, no longer than their longest, and a mask says what is padding.

The rows of a packed stream go end to end into one row without padding. Positions begin anew with
every document, and no mask is given: attention back-ends tell the documents apart by their
positions, and only when there is neither a two-dimensional mask nor a cache (`leak.py` proves that
they do).

Axes: b rows, t tokens, n supervised positions of the whole batch.
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
        token_ids_bt: Tokens, padded at the right; packed, one row of them.
        present_bt: 1 where a record has a token and 0 where there is padding. It comes from the
            records' lengths, never from a token id: a padding token may also be a real one. None
            when packed.
        positions_bt: Each token's place in its document, from 0; None unless packed.
        rows_n: Row of each target, record by record.
        columns_n: Position whose output predicts the target: the one before it.
        targets_n: The target tokens themselves.
    """

    token_ids_bt: Tensor
    present_bt: Tensor | None
    positions_bt: Tensor | None
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
        if self.present_bt is None:
            return 0
        return self.present_bt.numel() - int(self.present_bt.sum())

    def to(self, device: torch.device) -> Batch:
        """Returns the same batch on a device."""
        return Batch(
            token_ids_bt=self.token_ids_bt.to(device),
            present_bt=None if self.present_bt is None else self.present_bt.to(device),
            positions_bt=None if self.positions_bt is None else self.positions_bt.to(device),
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
            yield _lay_end_to_end(group) if group[0].is_packed else _pad(group, pad_token_id)


def _pad(examples: Sequence[Example], pad_token_id: int) -> Batch:
    assert not any(e.is_packed or len(e.documents) > 1 for e in examples), (
        "packed rows among others"
    )
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
        positions_bt=None,
        rows_n=torch.from_numpy(rows),
        columns_n=torch.from_numpy(columns - 1),
        targets_n=torch.from_numpy(token_ids[rows, columns]),
    )


def _lay_end_to_end(examples: Sequence[Example]) -> Batch:
    assert all(example.is_packed for example in examples), "other rows among packed ones"
    token_ids = np.concatenate([example.token_ids for example in examples]).astype(np.int64)
    supervised = np.concatenate([example.supervised for example in examples])
    lengths = [document.tokens for example in examples for document in example.documents]
    positions = np.concatenate([np.arange(length, dtype=np.int64) for length in lengths])
    assert len(positions) == len(token_ids), "the documents are not all of the row"
    assert not supervised[positions == 0].any(), (
        "what stands before a document's position 0 is another document"
    )
    (columns,) = np.nonzero(supervised)
    return Batch(
        token_ids_bt=torch.from_numpy(token_ids[None]),
        present_bt=None,
        positions_bt=torch.from_numpy(positions[None]),
        rows_n=torch.zeros(len(columns), dtype=torch.int64),
        columns_n=torch.from_numpy(columns - 1),
        targets_n=torch.from_numpy(token_ids[columns]),
    )
