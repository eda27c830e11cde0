"""What the trials were to read, as the plan in the run folder has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweeper.errors import Fault, RunFolderError
from sweeper.study.folder import StudyFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReading:
    """Of one trial; input tokens without padding."""

    records: int
    input_tokens: int
    windows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReadings:
    """Of all trials.

    Attributes:
        by_seed: Of a seed's arms.
        by_trial: Of those that read in windows of their own.
    """

    by_seed: Mapping[int, PlannedReading] = field(default_factory=dict)
    by_trial: Mapping[str, PlannedReading] = field(default_factory=dict)

    def of(self, trial: str, seed: int) -> PlannedReading | None:
        """Returns what the trial was to read; None where nobody knows."""
        return self.by_trial.get(trial) or self.by_seed.get(seed)


def planned_reading(folder: StudyFolder) -> PlannedReadings:
    """Returns what was planned; nothing where the folder has no plan.

    Raises:
        RunFolderError: The plan is damaged.
    """
    if not folder.plan.exists():
        return PlannedReadings()
    try:
        plan = json.loads(folder.plan.read_bytes())
        every, own = plan["exposures"], plan.get("own_exposures", {})
        return PlannedReadings(
            by_seed={int(seed): _reading(each["planned"]) for seed, each in every.items()},
            by_trial={trial: _reading(each["planned"]) for trial, each in own.items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(
            Fault(
                what="the plan in the run folder cannot be read",
                where=str(folder.plan),
                got=repr(error)[:200],
                hint="Put a copy of it back",
            )
        ) from error


def _reading(planned: Mapping[str, object]) -> PlannedReading:
    names = ("records", "input_tokens", "windows")
    return PlannedReading(**{name: int(str(planned[name])) for name in names})
