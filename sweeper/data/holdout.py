"""Which records of a held-out split are scored when their number is limited. Pure."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def held_out_subset(digests: NDArray[np.uint8], max_records: int | None) -> NDArray[np.int64]:
    """Returns the indices of the records that every evaluation scores, ascending.

    The choice depends on what the records say, so it is the same in every trial and does not
    follow the order of the file.

    Args:
        digests: `[records, 32]`, one SHA-256 per record.
        max_records: None keeps all of them.
    """
    count = len(digests)
    if max_records is None or max_records >= count:
        return np.arange(count, dtype=np.int64)
    keys = [hashlib.sha256(b"held out " + digest.tobytes()).digest() for digest in digests]
    chosen = sorted(range(count), key=keys.__getitem__)[:max_records]
    return np.array(sorted(chosen), dtype=np.int64)
