"""Controlled hyperparameter sweeps for language-model fine-tuning.

From Python, `sweeper.trials(study)` and its like return a recorded study's tables as pandas
frames, `sweeper.record_losses(study)` the losses of single records, and `sweeper.compare(study)`
what they show. Importing the package loads nothing else.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeper.report.arm_tables import arms as arms
    from sweeper.report.arm_tables import differences as differences
    from sweeper.report.comparison import compare as compare
    from sweeper.report.record_losses import record_losses as record_losses
    from sweeper.report.run_tables import cost as cost
    from sweeper.report.run_tables import exposure as exposure
    from sweeper.report.run_tables import metrics as metrics
    from sweeper.report.run_tables import stability as stability
    from sweeper.report.tables import attempts as attempts
    from sweeper.report.tables import evaluations as evaluations
    from sweeper.report.tables import trials as trials
    from sweeper.report.tables import updates as updates

__all__ = [
    "arms",
    "attempts",
    "compare",
    "cost",
    "differences",
    "evaluations",
    "exposure",
    "metrics",
    "record_losses",
    "stability",
    "trials",
    "updates",
]

_MODULES = MappingProxyType(
    {
        "arms": "arm_tables",
        "attempts": "tables",
        "compare": "comparison",
        "cost": "run_tables",
        "differences": "arm_tables",
        "evaluations": "tables",
        "exposure": "run_tables",
        "metrics": "run_tables",
        "record_losses": "record_losses",
        "stability": "run_tables",
        "trials": "tables",
        "updates": "tables",
    }
)
"""Where in `sweeper.report` each of them is."""


def __getattr__(name: str) -> object:
    """Loads a public function when it is first asked for (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.report.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
