"""`sweeper rebuild`: make a study's database anew from its run folder."""

from __future__ import annotations

import sys
from types import MappingProxyType
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.layout import columns_from, print_columns
from sweeper.cli.live import Lines
from sweeper.cli.output import name_next, options, tell, write
from sweeper.report.recorded import run_folder_of
from sweeper.store.condition import Condition
from sweeper.sweep.rebuilding import Rebuilding, RestoredAttempt, rebuild_plan
from sweeper.sweep.rebuilding import rebuild as carry_out

_FOUND = MappingProxyType(
    {
        Condition.ABSENT: "there is none",
        Condition.EMPTY: "it holds no study",
        Condition.WHOLE: "it is whole",
        Condition.OTHER_VERSION: "it is another version's",
        Condition.BROKEN: "it is damaged",
    }
)


def rebuild(
    study: Study,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also if the database that is there is whole.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; change nothing.")
    ] = False,
) -> None:
    """Make a study's database anew from its run folder.

    For a database that was lost or is damaged: plan, attempts, verdicts and what was changed by
    hand are read from the folder. The old database is moved aside, never deleted. Attempts that no
    coordinator judged are judged from their folders, as a run does it. End workers on other hosts
    first: a lost database cannot say what they run.
    """
    folder = run_folder_of(study)
    if dry_run:
        _print(rebuild_plan(folder), verb="Would restore")
        name_next("rebuild", study, *options({"--replace": replace}))
        return
    done = carry_out(folder, replace=replace, observer=Lines(sys.stderr))
    _print(done, verb="Restored")
    write(f"The database was made anew: {done.place}")
    if done.aside is not None:
        write(f"The old one is kept: {done.aside}")
    name_next("status", study)


def _print(found: Rebuilding, *, verb: str) -> None:
    if found.attempts:
        print_columns(columns_from([_row(attempt) for attempt in found.attempts]))
    tell(f"The database, {found.place}: {_FOUND[found.condition]}.")
    write(f"{verb} {len(found.attempts)} attempts; changes by hand: {found.interventions}.")


def _row(attempt: RestoredAttempt) -> dict[str, object]:
    return {
        "trial": attempt.trial,
        "attempt": attempt.attempt,
        "outcome": attempt.outcome or "judged from its folder",
        "reason": attempt.reason,
        "events": attempt.events,
        "damage": attempt.damage,
    }
