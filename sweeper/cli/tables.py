"""`sweeper trials` and `sweeper updates`: a study's tables."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeper.cli.arguments import AsCsv, AsJson, AsParquet, Columns, Study
from sweeper.cli.forms import Form, print_table
from sweeper.cli.output import name_next
from sweeper.report.columns import Table
from sweeper.report.tables import trial_table, update_table

FACTOR = 3
"""Place of the factor's column among those of trials."""

TRIALS_SHOWN = (
    "outcome",
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
    "loss",
    "learning_rate",
    "target_tokens_read",
    "gradient_norm",
    "clipped",
    "ran",
    "skip",
    "updates",
    "target_tokens",
    "seconds",
)


def trials(
    study: Study,
    columns: Columns = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    parquet: AsParquet = None,
) -> None:
    """Print one row per trial.

    Failed and open trials are rows too; nothing is left out. A loss at the end of the budget is
    there for completed trials only.
    """
    table = trial_table(study)
    form = Form(json=as_json, csv=as_csv, parquet=parquet, columns=columns)
    if form.is_for_people:
        table = _with_open_trials(table)
    print_table(table, form, shown=("trial", table.names()[FACTOR], *TRIALS_SHOWN))
    name_next("compare", study)


def _with_open_trials(table: Table) -> Table:
    """Shows how far a trial without an outcome is where its outcome will stand."""
    rows = [row | {"outcome": row["outcome"] or row["status"]} for row in map(dict, table.rows)]
    return Table(rows=rows, columns=table.columns)


def updates(
    study: Study,
    trial: Annotated[
        str | None, typer.Argument(help="One trial, as in double/2; all without it.")
    ] = None,
    columns: Columns = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    parquet: AsParquet = None,
) -> None:
    """Print one row per window.

    What was done again after a loss is there once. Windows that ended in no update are rows too,
    with the reason.
    """
    form = Form(json=as_json, csv=as_csv, parquet=parquet, columns=columns)
    print_table(update_table(study, trial), form, shown=UPDATES_SHOWN)
    name_next("show", study, trial or "ARM/SEED")
