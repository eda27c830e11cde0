"""Next-fit packing: which records of the stream share a row. Pure.

Records keep their order. A row takes records until the next one does not fit, and is then closed
for good: so a row depends on nothing that comes after it, and equal streams give equal rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sweeper.errors import Fault, PlanError


def next_fit(lengths: Iterable[int], row_tokens: int) -> list[int]:
    """Returns the number of records in each row, in the order of the stream.

    Args:
        lengths: Tokens per record, each of at most `row_tokens`.
        row_tokens: What a row holds at most; what is left of it stays empty.
    """
    rows: list[int] = []
    free = 0
    for length in lengths:
        assert 0 < length <= row_tokens, "a record is never split over rows"
        if length > free:
            rows.append(0)
            free = row_tokens
        rows[-1] += 1
        free -= length
    return rows


def refuse_long_records(lengths: NDArray[np.int64], row_tokens: int) -> None:
    """Refuses a split with a record that no row can hold, whether or not it would be read.

    Raises:
        PlanError: There is one.
    """
    count, longest = int((lengths > row_tokens).sum()), int(lengths.max())
    if count:
        raise PlanError(
            Fault(
                what=f"{count} of {len(lengths)} training records fit in no packed row",
                where="data.packing.row_tokens",
                got=f"rows of {row_tokens} tokens, a record of {longest}",
                expected=f"at least {longest}",
                hint="Raise data.packing.row_tokens to data.max_length, or lower data.max_length",
            )
        )
