"""The loss of every single record at every evaluation, from the files that trials left."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from sweeper.errors import Fault, RunFolderError
from sweeper.report.columns import RECORD_LOSSES, dtypes_of
from sweeper.report.recorded import check_trial, reading, run_folder
from sweeper.store.reading import Row


def record_losses(study: str | Path, trial: str | None = None) -> pd.DataFrame:
    """Returns one row per held-out record and evaluation, of one trial or of all.

    `loss_sum` / `target_tokens` is a record's loss in nats per target token; the sums over a split
    make the loss that `evaluations` has.

    Raises:
        NotFound: There is no such study or trial.
        RunFolderError: A file is gone, or is not what the trial wrote; all such files are named.
    """
    folder = run_folder(study).path
    with reading(study) as store:
        rows = store.evaluations(check_trial(store, trial))
    return _frame(folder, [row for row in rows if row["per_record_path"] is not None])


def _frame(folder: Path, rows: Sequence[Row]) -> pd.DataFrame:
    contents = [(row, recorded_bytes(folder, row)) for row in rows]
    faults = [content for _, content in contents if isinstance(content, Fault)]
    if faults:
        raise RunFolderError(*faults)
    types = dtypes_of(RECORD_LOSSES)
    nothing = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in types.items()})
    parts = [nothing, *(_part(row, each) for row, each in contents if isinstance(each, bytes))]
    return pd.concat([part.astype(types) for part in parts], ignore_index=True)


def recorded_bytes(folder: Path, row: Mapping[str, object]) -> bytes | Fault:
    """Returns the file's bytes, or what is wrong with it."""
    file = folder / str(row["per_record_path"])
    try:
        content = file.read_bytes()
    except OSError as error:
        return Fault(
            what="the losses of the records of an evaluation cannot be read",
            where=str(file),
            got=error.strerror,
            hint="The evaluation itself is on record: see `sweeper.evaluations`",
        )
    found = hashlib.sha256(content).hexdigest()
    if found == row["per_record_sha256"]:
        return content
    return Fault(
        what="the losses of the records of an evaluation are not what the trial wrote",
        where=str(file),
        got=f"SHA-256 {found[:12]}",
        expected=f"{str(row['per_record_sha256'])[:12]}",
        hint="Put the file back as it was",
    )


def _part(row: Row, content: bytes) -> pd.DataFrame:
    records = pd.read_parquet(io.BytesIO(content))
    return pd.DataFrame(dict(_columns(row, records)), columns=[c.name for c in RECORD_LOSSES])


def _columns(row: Row, records: pd.DataFrame) -> Iterator[tuple[str, object]]:
    for column in RECORD_LOSSES:
        in_file = column.name in records.columns
        yield column.name, records[column.name] if in_file else [row[column.name]] * len(records)
