"""The losses of single validation records at the declared checkpoint, as values to compare."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from sweeper.report.record_losses import recorded_bytes
from sweeper.selection.example_losses import ExampleLosses
from sweeper.store.reading import Row

_COLUMNS = ["digest", "group", "target_tokens", "loss_sum"]

Place = tuple[str, int]
"""Arm and seed."""


def example_losses(
    folder: Path, evaluations: Sequence[Row], *, completed: Collection[str], at_best: bool
) -> ExampleLosses | None:
    """Returns the records' losses of the completed trials that left them; None if none did.

    They are secondary: a trial whose file is gone or changed is left out, and named as unread; one
    that was scored on other records than the first is left out as well.

    Args:
        folder: The run folder.
        evaluations: Rows of the table.
        completed: Ids of the trials that count.
        at_best: Whether trials count by their lowest validation loss, not by their last.
    """
    rows = [row for row in evaluations if row["trial"] in completed and _is_endpoint(row)]
    chosen = _endpoints(rows, at_best=at_best)
    left = {place: row for place, row in chosen.items() if row["per_record_path"] is not None}
    if not left:
        return None
    found = {place: _frame(folder, row) for place, row in left.items()}
    frames = {place: frame for place, frame in found.items() if frame is not None}
    first = next(iter(frames.values()), pd.DataFrame(columns=["group", "target_tokens"]))
    alike = {place: frame for place, frame in frames.items() if _same_records(frame, first)}
    return ExampleLosses(
        groups=tuple(map(str, first["group"])),
        target_tokens=tuple(map(int, first["target_tokens"])),
        loss_sums={place: tuple(map(float, f["loss_sum"])) for place, f in alike.items()},
        unread=tuple(place for place, frame in found.items() if frame is None),
    )


def _is_endpoint(row: Row) -> bool:
    """Whether a trial may end there: a validation loss after some update."""
    return row["split"] == "validation" and cast("int", row["grid_index"]) >= 1


def _endpoints(rows: Sequence[Row], *, at_best: bool) -> Mapping[Place, Row]:
    """The declared checkpoint's evaluation of each trial; of equal losses the earliest."""
    by_trial: dict[Place, Row] = {}
    for row in sorted(rows, key=lambda row: cast("int", row["grid_index"])):
        place = (str(row["arm"]), cast("int", row["seed"]))
        known = by_trial.get(place)
        if known is None or not at_best or _is_lower(row, known):
            by_trial[place] = row
    return by_trial


def _is_lower(row: Row, known: Row) -> bool:
    loss, lowest = cast("float | None", row["loss"]), cast("float | None", known["loss"])
    return loss is not None and (lowest is None or loss < lowest)


def _frame(folder: Path, row: Row) -> pd.DataFrame | None:
    """The losses in the file; None where it is gone, or is not what the trial wrote."""
    content = recorded_bytes(folder, row)
    if not isinstance(content, bytes):
        return None
    try:
        return pd.read_parquet(io.BytesIO(content), columns=_COLUMNS)
    except (ValueError, KeyError):  # it has its digest, and holds something else
        return None


def _same_records(frame: pd.DataFrame, first: pd.DataFrame) -> bool:
    return all(frame[name].equals(first[name]) for name in ("digest", "group", "target_tokens"))
