"""What is on record of arms, seeds and cells, against the protocol and the chain's extensions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from sweeper.errors import SweeperError
from sweeper.options import Options
from sweeper.report.audits.check import Check, RecordUnderAudit, counted
from sweeper.selection.chain import EntryKind
from sweeper.selection.options import SelectionOptions
from sweeper.store.planning import RecordedStudy
from sweeper.store.reading import CellRecord
from sweeper.study.arms import plan_arms
from sweeper.study.following import recorded_study_file
from sweeper.study.plan import Cell, plan_cells
from sweeper.study.schema import Budget, Compare, Study
from sweeper.training.options import TrainingOptions


def check_plan(case: RecordUnderAudit) -> Check:
    """Whether arms, seeds, budget and every cell are those that were agreed on or added since."""
    recorded, cells = case.store.study(), case.store.cells()
    try:
        agreed = _agreed(recorded_study_file(case.folder).study, recorded.protocol)
        findings = [*_study_findings(case, recorded, agreed), *_cell_findings(case, cells, agreed)]
    except (OSError, SweeperError):
        findings = ["They are not compared: the study file in the run folder cannot be read."]
    except (ValidationError, KeyError, TypeError, ValueError):
        findings = ["They are not compared: the protocol on record is none."]
    return Check(
        about="Arms, seeds and cells",
        looked_at=f"{counted(len(recorded.arms), 'arm', 'arms')}, "
        f"{counted(len(cells), 'cell', 'cells')}",
        findings=tuple(findings),
    )


def _agreed(study: Study, protocol: Mapping[str, object]) -> Study:
    """Returns the study with all that arms and cells are planned from as the protocol has it.

    Raises:
        ValidationError: The protocol is none.
        KeyError: Likewise.
    """
    parts: dict[str, type[Options]] = {
        "compare": Compare,
        "budget": Budget,
        "training": TrainingOptions,
        "selection": SelectionOptions,
    }
    agreed = {name: _part(kind, protocol[name]) for name, kind in parts.items()}
    seeds = tuple(json.loads(json.dumps(protocol["seeds"])))
    return study.model_copy(update={**agreed, "seeds": seeds})


def _part(kind: type[Options], plain: object) -> Options:
    return kind.model_validate_json(json.dumps(plain))


def _study_findings(
    case: RecordUnderAudit, recorded: RecordedStudy, agreed: Study
) -> Iterator[str]:
    if recorded.factor_key != agreed.compare.key:
        yield _differs("the compared key", recorded.factor_key, agreed.compare.key)
    arms = {arm.name: arm.value for arm in plan_arms(agreed)}
    for name in [*arms, *(name for name in recorded.arms if name not in arms)]:
        has, said = recorded.arms.get(name), arms.get(name)
        if has != said:
            yield _differs(f"the value of the arm {name}", has, said)
    if recorded.seeds != agreed.seeds:
        yield _differs("the seeds", list(recorded.seeds), list(agreed.seeds))
    budget = _budget(case, agreed)
    if budget is not None and recorded.budget_target_tokens != budget:
        yield _differs("the budget of target tokens", recorded.budget_target_tokens, budget)


def _budget(case: RecordUnderAudit, agreed: Study) -> int | None:
    """Returns the target tokens of a trial; None where the chain does not have an epoch's."""
    if agreed.budget.epochs is None:
        return agreed.budget.target_tokens
    told: object = case.created
    for name in ("data", "splits", "train", "target_tokens"):
        told = told.get(name) if isinstance(told, Mapping) else None
    return agreed.budget.epochs * told if isinstance(told, int) else None


def _cell_findings(
    case: RecordUnderAudit, cells: tuple[CellRecord, ...], agreed: Study
) -> Iterator[str]:
    planned = {cell.id: cell for cell in (*_planned(agreed), *_added(case, agreed))}
    recorded = {cell.cell: cell for cell in cells}
    for name, cell in planned.items():
        if name not in recorded:
            yield f"{name} is not on record, and was agreed on or added."
            continue
        for field in ("arm", "seed", "value", "round"):
            has, said = getattr(recorded[name], field), getattr(cell, field)
            if has != said:
                yield f"{name} is on record with the {field} {has}, and was planned with {said}."
    for name in recorded:
        if name not in planned:
            yield f"{name} is on record, and neither agreed on nor added as the chain has it."


def _planned(agreed: Study) -> tuple[Cell, ...]:
    return plan_cells(agreed, plan_arms(agreed))


def _added(case: RecordUnderAudit, agreed: Study) -> Iterator[Cell]:
    """Yields the cells of the arms that the chain has as added to the study."""
    for facts in case.facts(EntryKind.NOTE):
        arm, value, number = (facts.get(name) for name in ("extension", "value", "round"))
        if isinstance(arm, str) and isinstance(value, float) and isinstance(number, int):
            for seed in agreed.seeds:
                yield Cell(id=f"{arm}/{seed}", arm=arm, seed=seed, value=value, round=number)


def _differs(what: str, has: object, said: object) -> str:
    """Returns that the record has another value than the protocol; None is no value."""
    recorded, agreed = ("none" if value is None else value for value in (has, said))
    return f"The record has {recorded} as {what}, the protocol {agreed}."
