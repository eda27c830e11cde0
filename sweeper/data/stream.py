"""The one stream of records that every arm of a seed reads, cut where the budget ends. Pure.

All epochs form one stream. Within an epoch records are ordered by the SHA-256 of (seed, epoch,
record digest), so the order depends on what the records say and not on where they stand in a
file; records with one digest keep their file order. Windows take `records_per_update` records
and cross epoch borders.

The stream ends with the record in which the budget is reached. Targets of that record beyond the
budget are its surplus: the last ones, which are masked. Nothing after the last kept target can
change its loss, so the record is cut off right behind that target; `without_surplus` does it.

With packing, the records that are left after the cut are laid into rows (see `packing.py`), and
windows take `records_per_update` rows; without, a record is a row of its own.

A tail of less than half a window joins the window before it; half a window or more is a short
window of its own; a stream shorter than a window is one window.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sweeper.data.packing import next_fit, refuse_long_records
from sweeper.errors import Fault, PlanError
from sweeper.records import EMPTY_DIGEST, chain_digest


class StreamRecords(Protocol):
    """What is known of a training split before it is read; `PreparedSplit` is one."""

    @property
    def digests(self) -> NDArray[np.uint8]:
        """SHA-256 of each canonical record, `[records, 32]`."""
        ...

    @property
    def target_counts(self) -> NDArray[np.int64]:
        """Targets per record, each above zero, `[records]`."""
        ...

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per record, `[records]`."""
        ...

    def length_to_target(self, index: int, target: int) -> int:
        """Returns the tokens of a record up to and with its `target`-th target, from 1."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWindow:
    """The records of one planned update.

    Attributes:
        index: From 1.
        first_record: Position in the stream of the first record, from 0.
        records: Indices into the split, in the order in which they are read.
        rows: How many of them are in each row, in order; without packing each is a row.
        epochs: The epoch of each of them, from 1.
        target_tokens: Targets that are read, the surplus left out.
        input_tokens: Tokens that are read, padding and what follows the last kept target left out.
        record_digest: Rolling SHA-256 of all records read up to and with this window, see
            `records.chain_digest`, hexadecimal. It does not depend on where windows end, so streams
            of other window sizes can be compared.
        surplus_masked: Targets masked at the end of the last record; above zero only in the
            last window.
    """

    index: int
    first_record: int
    records: tuple[int, ...]
    rows: tuple[int, ...]
    epochs: tuple[int, ...]
    target_tokens: int
    input_tokens: int
    record_digest: str
    surplus_masked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """All windows of a cell, in order; there is at least one.

    Attributes:
        row_tokens: What a packed row holds at most; None without packing.
    """

    windows: tuple[StreamWindow, ...]
    row_tokens: int | None = None

    @property
    def records(self) -> int:
        """Records read, an epoch's repetition counted again."""
        return sum(len(window.records) for window in self.windows)

    @property
    def rows(self) -> int:
        """Rows read; without packing, as many as records."""
        return sum(len(window.rows) for window in self.windows)

    @property
    def target_tokens(self) -> int:
        """Target tokens read: the budget."""
        return sum(window.target_tokens for window in self.windows)

    @property
    def input_tokens(self) -> int:
        """Tokens read, padding left out."""
        return sum(window.input_tokens for window in self.windows)

    @property
    def last_window_target_tokens(self) -> int:
        """Target tokens of the last window."""
        return self.windows[-1].target_tokens

    @property
    def record_digest(self) -> str:
        """The rolling digest after the last window."""
        return self.windows[-1].record_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The stream before it is divided: one entry per record read."""

    records: NDArray[np.int64]
    epochs: NDArray[np.int64]
    targets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    surplus: int


def plan_stream(
    split: StreamRecords,
    *,
    seed: int,
    budget_target_tokens: int,
    records_per_update: int,
    max_epochs: int,
    row_tokens: int | None = None,
) -> Stream:
    """Returns the windows whose target tokens add up to the budget exactly.

    Args:
        records_per_update: Records of a window; rows of it with packing.
        row_tokens: What a packed row holds at most; None: no packing.

    Raises:
        PlanError: The budget needs more than `max_epochs` epochs, or a record fits in no row.
    """
    assert budget_target_tokens > 0
    assert records_per_update > 0
    assert len(split.target_counts) > 0
    assert int(split.target_counts.min()) > 0, "records without targets are dropped when preparing"
    _check_epochs(int(split.target_counts.sum()), budget_target_tokens, max_epochs)
    if row_tokens is not None:
        refuse_long_records(split.lengths, row_tokens)
    reads = _cut(split, seed=seed, budget=budget_target_tokens)
    rows = _rows(reads, row_tokens)
    bounds = window_bounds(len(rows), records_per_update)
    windows = _windows(split.digests, reads, rows, bounds)
    return Stream(windows=tuple(windows), row_tokens=row_tokens)


def epoch_order(digests: NDArray[np.uint8], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Returns the records of one epoch in the order in which they are read, `[records]`."""
    head = f"{seed} {epoch} ".encode()
    keys = [hashlib.sha256(head + digest.tobytes()).digest() for digest in digests]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def window_bounds(rows: int, rows_per_update: int) -> list[int]:
    """Returns where windows begin and end: bounds[w] to bounds[w + 1] is window w.

    Args:
        rows: Rows of the stream; without packing its records.
        rows_per_update: Rows of a whole window.
    """
    bounds = list(range(0, rows, rows_per_update))
    tail = rows - bounds[-1]
    if len(bounds) > 1 and 2 * tail < rows_per_update:
        bounds.pop()
    return [*bounds, rows]


