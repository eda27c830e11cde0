"""`sweeper run`: run what is left of a study, and say how it stands then."""

from __future__ import annotations

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.check import check
from sweeper.cli.live import watching
from sweeper.cli.output import name_next, tell, terminal_silencer, write
from sweeper.cli.wording import counted
from sweeper.report.comparison import evidence
from sweeper.report.recorded import study_to_run
from sweeper.study.folder import StudyFolder
from sweeper.sweep.detaching import Detached, start_detached, wait_for_beginning
from sweeper.sweep.running import RunChoices, run_study, under_name
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
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="Run it in the background, whatever becomes of the terminal; returns once its "
            "trials run, or shows why it ended before.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, as `check` does; run nothing.")
    ] = False,
) -> None:
    """Run what is left of a study.

    The same command goes on where it was interrupted, each trial from its latest checkpoint.
    Ctrl-C, or closing the terminal, lets running trials save a checkpoint and end; a second Ctrl-C
    kills them. Exit status: 0 done, 3 ended without meeting its own criteria, 130 interrupted.
    With --detach Ctrl-C ends the wait for the first trial alone: the run goes on in the background.
    """
    if dry_run:
        check(study)
        return
    if detach:
        _detach(study, as_name, replace=replace, resume_elsewhere=resume_elsewhere)
        return
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
                replace=replace,
                resume_elsewhere=resume_elsewhere,
                evidence=partial(evidence, study=study_file.study),
            ),
        )
    print_end(end)
    goes_on = end.status is RunStatus.INTERRUPTED
    name_next(*next_command(end, study, as_name), remark="goes on" if goes_on else "")
    raise typer.Exit(int(end.status))


def _detach(study: Path, as_name: str | None, *, replace: bool, resume_elsewhere: bool) -> None:
    """Starts the same command in the background, and says what became of it."""
    study_file = under_name(study_to_run(study), as_name)
    folder = StudyFolder.beside(study_file.path, study_file.study.name)
    options = {"--replace": replace, "--resume-elsewhere": resume_elsewhere}
    given = [name for name, is_given in options.items() if is_given]
    other_name = [] if as_name is None else ["--as", as_name]
    command = [sys.executable, "-m", "sweeper", "run", str(study), *other_name, *given]
    detached = start_detached(command, folder)
    shown = study if as_name is None else _near(folder.path)
    try:
        status = wait_for_beginning(detached, tell=tell)
    except KeyboardInterrupt:
        _tell_how_to_go_on(detached, f"{study_file.study.name} goes on in the background", shown)
        raise typer.Exit(int(RunStatus.INTERRUPTED)) from None
    if status is None:
        _tell_how_to_go_on(detached, f"{study_file.study.name} runs", shown)
        return
    if status < 0:
        tell(f"error: signal {-status} ended the run; its log is {_near(detached.log)}")
    raise typer.Exit(status if status >= 0 else _SIGNALLED - status)


_SIGNALLED = 128
"""What shells add to the number of the signal that ended a process."""


def _tell_how_to_go_on(detached: Detached, what: str, shown: Path) -> None:
    """Says how to deal with a run in the background."""
    pid, named = detached.process.pid, shlex.quote(str(shown))
    write(f"{what} as process {pid}; its log is {_near(detached.log)}")
    write(f"Watch it: sweeper status {named}, or sweeper logs {named} TRIAL --follow")
    write(f"End it:   kill -INT {pid}; trials save a checkpoint and end, a second one kills them")
    name_next("status", shown, remark="while it runs")


def next_command(
    end: StudyEnd, study: Path, as_name: str | None, *, command: str = "run"
) -> tuple[object, ...]:
    """Returns the command, in words, that helps after a run that ended like this.

    Args:
        command: What goes on with the study.
    """
    other_name = () if as_name is None else ("--as", as_name)
    if end.status is RunStatus.INTERRUPTED:
        return (command, study, *other_name)
    if end.ended_early is None and not end.is_late and "waiting" in end.counts:
        return (command, study, *other_name)
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
    if end.without_room:
        write(
            f"The disk was too full: {', '.join(end.without_room)}. Make room, then `sweeper retry "
            "STUDY TRIAL` lets each go on."
        )
    if end.counts.get("limited", 0) > len(end.without_room):
        write(
            "Limited trials have no endpoint. `sweeper amend` raises a limit for all arms and lets "
            "them go on."
        )
    if end.ended_early is not None:
        write(f"Ended early: {end.ended_early}")
    for why in dict.fromkeys(end.waits.values()):
        cells = ", ".join(cell for cell in end.waits if end.waits[cell] == why)
        write(f"Waiting: {cells}: {why}")
    if end.is_late:
        write(
            "The study's deadline is reached; trials that had begun are resumable. A later "
            "`run.deadline` lets the study go on."
        )
    if end.status is RunStatus.INTERRUPTED:
        write("Interrupted; nothing recorded is lost.")


def _near(folder: Path) -> Path:
    """Returns the folder as somebody who stands here would name it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder
