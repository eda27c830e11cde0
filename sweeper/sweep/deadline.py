"""The deadline: wall time since the study began, whoever ran it when, and whether at all."""

from __future__ import annotations

from sweeper.options import duration_seconds
from sweeper.store.store import StudyStore
from sweeper.study.run_options import RunOptions
from sweeper.sweep.stop_request import StopRequest


def stop_at_deadline(stop: StopRequest, run: RunOptions, store: StudyStore) -> None:
    """Sets the time at which the run is to stop, if the study has a deadline.

    How old the study is says the database's clock; from then on the time that passes is measured
    here, so that a clock that is set does no harm.

    Raises:
        StoreError: The database cannot be used.
    """
    if run.deadline is not None:
        stop.stop_in(duration_seconds(run.deadline) - store.age_seconds())
