"""What a trial reads: the windows of its stream and the held-out sets, out of `prepared/`.

Torch-free. Arrays are memory maps, so a window's tokens are read when the loop comes to it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sweeper.data.holdout import held_out_subset
from sweeper.data.manifest import Manifest
from sweeper.data.prepared import PreparedSplit
from sweeper.data.stream import Stream, StreamWindow, plan_stream, without_surplus
from sweeper.study.exposure import planned_exposure
from sweeper.study.spec import PlannedExposure, TrialSpec
from sweeper.training.window import Document, Example, HeldOutSet, PlannedWindow, Window

TRAIN = "train"
HELD_OUT = ("validation", "retention")
"""In the order in which they are scored."""


def stream_of(spec: TrialSpec, split: PreparedSplit) -> Stream:
    """Returns the stream that the spec asks for, from the records that are there.

    How many epochs may be read was settled with the plan; it is bounded here by the planned
    records, each epoch having at least one.

    Raises:
        PlanError: The prepared split is too small to be what was planned on.
    """
    return plan_stream(
        split,
        seed=spec.seed,
        budget_target_tokens=spec.budget_target_tokens,
        records_per_update=spec.training.records_per_update,
        max_epochs=spec.planned.records,
        row_tokens=None if spec.packing is None else spec.packing.row_tokens,
    )


def difference(planned: PlannedExposure, stream: Stream) -> str | None:
    """Returns how the stream differs from the plan, as a sentence; None when it does not."""
    was, found = planned.model_dump(), planned_exposure(stream).model_dump()
    parts = [f"{name} is {found[name]}, planned {was[name]}" for name in was]
    different = [part for name, part in zip(was, parts, strict=True) if was[name] != found[name]]
    return f"the prepared data do not give the plan: {'; '.join(different)}" if different else None


def training_windows(
    split: PreparedSplit, stream: Stream, *, after_window: int = 0
) -> Iterator[Window]:
    """Yields the windows in order, each with its tokens; those up to `after_window` are left out.

    Where reading begins changes nothing about what comes: the stream is fixed as a whole.
    """
    is_packed = stream.row_tokens is not None
    for planned in stream.windows[after_window:]:
        yield Window(
            index=planned.index,
            first_record=planned.first_record,
            examples=_rows(split, planned) if is_packed else _records(split, planned),
            planned=PlannedWindow(
                records=len(planned.records),
                input_tokens=planned.input_tokens,
                target_tokens=planned.target_tokens,
                record_digest=planned.record_digest,
            ),
        )


def held_out_sets(prepared: Path, *, max_records: int | None) -> tuple[HeldOutSet, ...]:
    """Returns the sets that every evaluation scores: validation, then retention if there is one.

    Args:
        prepared: The prepared data.
        max_records: Of each split, `evaluation.max_records`.
    """
    there = Manifest.read(prepared).splits
    splits = ((name, PreparedSplit.open(prepared, name)) for name in HELD_OUT if name in there)
    return tuple(held_out_set(name, split, max_records=max_records) for name, split in splits)


def _rows(split: PreparedSplit, planned: StreamWindow) -> list[Example]:
    records = iter(_records(split, planned))
    return [_packed(list(itertools.islice(records, count))) for count in planned.rows]


def _packed(records: Sequence[Example]) -> Example:
    """Returns the records end to end as one row."""
    return Example(
        token_ids=np.concatenate([record.token_ids for record in records]),
        supervised=np.concatenate([record.supervised for record in records]),
        documents=tuple(document for record in records for document in record.documents),
        is_packed=True,
    )


def _records(split: PreparedSplit, planned: StreamWindow) -> list[Example]:
    surplus = [0] * (len(planned.records) - 1) + [planned.surplus_masked]
    return [
        _example(split, record, surplus=masked)
        for record, masked in zip(planned.records, surplus, strict=True)
    ]


def _example(split: PreparedSplit, record: int, *, surplus: int = 0) -> Example:
    token_ids, supervised = without_surplus(*split.example(record), surplus)
    document = Document(
        record=record,
        digest=split.digests[record].tobytes().hex(),
        group=split.groups[record].tobytes().hex(),
        tokens=len(token_ids),
    )
    return Example(token_ids=token_ids, supervised=supervised, documents=(document,))


def held_out_set(name: str, split: PreparedSplit, *, max_records: int | None) -> HeldOutSet:
    """Returns the records of a split that are scored, `max_records` of them at the most."""
    chosen = held_out_subset(split.digests, max_records)
    scored = np.ascontiguousarray(split.digests[chosen])
    return HeldOutSet(
        split=name,
        examples=[_example(split, record) for record in chosen.tolist()],
        set_digest=hashlib.sha256(scored.tobytes()).hexdigest(),
    )
