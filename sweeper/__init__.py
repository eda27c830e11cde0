"""Controlled hyperparameter sweeps for language-model fine-tuning.

From Python, `sweeper.trials(study)` and its like return a recorded study's tables as pandas
frames, `sweeper.record_losses(study)` the losses of single records, and `sweeper.compare(study)`
what they show. Importing the package loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeper.report.comparison import compare as compare
    from sweeper.report.record_losses import record_losses as record_losses
    from sweeper.report.tables import attempts as attempts
    from sweeper.report.tables import evaluations as evaluations
    from sweeper.report.tables import trials as trials
    from sweeper.report.tables import updates as updates

__all__ = ["attempts", "compare", "evaluations", "record_losses", "trials", "updates"]


def __getattr__(name: str) -> object:
    """Loads a public function when it is first asked for (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = {"compare": "comparison", "record_losses": name}.get(name, "tables")
    return getattr(importlib.import_module(f"{__name__}.report.{module}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
