"""The loss of each record of a held-out split, as a Parquet file for whoever compares records."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sweeper.files import write_whole
from sweeper.training.window import HeldOutSet


def write_per_record(file: Path, held_out: HeldOutSet, loss_sums: NDArray[np.float64]) -> str:
    """Writes digest, group, target tokens and summed loss of each record; returns the SHA-256.

    Args:
        file: Its folder is made where it is not there.
        loss_sums: Nats, `[records]`, in the set's order.

    Raises:
        OSError: It cannot be written.
    """
    documents = [example.documents[0] for example in held_out.examples]
    table = pa.table(
        {
            "digest": [document.digest for document in documents],
            "group": [document.group for document in documents],
            "target_tokens": pa.array(
                [example.target_tokens for example in held_out.examples], pa.int64()
            ),
            "loss_sum": pa.array(loss_sums, pa.float64()),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, buffer.getvalue(), durable=False)
    return hashlib.sha256(buffer.getvalue()).hexdigest()
