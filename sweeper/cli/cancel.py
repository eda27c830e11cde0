"""`sweeper cancel`: take a trial out of a study, or close the study."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, write
from sweeper.report.recorded import known_trial, run_folder, study_to_run
from sweeper.sweep.interventions import cancel_trial, close_study


def cancel(
    study: Study,
    trial: Annotated[
        str | None,
        typer.Argument(metavar="[TRIAL]", help="Arm and seed; without it, the study is closed."),
    ] = None,
) -> None:
    """Cancel a waiting trial, or close the study.

    A cancelled trial is left out until `retry` opens it again. A closed study is closed for good:
    its open trials end as cancelled, nothing of it runs again. A study that is being run is ended
    with Ctrl-C first.
    """
    study_file, folder, observer = study_to_run(study), run_folder(study), Lines(sys.stderr)
    if trial is not None:
        cancel_trial(study_file, folder, known_trial(study, trial), observer=observer)
        write(f"{trial} is cancelled.")
        name_next("retry", study, trial, remark="opens it again")
        return
    cancelled = close_study(study_file, folder, observer=observer)
    write(
        f"The study is closed; cancelled: {', '.join(cancelled) or 'no trial, for none was open'}"
    )
    name_next("compare", study)