def without_surplus(
    token_ids: NDArray[np.int32], supervised: NDArray[np.bool_], surplus: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Returns a record cut off behind its last target once its last `surplus` targets are masked.

    Args:
        token_ids: `[tokens]`.
        supervised: `[tokens]`; holds more than `surplus` targets.
    """
    if surplus == 0:
        return token_ids, supervised
    length = int(np.flatnonzero(supervised)[-surplus - 1]) + 1
    return token_ids[:length], supervised[:length]


def _check_epochs(epoch_tokens: int, budget: int, max_epochs: int) -> None:
    needed = -(-budget // epoch_tokens)
    if needed <= max_epochs:
        return
    raise PlanError(
        Fault(
            what=f"the budget needs {needed} epochs of the training split",
            where="budget",
            got=f"{budget} target tokens = {budget / epoch_tokens:.2f} epochs of {epoch_tokens}",
            expected=f"at most {max_epochs * epoch_tokens} with data.max_epochs: {max_epochs}",
            hint=f"Lower the budget, or allow the repetition with data.max_epochs: {needed}",
        )
    )


def _cut(split: StreamRecords, *, seed: int, budget: int) -> _Reads:
    """Returns the records up to the one in which the budget is reached, the surplus taken off."""
    epochs = -(-budget // int(split.target_counts.sum()))
    orders = [epoch_order(split.digests, seed=seed, epoch=epoch) for epoch in range(1, epochs + 1)]
    order = np.concatenate(orders)
    read = np.cumsum(split.target_counts[order], dtype=np.int64)
    count = int(np.searchsorted(read, budget, side="left")) + 1
    records = order[:count]
    targets = split.target_counts[records].astype(np.int64)
    lengths = split.lengths[records].astype(np.int64)
    surplus = int(read[count - 1]) - budget
    if surplus:
        targets[-1] -= surplus
        lengths[-1] = split.length_to_target(int(records[-1]), int(targets[-1]))
    return _Reads(
        records=records,
        epochs=np.arange(count, dtype=np.int64) // len(split.digests) + 1,
        targets=targets,
        lengths=lengths,
        surplus=surplus,
    )


def _rows(reads: _Reads, row_tokens: int | None) -> list[int]:
    """Returns the number of records in each row."""
    if row_tokens is None:
        return [1] * len(reads.records)
    return next_fit(reads.lengths.tolist(), row_tokens)


def _windows(
    digests: NDArray[np.uint8], reads: _Reads, rows: list[int], bounds: list[int]
) -> Iterator[StreamWindow]:
    rolling = EMPTY_DIGEST
    starts = [0, *itertools.accumulate(rows)]
    for index, (first_row, end_row) in enumerate(itertools.pairwise(bounds), start=1):
        begin, end = starts[first_row], starts[end_row]
        for position in range(begin, end):
            record = digests[reads.records[position]].tobytes()
            rolling = chain_digest(rolling, record, int(reads.targets[position]))
        yield StreamWindow(
            index=index,
            first_record=begin,
            records=tuple(reads.records[begin:end].tolist()),
            rows=tuple(rows[first_row:end_row]),
            epochs=tuple(reads.epochs[begin:end].tolist()),
            target_tokens=int(reads.targets[begin:end].sum()),
            input_tokens=int(reads.lengths[begin:end].sum()),
            record_digest=rolling.hex(),
            surplus_masked=reads.surplus if end_row == bounds[-1] else 0,
        )
