"""From what a replay saw to its report."""

from __future__ import annotations

from collections.abc import Sequence

from sweeper.records import Evaluation, Update
from sweeper.training.microscope import Microscope, Sighting, Steepness
from sweeper.training.window import Example
from sweeper.trial.replay.comparison import (
    evaluation_pairs,
    first_difference,
    verdict,
    window_pairs,
)
from sweeper.trial.replay.planning import Work
from sweeper.trial.replay.recorded_run import Anomaly
from sweeper.trial.replay.report import Ending, Nonfinite, ReplayReport, Steepest, number


def report_of(
    work: Work,
    replayed: Sequence[Update | Evaluation],
    anomaly: Anomaly | None,
    microscope: Microscope,
    *,
    differences: tuple[str, ...],
) -> ReplayReport:
    """Returns the report.

    Args:
        replayed: Windows and evaluations, in order.
        anomaly: What ended the replay by itself.
        differences: What keeps it from being the trial to the bit, as sentences.
    """
    run = work.run
    updates = [record for record in replayed if isinstance(record, Update)]
    evaluations = [record for record in replayed if isinstance(record, Evaluation)]
    different = first_difference(run.updates, run.evaluations, replayed)
    steepest = microscope.steepest()
    return ReplayReport(
        trial=run.spec.cell,
        attempt=run.spec.attempt,
        change=work.change,
        checkpoint=None if work.start.found is None else str(work.start.found.folder),
        first_window=work.start.after_window + 1,
        last_window=run.last_window,
        planned_windows=run.spec.planned.windows,
        recorded=_ending(run.anomaly),
        replayed=_ending(anomaly),
        verdict=verdict(run.anomaly, anomaly, is_equal=different is None),
        windows=tuple(window_pairs(run.updates, updates)),
        evaluations=tuple(evaluation_pairs(run.evaluations, evaluations)),
        first_difference=different,
        nonfinite=tuple(_nonfinite(sighting) for sighting in microscope.sightings),
        steepest=None if steepest is None else _steepest(steepest),
        is_exact=work.change is None and not differences,
        notices=(*work.notices, *differences),
    )


def _ending(anomaly: Anomaly | None) -> Ending | None:
    if anomaly is None:
        return None
    return Ending(reason=anomaly.reason, window=anomaly.window, detail=anomaly.detail)


def _nonfinite(sighting: Sighting) -> Nonfinite:
    return Nonfinite(
        window=sighting.window,
        micro_batch=sighting.micro_batch,
        records=_records(sighting.examples),
        is_loss=sighting.is_loss,
        module=sighting.module,
        gradient=sighting.gradient,
        weight=sighting.weight,
    )


def _steepest(steepness: Steepness) -> Steepest:
    return Steepest(
        window=steepness.window,
        micro_batch=steepness.micro_batch,
        records=_records(steepness.examples),
        loss=number(steepness.loss),
        tensor=steepness.tensor,
        share=number(steepness.share),
    )


def _records(examples: Sequence[Example]) -> tuple[int, ...]:
    return tuple(document.record for example in examples for document in example.documents)
