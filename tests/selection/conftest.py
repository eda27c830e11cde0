"""Studies as values: a builder of evidence that passes every gate, and a way to alter one cell."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sweeper.records import Reason
from sweeper.selection.evidence import (
    REPEAT,
    Arm,
    CellEvidence,
    EvaluationSet,
    QuestionKind,
    StudyEvidence,
    StudyKind,
    TrialPrecision,
)

RATES = {"quarter": 5e-5, "half": 1e-4, "baseline": 2e-4, "double": 4e-4, "quadruple": 8e-4}
BUDGET = 1_000_000
INITIAL_LOSS = 2.1

Entry = float | Reason | None
"""A loss: completed. A reason: ended so. None: never run."""


def cell_of(arm: str, value: float | str, seed: int, entry: float | Reason) -> CellEvidence:
    """Builds a cell that agrees with every other cell of its seed in what the gates compare."""
    completed = not isinstance(entry, Reason)
    reached = (8, 16, 24) if completed else (8, 16)
    evaluated = EvaluationSet(set_digest="v", target_tokens=500, dtype="float32", micro_batch=4)
    return CellEvidence(
        arm=arm,
        seed=seed,
        reason=Reason.BUDGET_REACHED if completed else entry,
        initial_loss=INITIAL_LOSS,
        first_window_loss=2.0 + seed / 10,
        validation_loss=entry if completed else None,
        last_finite_loss=None if completed else 5.25,
        initial_digest=f"tensors-{seed}",
        records_read=reached,
        record_digests=tuple(f"{seed}:{count}" for count in reached),
        evaluation_sets={"validation": evaluated},
        environment={"device": "cpu", "micro_batch": "4", "precision": "float32"},
        target_tokens_read=BUDGET if completed else 41_000,
        target_tokens_applied=BUDGET if completed else 41_000,
        target_tokens_planned=BUDGET,
        windows=len(reached),
        skipped=0,
        stopped_at_target_tokens=None if completed else 41_000,
        window_losses=tuple(2.0 + seed / 10 - count / 64 for count in reached),
        weights_digest=f"weights-{arm}-{seed}" if completed else None,
        configuration={"training.learning_rate": repr(value), "training.clip_norm": "1.0"},
    )


def build(losses: Mapping[str, Sequence[Entry]], **rules: Any) -> StudyEvidence:
    """Builds a closed rate study over seeds 0, 1, 2, ... from each arm's losses."""
    seeds = tuple(range(len(losses["baseline"])))
    values = rules.pop("values", RATES)
    cells = tuple(
        cell_of(arm, values[arm], seed, entry)
        for arm, entries in losses.items()
        for seed, entry in zip(seeds, entries, strict=True)
        if entry is not None
    )
    agreed: dict[str, Any] = {
        "question": QuestionKind.RATE_TOO_HIGH,
        "question_text": "Is the rate too high?",
        "kind": StudyKind.RATE,
        "factor": "training.learning_rate",
        "arms": tuple(Arm(name=arm, value=values[arm]) for arm in losses),
        "seeds": seeds,
        "smallest_difference": 0.005,
        "retention_margin": 0.02,
        "precision": TrialPrecision.FLOAT32,
        "precision_tolerance": 0.01,
        "has_retention": False,
        "closed": True,
    }
    return StudyEvidence(cells=cells, **(agreed | rules))


def altered(study: StudyEvidence, arm: str, seed: int, **fields: Any) -> StudyEvidence:
    """Returns the study with some fields of one cell replaced."""
    cells = tuple(
        dataclasses.replace(cell, **fields) if (cell.arm, cell.seed) == (arm, seed) else cell
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


def retained(study: StudyEvidence, losses: Mapping[str, Sequence[float | None]]) -> StudyEvidence:
    """Returns the study with a retention split and these retention losses, seed by seed."""
    evaluated = EvaluationSet(set_digest="r", target_tokens=300, dtype="float32", micro_batch=4)
    cells = tuple(
        dataclasses.replace(
            cell,
            retention_initial_loss=3.0,
            retention_loss=losses[cell.arm][cell.seed],
            evaluation_sets={**cell.evaluation_sets, "retention": evaluated},
        )
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells, has_retention=True)


def repeated(
    study: StudyEvidence, entry: float | Reason | None = None, **fields: Any
) -> StudyEvidence:
    """Returns the study with its baseline of seed 0 run once more: equal but for what is given."""
    first = study.cell("baseline", 0)
    if isinstance(entry, Reason):
        first = cell_of("baseline", RATES["baseline"], 0, entry)
    elif entry is not None:
        first = dataclasses.replace(first, validation_loss=entry)
    return dataclasses.replace(study, repeat=dataclasses.replace(first, arm=REPEAT, **fields))


@pytest.fixture(scope="session")
def repeat() -> Callable[..., StudyEvidence]:
    return repeated


@pytest.fixture(scope="session")
def make_study() -> Callable[..., StudyEvidence]:
    return build


@pytest.fixture(scope="session")
def alter() -> Callable[..., StudyEvidence]:
    return altered


@pytest.fixture(scope="session")
def retain() -> Callable[..., StudyEvidence]:
    return retained


@pytest.fixture(scope="session")
def cases() -> dict[str, Any]:
    """The numeric cases that fix the statistics, by number."""
    text = (Path(__file__).parent / "statistics_cases.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
