"""Studies as values: a builder of evidence that passes every gate, and a way to alter one cell."""

from __future__ import annotations

import dataclasses
import importlib.util
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
from sweeper.selection.example_losses import ExampleLosses
from sweeper.selection.trajectory import EvaluationPoint

RATES = {
    "quarter": 5e-5,
    "half": 1e-4,
    "baseline": 2e-4,
    "double": 4e-4,
    "quadruple": 8e-4,
    "x0.125": 2.5e-5,
    "x0.25": 5e-5,
    "x4": 8e-4,
    "x8": 1.6e-3,
}
ROUNDS = {"x0.25": 1, "x4": 1, "x0.125": 2, "x8": 2}
"""Of extensions; other arms are the study file's."""
BUDGET = 1_000_000
INITIAL_LOSS = 2.1
GRID = 5
"""Evaluations of a trial that is followed: at 0, 25, 50, 75 and 100 % of the budget."""

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
        "arms": tuple(Arm(name=arm, value=values[arm], round=ROUNDS.get(arm, 0)) for arm in losses),
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


def followed(
    study: StudyEvidence,
    losses: Mapping[str, Sequence[Sequence[float | None]]],
    *,
    seconds: Mapping[str, float] | None = None,
    retention: Mapping[str, Sequence[Sequence[float]]] | None = None,
) -> StudyEvidence:
    """Returns the study with its validation losses along the way, evenly over the budget.

    Args:
        losses: Of each arm, seed by seed, the first before the first update.
        seconds: Training seconds per 1000 target tokens of each arm, 1 unless told otherwise.
        retention: Retention losses at the same places.
    """
    cells = tuple(
        dataclasses.replace(
            cell,
            evaluations=points_of(
                losses[cell.arm][cell.seed],
                seconds=(seconds or {}).get(cell.arm, 1.0),
                retention=None if retention is None else retention[cell.arm][cell.seed],
            ),
        )
        for cell in study.cells
    )
    return dataclasses.replace(study, cells=cells)


def points_of(
    losses: Sequence[float | None], *, seconds: float = 1.0, retention: Sequence[float] | None
) -> tuple[EvaluationPoint, ...]:
    apart = BUDGET // (GRID - 1)
    return tuple(
        EvaluationPoint(
            target_tokens_read=place * apart,
            training_seconds=seconds * place * apart / 1000,
            loss=loss,
            retention_loss=None if retention is None else retention[place],
        )
        for place, loss in enumerate(losses)
    )


def scored(
    study: StudyEvidence,
    target_tokens: Sequence[int],
    groups: Sequence[str],
    loss_sums: Mapping[tuple[str, int], Sequence[float]],
) -> StudyEvidence:
    """Returns the study with the losses of its validation records on record."""
    examples = ExampleLosses(
        groups=tuple(groups),
        target_tokens=tuple(target_tokens),
        loss_sums={place: tuple(sums) for place, sums in loss_sums.items()},
    )
    return dataclasses.replace(study, examples=examples)


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
def follow() -> Callable[..., StudyEvidence]:
    return followed


@pytest.fixture(scope="session")
def score() -> Callable[..., StudyEvidence]:
    return scored


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
def openings() -> Any:
    """The module that makes openings of a test split."""
    script = Path(__file__).with_name("openings.py")
    spec = importlib.util.spec_from_file_location("selection_openings", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cases() -> dict[str, Any]:
    """The numeric cases that fix the statistics, by number."""
    text = (Path(__file__).parent / "statistics_cases.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
