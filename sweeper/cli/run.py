"""`sweeper run`: run what is left of a study, and say how it stands then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.check import check
from sweeper.cli.live import watching
from sweeper.cli.output import name_next, write
from sweeper.cli.wording import counted
from sweeper.report.recorded import study_to_run
from sweeper.sweep.running import RunChoices, run_study
from sweeper.sweep.stop_request import StopRequest, listening
from sweeper.sweep.study_end import RunStatus, StudyEnd


def run(
    study: Study,
    as_name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Run it under another name, from the start."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Discard the recorded study first; refused once a trial completed or was stopped.",
        ),
    ] = False,
    resume_elsewhere: Annotated[
        bool,
        typer.Option(
            "--resume-elsewhere",
            help="Go on with another kind of device or number of devices per trial; it is marked.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, as `check` does; run nothing.")
    ] = False,
) -> None:
    """Run what is left of a study.

    The same command goes on where it was interrupted, each trial from its latest checkpoint. Ctrl-C
    lets running trials save a checkpoint and end, a second one kills them. Exit status: 0 done,
    3 ended without meeting its own criteria, 130 interrupted.
    """
    if dry_run:
        check(study)
        return
    study_file = study_to_run(study)
    stop = StopRequest()
    with listening(stop), watching(sys.stderr, stop) as observer:
        end = run_study(
            study_file,
            observer=observer,
            stop=stop,
            choices=RunChoices(as_name=as_name, replace=replace, resume_elsewhere=resume_elsewhere),
        )
    print_end(end)
    goes_on = end.status is RunStatus.INTERRUPTED
    name_next(*next_command(end, study, as_name), remark="goes on" if goes_on else "")
    raise typer.Exit(int(end.status))


def next_command(end: StudyEnd, study: Path, as_name: str | None) -> tuple[object, ...]:
    """Returns the command, in words, that helps after a run that ended like this."""
    other_name = () if as_name is None else ("--as", as_name)
    if end.status is RunStatus.INTERRUPTED:
        return ("run", study, *other_name)
    if end.ended_early is not None and not _SHOWS_SOMETHING & end.counts.keys():
        return ("run", "--replace", study, *other_name)
    return ("compare", study if as_name is None else _near(end.folder))


_SHOWS_SOMETHING = frozenset({"completed", "stopped"})
"""Outcomes that make a study one that has started: it cannot be replaced then."""


def print_end(end: StudyEnd) -> None:
    """Prints how the study stands after the run."""
    if end.did_nothing:
        write(f"{end.name} had already ended; nothing was run.")
    if end.counts:
        total = sum(end.counts.values())
        trials = "1 trial" if total == 1 else f"{total} trials"
        write(f"{end.name}: {trials}: {counted(end.counts)}")
        write(f"Recorded in {end.folder}")
    if "limited" in end.counts:
        write(
            "Limited trials have no endpoint. `sweeper amend` raises a limit for all arms and lets "
            "them go on."
        )
    if end.ended_early is not None:
        write(f"Ended early: {end.ended_early}")
    if end.status is RunStatus.INTERRUPTED:
        write("Interrupted; nothing recorded is lost.")


def _near(folder: Path) -> Path:
    """Returns the folder as somebody who stands here would name it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
