"""`sweeper audit`: whether a study's record is what it was."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.exit_status import ExitStatus
from sweeper.cli.output import print_json, write
from sweeper.report.auditing import LIMITS, PROVES, Audit
from sweeper.report.auditing import audit as look_over


def audit(
    study: Study,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="DIGEST", help="A head of the chain that was kept elsewhere."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a study's chain and what it is about.

    The chain in the database against its mirror and itself; protocol, cells, trials, data, weights
    and the choice in Optuna against the chain. Nothing is changed. Exit status 3 if anything was
    found.
    """
    found = look_over(study, kept_head=head)
    if as_json:
        print_json(found.to_json())
    else:
        print_audit(found)
    if not found.is_sound:
        raise typer.Exit(ExitStatus.CRITERIA_NOT_MET)


def print_audit(found: Audit) -> None:
    """Prints the audit for people: what was looked at, what was found, and what it is worth."""
    for check in found.checks:
        write(f"{'ok   ' if check.is_sound else 'FOUND'} {check.about}: {check.looked_at}")
        for sentence in (*check.findings, *check.remarks):
            write(f"      {sentence}")
    write(f"\nHead of the chain: {found.head}   ({found.entries} entries)")
    verdict = PROVES if found.is_sound else _unsound(found)
    write(verdict, style="bold")
    write(LIMITS)


def _unsound(found: Audit) -> str:
    count = sum(len(check.findings) for check in found.checks)
    things = "1 thing is" if count == 1 else f"{count} things are"
    return f"{things} not as it should be: what rests on it is not shown."
