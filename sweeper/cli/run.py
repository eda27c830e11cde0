"""`sweeper run`: run what is left of a study, and say how it stands then."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.check import check
from sweeper.cli.live import watching
from sweeper.cli.output import console, name_next
from sweeper.study.loading import load_study
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
        typer.Option("--replace", help="Discard a recorded study of which no trial has ended."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run, as `check` does; run nothing.")
    ] = False,
) -> None:
    """Run what is left of a study. The same command goes on where it was interrupted."""
    if dry_run:
        check(study)
        return
    study_file = load_study(study)
    stop = StopRequest()
    with listening(stop), watching(sys.stderr) as observer:
        end = run_study(
            study_file,
            observer=observer,
            stop=stop,
            choices=RunChoices(as_name=as_name, replace=replace),
        )
    _tell(end, study if as_name is None else end.folder)
    raise typer.Exit(int(end.status))


def _tell(end: StudyEnd, study: Path) -> None:
    screen = console()
    counts = ", ".join(f"{count} {name}" for name, count in sorted(end.counts.items()))
    total = sum(end.counts.values())
    if end.did_nothing:
        screen.print(f"{end.name} had already ended; nothing was run.", markup=False)
    if counts:
        screen.print(f"{end.name}: {total} trials: {counts}. {end.folder}", markup=False)
    if end.ended_early is not None:
        screen.print(f"Ended early: {end.ended_early}", markup=False)
    if end.status is RunStatus.INTERRUPTED:
        screen.print("Interrupted; nothing recorded is lost.", markup=False)
        name_next(f"sweeper run {study}   (goes on)")
    else:
        name_next(f"sweeper compare {study}")
