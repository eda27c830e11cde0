"""`sweeper retry`: let a trial run again that failed, was lost, was cancelled or had no room."""

from __future__ import annotations

import sys

from sweeper.cli.arguments import Study, Trial
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, write
from sweeper.report.recorded import known_trial, run_folder, study_to_run
from sweeper.sweep.interventions import retry_trial


def retry(study: Study, trial: Trial) -> None:
    """Open a trial again that failed, was lost or cancelled.

    Also one that a full disk ended: make room first. A failed one begins anew; the others go on
    from their newest checkpoint. What happened so far stays on record. A completed or stopped trial
    is a result, and refused.
    """
    reopened = retry_trial(
        study_to_run(study),
        run_folder(study),
        known_trial(study, trial),
        observer=Lines(sys.stderr),
    )
    way = "begins anew" if reopened.from_the_start else "goes on from its newest checkpoint, if any"
    write(f"{trial} had ended as {reopened.outcome} ({reopened.reason}); it {way}.")
    name_next("run", study)
