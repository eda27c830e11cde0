"""What a replay is going to run: settled before a model is loaded."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from sweeper.data.prepared import PreparedSplit
from sweeper.errors import Fault, PlanError
from sweeper.study.spec import TrialSpec
from sweeper.training.course import Course
from sweeper.training.exposure import Exposure
from sweeper.training.window import Document, Window
from sweeper.trial.attempt import course_of, settled
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.replay.changes import RECORD, changed, consequences
from sweeper.trial.replay.leaving_out import find_record, reads, windows_without
from sweeper.trial.replay.recorded_run import RecordedRun, read_run
from sweeper.trial.replay.report import Changed
from sweeper.trial.replay.request import ReplayRequest, WithoutRecord
from sweeper.trial.replay.start import Start, find_start
from sweeper.trial.windows import TRAIN, difference, stream_of, training_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be run again, the change in it.

    Attributes:
        windows: From the start to the last one on record.
        change: None: nothing is changed.
        notices: What is to be known of it, as sentences.
    """

    run: RecordedRun
    spec: TrialSpec
    start: Start
    windows: Sequence[Window]
    course: Course
    change: Changed | None
    notices: tuple[str, ...]


def plan(request: ReplayRequest, device: torch.device) -> Work:
    """Returns what is asked for, ready to be run on the device.

    Raises:
        UserError: The attempt cannot be replayed, or not with this change.
    """
    run = read_run(AttemptFolder(Path(request.attempt)))
    if run.last_window == 0:
        raise _nothing_to_replay(request)
    spec = run.spec.model_copy(update={"prepared": request.prepared, "ranks": 1})
    asked, change = changed(spec, request.change, device)
    start = find_start(run, windows=request.windows)
    work = Work(
        run=run,
        spec=asked,
        start=start,
        windows=_windows(asked, first=start.after_window + 1, last=run.last_window),
        course=course_of(asked),
        change=change,
        notices=(*start.notices, *consequences(asked, settled(spec, device))),
    )
    if isinstance(request.change, WithoutRecord):
        return _without(find_record(request.change.record, work.windows), work)
    return work


def _windows(spec: TrialSpec, *, first: int, last: int) -> Sequence[Window]:
    split = PreparedSplit.open(Path(spec.prepared), TRAIN)
    stream = stream_of(spec, split)
    if mismatch := difference(spec.planned, stream):
        raise PlanError(Fault(what=mismatch, where=spec.prepared))
    windows = training_windows(split, stream, after_window=first - 1)
    return list(itertools.islice(windows, last - first + 1))


def _without(record: Document, work: Work) -> Work:
    """Returns the work without the record; the budget shrinks by what was not read."""
    found, course = work.start.found, work.course
    before = Exposure() if found is None else found.snapshot.exposure
    windows = windows_without(
        record,
        work.windows,
        record_digest=before.record_digest,
        pad_token_id=course.pad_token_id,
    )
    left = list(windows)
    targets = sum(w.target_tokens for w in work.windows) - sum(w.target_tokens for w in left)
    places = [str(window.index) for window in work.windows if reads(record, window)]
    planned = dataclasses.replace(
        course.planned, target_tokens=course.planned.target_tokens - targets
    )
    change = Changed(
        key=RECORD,
        was=f"record {record.record} ({record.digest[:12]}) in window {' and '.join(places)}",
        now=f"left out, with its {targets} target tokens",
    )
    return dataclasses.replace(
        work,
        windows=left,
        course=dataclasses.replace(course, planned=planned),
        change=change,
        notices=(*work.notices, *_shifts(work, left)),
    )


def _shifts(work: Work, left: Sequence[Window]) -> tuple[str, ...]:
    """Returns what leaving a record out cannot leave as it was, as sentences."""
    sentences = []
    if work.spec.training.schedule.counter == "target_tokens":
        sentences.append("the schedule counts target tokens: rates after the record shift a little")
    if _batches(left, work.spec.micro_batch) < _batches(work.windows, work.spec.micro_batch):
        sentences.append(
            "the record had a micro-batch to itself, which is not computed: where dropout is used,"
            " it draws otherwise from there on"
        )
    return tuple(sentences)


def _batches(windows: Sequence[Window], micro_batch: int) -> int:
    """Returns how many micro-batches have a target."""
    return sum(
        any(e.target_tokens for e in window.examples[first : first + micro_batch])
        for window in windows
        for first in range(0, len(window.examples), micro_batch)
    )


def _nothing_to_replay(request: ReplayRequest) -> PlanError:
    return PlanError(
        Fault(
            what="no window of this attempt is on record, so there is nothing to replay",
            where=request.attempt,
            hint="`sweeper show` lists the attempts; choose one with --attempt",
        )
    )
