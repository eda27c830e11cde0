"""`sweeper diagnose`: what the record of a trial shows, and what may be behind it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated

import typer

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.output import name_next, print_json, write
from sweeper.cli.plain import plain
from sweeper.cli.wording import ending
from sweeper.report.diagnosis import Diagnosis
from sweeper.report.diagnosis import diagnose as look
from sweeper.report.guesses import Guess


def diagnose(
    study: Study,
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Arm and seed, as in double/2.")],
    as_json: AsJson = False,
) -> None:
    """Print what stands out in a trial's record.

    Loss spikes, a rising or flat loss, frequent clipping, skipped or stalled updates, windows
    without targets, damage to retention, a collapse of throughput. Findings are facts with their
    numbers; guesses at what is behind them, and the checks that would tell, stand apart. Nothing is
    run.
    """
    found = look(study, trial)
    if as_json:
        print_json(plain(found))
    else:
        _print(found)
    if found.guesses:
        name_next(*found.guesses[0].command)
    else:
        name_next("show", study, trial)


def _print(found: Diagnosis) -> None:
    write(_heading(found.trial), style="bold")
    counts = ", ".join(_counted(name, count) for name, count in found.looked_at.items())
    write(f"Looked at {counts}.")
    if found.findings:
        write("\nWhat the record shows", style="bold")
        for finding in found.findings:
            write(f"- {finding.symptom.replace('_', ' ')}: {finding.sentence}.")
    else:
        write("Nothing stands out.")
    if found.guesses:
        write("\nWhat may be behind it (guesses), and what would tell", style="bold")
        for guess in found.guesses:
            _print_guess(guess)
    names = ", ".join(symptom.replace("_", " ") for symptom in found.not_found)
    if names:
        write(f"\nLooked for and not found: {names}.")


def _heading(row: Mapping[str, object]) -> str:
    if row["outcome"] is None:
        return f"{row['trial']} {str(row['status']).replace('_', ' ')}"
    detail = str(row["detail"] or "")
    return ending(str(row["trial"]), str(row["outcome"]), str(row["reason"]), detail)


def _print_guess(guess: Guess) -> None:
    name = guess.symptom.replace("_", " ")
    write(f"- {name}: perhaps {guess.suspicion}; {guess.check}:")
    write(f"    {shlex.join(['sweeper', *guess.command])}")


def _counted(name: str, count: int) -> str:
    text = name.replace("_", " ")
    return f"{count} {text[:-1] if count == 1 else text}"
