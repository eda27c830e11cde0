"""`sweeper attach`: a user's own metrics, beside the trials."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweeper.cli.arguments import Study
from sweeper.cli.output import name_next, write
from sweeper.report.recorded import run_folder
from sweeper.report.run_columns import SECONDARY
from sweeper.store.metrics import Attachment
from sweeper.sweep.attaching import attach_metrics


def attach(
    study: Study,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV, JSON, JSON Lines or Parquet: a column trial (or arm and seed), and one for "
            "each metric.",
        ),
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put other values in the place of those on record.")
    ] = False,
) -> None:
    """Attach metrics of your own to trials.

    They stand beside what was recorded, and nothing is selected on them. A file with a fault is
    refused whole; an empty cell is no value; the same file again changes nothing.
    """
    attached = attach_metrics(run_folder(study), file, replace=replace)
    write(f"{_told(attached)}. They are {SECONDARY}.")
    name_next("metrics", study)


def _told(attached: Attachment) -> str:
    counts = {
        "attached": len(attached.added),
        "replaced": len(attached.replaced),
        "there already": len(attached.unchanged),
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"Values: {said}"
