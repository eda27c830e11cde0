"""`sweeper logs`: what an attempt at a trial has written for people."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeper.cli.arguments import Study, Trial
from sweeper.cli.output import name_next, pour, tell
from sweeper.report.logs import attempt_log, lines


def logs(
    study: Study,
    trial: Trial,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the attempt has ended.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", metavar="K", help="Another attempt than the latest one."),
    ] = None,
) -> None:
    """Print the log of a trial's latest attempt.

    It is the standard error of its process; nothing is concluded from it. Control characters are
    written out.
    """
    log = attempt_log(study, trial, attempt=attempt)
    tell(f"{trial}, attempt {log.attempt}: {log.path}")
    for text in lines(log, follow=follow):
        pour(text)
    name_next("show", study, trial)
