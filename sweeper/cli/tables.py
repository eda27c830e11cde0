"""`sweeper trials` and `sweeper updates`: a study's tables."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeper.cli.arguments import AsCsv, AsJson, AsParquet, Columns, Study
from sweeper.cli.output import Form, name_next, print_table
from sweeper.report.tables import trial_table, update_table

TRIALS_SHOWN = (
    "status",
    "reason",
    "initial_loss",
    "validation_loss",
    "last_finite_loss",
    "retention_loss",
    "target_tokens_read",
    "updates",
    "skipped",
    "clipped",
    "wall_seconds",
    "attempts",
)
UPDATES_SHOWN = (
    "trial",
    "window",
    "updates",
    "target_tokens",
    "target_tokens_read",
    "learning_rate",
    "loss",
    "gradient_norm",
    "clipped",
    "ran",
    "skip",
    "seconds",
)


def trials(
    study: Study,
    columns: Columns = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    parquet: AsParquet = None,
) -> None:
    """Print one row per trial, failed and open ones included."""
    table = trial_table(study)
    factor = table.names()[3]
    form = Form(json=as_json, csv=as_csv, parquet=parquet, columns=columns)
    print_table(table, form, shown=("trial", factor, *TRIALS_SHOWN))
    name_next(f"sweeper compare {study}")


def updates(  # one parameter per option of the command
    study: Study,
    trial: Annotated[str | None, typer.Argument(help="One trial, as in double/2.")] = None,
    columns: Columns = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    parquet: AsParquet = None,
) -> None:
    """Print one row per window, whether or not it ended in an update."""
    form = Form(json=as_json, csv=as_csv, parquet=parquet, columns=columns)
    print_table(update_table(study, trial), form, shown=UPDATES_SHOWN)
    name_next(f"sweeper show {study} {trial or 'TRIAL'}")
