"""The plan in the run folder: for people, other programs, and to make a lost record anew."""

from __future__ import annotations

import dataclasses
import json

from sweeper.files import write_whole
from sweeper.study.exposure import ExposurePlan
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.plan import Plan


def write_plan(study_file: StudyFile, plan: Plan, folder: StudyFolder) -> None:
    """Writes the plan into the run folder, whole, unless it is there already.

    Raises:
        OSError: It cannot be written; what was there before is.
    """
    text = _plan_text(study_file, plan)
    if not folder.plan.exists() or folder.plan.read_text(encoding="utf-8") != text:
        write_whole(folder.plan, text, durable=True)


def _plan_text(study_file: StudyFile, plan: Plan) -> str:
    """Returns the plan as JSON; arms that were added are among the cells, with their round."""
    exposures = {str(seed): _plain(exposure) for seed, exposure in plan.exposures.items()}
    own_exposures = {cell: _plain(exposure) for cell, exposure in plan.own_exposures.items()}
    content = {
        "name": plan.name,
        "fingerprint": plan.fingerprint,
        "protocol": plan.protocol,
        "factor_key": study_file.study.compare.key,
        "arms": [[arm.name, arm.value] for arm in plan.arms if arm.round == 0],
        "seeds": study_file.study.seeds,
        "budget_target_tokens": plan.budget_target_tokens,
        "cells": [dataclasses.asdict(cell) for cell in plan.cells],
        "exposures": exposures,
        "own_exposures": own_exposures,
        "data": dict(plan.data),
    }
    return json.dumps(content, indent=1, allow_nan=False)


def _plain(exposure: ExposurePlan) -> dict[str, object]:
    return dataclasses.asdict(exposure) | {"planned": exposure.planned.model_dump()}
