"""Windows without one of their records. Numpy only.

The record's tokens become padding without targets, in their place: the shapes of all tensors, and
with them the random numbers that dropout draws for the other records, stay what they were. Only a
micro-batch that has no target left is not computed at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from sweeper.errors import Fault, NotFound
from sweeper.training.exposure import chained
from sweeper.training.window import Document, Example, PlannedWindow, Window

_DIGITS_OF_AN_INDEX = 12


def find_record(named: str, windows: Iterable[Window]) -> Document:
    """Returns the one record of the windows that a user means.

    Args:
        named: Its index in the training split, or the first characters of its digest.

    Raises:
        NotFound: None of them is meant, or several.
    """
    documents = {d.digest: d for window in windows for d in window.documents}
    by_index = named.isdecimal() and len(named) <= _DIGITS_OF_AN_INDEX
    found = [
        document
        for document in documents.values()
        if (by_index and document.record == int(named))
        or (not by_index and document.digest.startswith(named.lower()))
    ]
    if len(found) == 1:
        return found[0]
    raise NotFound(
        Fault(
            what="several records begin so" if found else "no replayed window reads this record",
            where="--without-record",
            got=named,
            expected="the index of a record in the training split, or the beginning of its digest",
            hint="`evidence/anomaly.json` in the attempt's folder names the records of the last"
            " window; --windows N replays more of them",
        )
    )


def windows_without(
    record: Document, windows: Iterable[Window], *, record_digest: str, pad_token_id: int
) -> Iterator[Window]:
    """Yields the windows, the record left out, with a plan that fits.

    Args:
        record_digest: Rolling digest before the first of the windows, hexadecimal.
    """
    for window in windows:
        examples = [_without(record, example, pad_token_id) for example in window.examples]
        left = dataclasses.replace(window, examples=examples)
        record_digest = chained(record_digest, left)
        yield dataclasses.replace(
            left,
            planned=PlannedWindow(
                records=window.planned.records,
                input_tokens=window.planned.input_tokens,
                target_tokens=left.target_tokens,
                record_digest=record_digest,
            ),
        )


def reads(record: Document, window: Window) -> bool:
    """Tells whether the record is one of the window's."""
    return any(document.digest == record.digest for document in window.documents)


def _without(record: Document, example: Example, pad_token_id: int) -> Example:
    is_left_out = np.repeat(
        [document.digest == record.digest for document in example.documents],
        [document.tokens for document in example.documents],
    )
    return dataclasses.replace(
        example,
        token_ids=np.where(is_left_out, np.int32(pad_token_id), example.token_ids),
        supervised=example.supervised & ~is_left_out,
    )
