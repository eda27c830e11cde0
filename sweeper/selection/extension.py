"""The further arm that a study of rates may run when its best rate is at the edge."""

from __future__ import annotations

from sweeper.options import HIGHEST_SANE_RATE
from sweeper.selection.evidence import BASELINE, Arm, StudyEvidence

STEP = 2.0
"""From the arm at the edge to the next one."""


def next_arm(study: StudyEvidence, best: str) -> Arm | None:
    """Returns the arm beyond the best one, which is at the edge; its name says the multiple.

    None when the study is closed or allows no further arm, where the best arm is at an edge only
    because the arm beyond it, which was run, cannot be chosen, where the baseline itself was
    stopped, so that no arm can be shown to be better, and where a trial would refuse the next rate.
    """
    rounds = max(arm.round for arm in study.arms)
    values = [arm.number for arm in study.arms if arm.number is not None]
    edge = next(arm.number for arm in study.arms if arm.name == best)
    if study.closed or rounds >= study.extensions or edge not in (min(values), max(values)):
        return None
    if any(cell.is_stopped for cell in study.cells_of(BASELINE)):
        return None
    value = edge * STEP if edge == max(values) else edge / STEP
    if not 0 < value <= HIGHEST_SANE_RATE:
        return None
    return Arm(name=_name(study, value), value=value, round=rounds + 1)


def _name(study: StudyEvidence, value: float) -> str:
    centre = study.baseline.number
    assert centre is not None
    name = f"x{value / centre:g}"
    taken = {arm.name for arm in study.arms}
    while name in taken:
        name += "_"
    return name
