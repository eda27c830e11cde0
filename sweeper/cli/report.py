"""`sweeper report`: one page for people who were not there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.output import name_next, pour


def report(
    study: Study,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write into DIR; else report/ in the run folder."
        ),
    ] = None,
    with_paths: Annotated[
        bool,
        typer.Option("--with-paths", help="Show host names, absolute paths and errors' words."),
    ] = False,
) -> None:
    """Write the report: one HTML page that needs no network, and its figures.

    The answer and what stands behind it, every trial, what was held fixed, what went wrong, and
    the limits. Figures are also written as SVG, PNG and CSV.
    """
    # Loads matplotlib, which no other command needs and which takes half a second.
    from sweeper.report.document import write_report  # noqa: PLC0415

    written = write_report(study, out=out, with_paths=with_paths)
    pour(f"{written.page}\n")
    name_next("select" if written.awaits_freeze else "trials", study)
