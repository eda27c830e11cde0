"""How the trials ran: what they read, how steadily, at what cost; and a user's own metrics.

The trial that measures the noise floor is a row like any other, under an arm's name of its own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd

from sweeper.report.case import Case, window_facts
from sweeper.report.columns import Column, Table, with_factor
from sweeper.report.plan_file import PlannedReading, planned_reading
from sweeper.report.recorded import agreed_settings, reading, run_folder
from sweeper.report.run_columns import COST, EXPOSURE, METRICS, SECONDARY, STABILITY
from sweeper.report.symptoms import loss_spike
from sweeper.selection.evidence import BASELINE
from sweeper.store.reading import Repeated, Row
from sweeper.store.store import StudyStore
from sweeper.study.schema import Study

Values = dict[str, object]


def exposure(study: str | Path) -> pd.DataFrame:
    """Returns one row per planned cell: what was planned to be read, and what was.

    Raises:
        NotFound: There is no such study, or it has not begun.
        RunFolderError: The plan in the run folder is damaged.
    """
    return exposure_table(study).frame()


def stability(study: str | Path) -> pd.DataFrame:
    """Returns one row per planned cell: clipping, skips, gradient norms, loss spikes, its end.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return stability_table(study).frame()


def cost(study: str | Path) -> pd.DataFrame:
    """Returns one row per planned cell: time by kind of work, memory, work that was done again.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return cost_table(study).frame()


def metrics(study: str | Path) -> pd.DataFrame:
    """Returns the metrics that users attached, one row per trial and metric.

    They are secondary: nothing is selected on them.

    Raises:
        NotFound: There is no such study, or it has not begun.
    """
    return metric_table(study).frame()


def exposure_table(study: str | Path) -> Table:
    """Returns the table behind `exposure`."""
    planned = planned_reading(run_folder(study))
    with reading(study) as store:
        trials, budget = store.trials(), store.study().budget_target_tokens
        applied = {
            row["seed"]: row["target_tokens_applied"] for row in trials if row["arm"] == BASELINE
        }
        rows = [
            row
            | {
                "target_tokens_planned": budget,
                **_planned(planned.of(str(row["trial"]), _integer(row["seed"]))),
            }
            | _shares(row, cast("int | None", applied.get(row["seed"])))
            for row in trials
        ]
        return _table(store, rows, EXPOSURE)


def stability_table(study: str | Path) -> Table:
    """Returns the table behind `stability`."""
    folder = run_folder(study)
    with reading(study) as store:
        settings = agreed_settings(store, folder)
        rows = [
            row | _steadiness(store.updates(str(row["trial"])), settings) for row in store.trials()
        ]
        return _table(store, rows, STABILITY)


def cost_table(study: str | Path) -> Table:
    """Returns the table behind `cost`."""
    with reading(study) as store:
        repeated, attempts = store.repeated_work(), store.attempts()
        rows = [
            row
            | _phases([attempt for attempt in attempts if attempt["trial"] == row["trial"]])
            | _windows(row, store.updates(str(row["trial"])), repeated.get(str(row["trial"])))
            for row in store.trials()
        ]
        return _table(store, rows, COST)


def metric_table(study: str | Path) -> Table:
    """Returns the table behind `metrics`."""
    with reading(study) as store:
        return Table(rows=store.metrics(), columns=METRICS, title=SECONDARY)


def _table(store: StudyStore, rows: Sequence[Values], columns: Sequence[Column]) -> Table:
    study = store.study()
    named = with_factor(columns, study.factor_key, is_text=study.factor_is_text)
    return Table(rows=rows, columns=named)


def _planned(found: PlannedReading | None) -> Values:
    return {
        "records_planned": None if found is None else found.records,
        "input_tokens_planned": None if found is None else found.input_tokens,
        "windows_planned": None if found is None else found.windows,
    }


def _shares(row: Row, baseline_applied: int | None) -> Values:
    read, applied = row["target_tokens_read"], row["target_tokens_applied"]
    real, padding = row["input_tokens"], row["padding_tokens"]
    is_known = read is not None and applied is not None
    return {
        "target_tokens_dropped": _integer(read) - _integer(applied) if is_known else None,
        "applied_share": _share(applied, baseline_applied),
        "padding_share": None
        if real is None
        else _share(padding, _integer(real) + _integer(padding)),
    }


def _share(part: object, whole: int | None) -> float | None:
    return None if part is None or not whole else _integer(part) / whole


def _steadiness(updates: Sequence[Row], settings: Study) -> Values:
    windows = [window_facts(row) for row in updates]
    found = loss_spike(Case(windows=windows, retention_margin=settings.selection.retention_margin))
    norms = [w.gradient_norm for w in windows if w.gradient_norm is not None]
    ran = sum(w.ran for w in windows)
    skips = Counter(str(w.skip) for w in windows if w.skip is not None)
    spikes = {} if found is None else found.numbers
    return {
        "clip_rate": sum(w.clipped for w in windows) / ran if ran else None,
        "clip_norm": settings.training.clip_norm,
        "skips": ", ".join(f"{skip} {count}" for skip, count in sorted(skips.items())) or None,
        "nonfinite": sum(w.is_nonfinite for w in windows) if windows else None,
        "gradient_norm_p50": _percentile(norms, 50),
        "gradient_norm_p99": _percentile(norms, 99),
        "gradient_norm_max": max(norms, default=None),
        "loss_spikes": int(spikes.get("windows", 0)) if windows else None,
        "largest_spike": spikes.get("above_median"),
    }


def _percentile(values: Sequence[float], percent: int) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _phases(attempts: Sequence[Row]) -> Values:
    return {name: _total(attempts, name) for name in _PHASES}


_PHASES = (
    "loading_seconds",
    "training_seconds",
    "evaluating_seconds",
    "checkpointing_seconds",
    "saving_seconds",
)


def _total(attempts: Sequence[Row], name: str) -> float | None:
    """The sum over the attempts that know it; None where none does."""
    known = [cast("float", attempt[name]) for attempt in attempts if attempt[name] is not None]
    return math.fsum(known) if known else None


def _windows(row: Row, updates: Sequence[Row], repeated: Repeated | None) -> Values:
    has_begun = bool(row["attempts"])
    *_, seconds = accumulate((cast("float", each["seconds"]) for each in updates), initial=0.0)
    read = row["target_tokens_read"]
    again = repeated or Repeated(windows=0, target_tokens=0, seconds=0.0)
    return {
        "window_seconds": seconds if updates else None,
        "seconds_per_1000_target_tokens": 1000 * seconds / _integer(read) if read else None,
        "repeated_windows": again.windows if has_begun else None,
        "repeated_target_tokens": again.target_tokens if has_begun else None,
        "repeated_seconds": again.seconds if has_begun else None,
    }


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
