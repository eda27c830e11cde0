"""`sweeper status`: where a study stands."""

from __future__ import annotations

from sweeper.cli.arguments import AsJson, Study
from sweeper.cli.output import console, name_next, plain, print_json, terminal_table
from sweeper.report.standing import Standing, standing


def status(study: Study, as_json: AsJson = False) -> None:
    """Print how many trials are where, and what is running."""
    found = standing(study)
    if as_json:
        print_json(plain(found))
    else:
        _print(found)
    name_next(f"sweeper compare {study}" if found.is_finished else f"sweeper run {study}")


def _print(found: Standing) -> None:
    screen = console()
    screen.print(f"{found.name}  {found.folder}", style="bold", markup=False)
    total = sum(found.counts.values())
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.counts.items()))
    screen.print(f"{total} trials of {found.budget_target_tokens} target tokens: {counts}")
    if found.ended_why is not None:
        screen.print(f"Ended: {found.ended_why}", markup=False)
    if found.running:
        screen.print(terminal_table(found.running, list(found.running[0])))
