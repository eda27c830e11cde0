"""`sweeper worker`: run a study together with workers on other hosts."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.live import watching
from sweeper.cli.output import name_next, terminal_silencer
from sweeper.cli.run import next_command, print_end
from sweeper.report.comparison import evidence
from sweeper.report.recorded import study_to_run
from sweeper.sweep.running import RunChoices, run_study
from sweeper.sweep.stop_request import StopRequest, listening
from sweeper.sweep.study_end import RunStatus


def worker(
    study: Study,
    as_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name that the study was begun under."),
    ] = None,
) -> None:
    """Run a study together with workers on other hosts.

    Start one on each host, with the same study file, data and model there; the first one begins the
    study. Its record has to be on PostgreSQL (run.storage). A worker takes up what others lose, and
    ends when no trial is left. Ctrl-C ends this host's trials, resumable; the others go on.
    """
    study_file = study_to_run(study)
    stop = StopRequest()
    silence = terminal_silencer()
    with listening(stop, on_hang_up=silence), watching(sys.stderr, stop) as observer:
        end = run_study(
            study_file,
            observer=observer,
            stop=stop,
            choices=RunChoices(
                as_name=as_name,
                joins=True,
                evidence=partial(evidence, study=study_file.study),
            ),
        )
    print_end(end)
    goes_on = end.status is RunStatus.INTERRUPTED
    following = next_command(end, study, as_name, command="worker")
    name_next(*following, remark="goes on" if goes_on else "")
    raise typer.Exit(int(end.status))
