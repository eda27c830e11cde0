"""A study's tables, as pandas frames and as plain rows; also `sweeper.trials(study)` and its like.

Each takes a study file or a run folder and reads the recorded study, also while it runs.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sweeper.report.columns import ATTEMPTS, EVALUATIONS, UPDATES, Table, trial_columns
from sweeper.report.recorded import check_trial, reading
from sweeper.report.run_columns import metric_column


def trials(study: str | Path) -> pd.DataFrame:
    """Returns one row per planned cell, failed and open ones included.

    Metrics that users attached are its last columns, `metric_...`: secondary, not selected on.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return trial_table(study).frame()


def updates(study: str | Path, trial: str | None = None) -> pd.DataFrame:
    """Returns one row per window, of one trial or of all.

    Raises:
        NotFound: There is no such study or trial.
    """
    return update_table(study, trial).frame()


def evaluations(study: str | Path, trial: str | None = None) -> pd.DataFrame:
    """Returns one row per evaluation, of one trial or of all.

    Raises:
        NotFound: There is no such study or trial.
    """
    return evaluation_table(study, trial).frame()


def attempts(study: str | Path, trial: str | None = None) -> pd.DataFrame:
    """Returns one row per execution of a cell, lost ones included.

    Raises:
        NotFound: There is no such study or trial.
    """
    return attempt_table(study, trial).frame()


def trial_table(study: str | Path) -> Table:
    """Returns the table behind `trials`; metrics that users attached are its last columns."""
    with reading(study) as store:
        recorded, attached = store.study(), store.metrics()
        columns = trial_columns(recorded.factor_key, is_text=recorded.factor_is_text)
        names = sorted({str(row["metric"]) for row in attached})
        block = {name: metric_column(name) for name in names}
        values = {(row["trial"], block[str(row["metric"])].name): row["value"] for row in attached}
        rows = [
            row
            | {column.name: values.get((row["trial"], column.name)) for column in block.values()}
            for row in store.trials()
        ]
        return Table(rows=rows, columns=[*columns, *block.values()])


def update_table(study: str | Path, trial: str | None = None) -> Table:
    """Returns the table behind `updates`."""
    with reading(study) as store:
        return Table(rows=store.updates(check_trial(store, trial)), columns=UPDATES)


def evaluation_table(study: str | Path, trial: str | None = None) -> Table:
    """Returns the table behind `evaluations`."""
    with reading(study) as store:
        return Table(rows=store.evaluations(check_trial(store, trial)), columns=EVALUATIONS)


def attempt_table(study: str | Path, trial: str | None = None) -> Table:
    """Returns the table behind `attempts`."""
    with reading(study) as store:
        return Table(rows=store.attempts(check_trial(store, trial)), columns=ATTEMPTS)
