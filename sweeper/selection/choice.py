"""Which arm is chosen: the baseline, unless another is shown to be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sweeper.records import OutcomeKind
from sweeper.selection.arm_comparison import ArmComparison
from sweeper.selection.boundary import Boundary, BoundaryKind
from sweeper.selection.evidence import BASELINE, StudyEvidence, StudyKind
from sweeper.selection.retention import RetentionVerdict
from sweeper.selection.sentences import on_this_split
from sweeper.selection.summaries import ArmSummary
from sweeper.selection.verdicts import BETTER_KINDS, VerdictKind
from sweeper.selection.wording import amount, away, interval_text, listing


class ChoiceKind(StrEnum):
    """On what ground an arm is chosen, or none."""

    BETTER = "better"
    BASELINE_KEPT = "baseline_kept"
    BASELINE_INELIGIBLE = "baseline_ineligible"
    NOTHING = "nothing"
    NOT_YET = "not_yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The arm that the agreed rule chooses, and why; None where it chooses none."""

    kind: ChoiceKind
    arm: str | None
    sentence: str


def choose(
    study: StudyEvidence,
    baseline: ArmSummary,
    arms: Sequence[ArmComparison],
    boundary: Boundary | None,
) -> Choice:
    """Returns the choice by the agreed rule."""
    if baseline.n_stopped and _unended(study):
        return _nothing(study)
    if study.is_pending:
        return _not_yet(study)
    if baseline.n_stopped:
        return _without_baseline(arms)
    if not baseline.n_completed:
        return _nothing_to_keep()
    better = [arm for arm in arms if arm.is_eligible and arm.verdict.kind is VerdictKind.BETTER]
    if not better:
        return _keep_baseline(arms)
    return _choose_better(study, min(better, key=_mean_difference), boundary)


def _unended(study: StudyEvidence) -> int:
    """Planned cells that were never brought to an end."""
    outcomes = [cell.outcome for cell in study.all_cells()]
    return sum(outcome in {None, OutcomeKind.CANCELLED} for outcome in outcomes)


def _nothing(study: StudyEvidence) -> Choice:
    verb = "was" if _unended(study) == 1 else "were"
    count = f"{_unended(study)} of {len(study.all_cells())} trials {verb}"
    return Choice(
        kind=ChoiceKind.NOTHING,
        arm=None,
        sentence=f"Nothing is chosen: {BASELINE} was stopped, and {count} not brought to an end.",
    )


def _nothing_to_keep() -> Choice:
    sentence = f"Nothing is chosen: no trial of {BASELINE} was completed."
    return Choice(kind=ChoiceKind.NOTHING, arm=None, sentence=sentence)


def _not_yet(study: StudyEvidence) -> Choice:
    return Choice(
        kind=ChoiceKind.NOT_YET,
        arm=None,
        sentence=f"Nothing is chosen yet: {_awaited(study)}.",
    )


def _awaited(study: StudyEvidence) -> str:
    cells = study.all_cells()
    missing = sum(cell.is_missing for cell in cells)
    if missing == 0:
        return "the repeat that measures the noise floor has not ended"
    verb = "has" if missing == 1 else "have"
    return f"{missing} of {len(cells)} trials {verb} neither completed nor been stopped"


def _choose_better(
    study: StudyEvidence, winner: ArmComparison, boundary: Boundary | None
) -> Choice:
    found = winner.difference
    assert found is not None
    assert found.interval_95 is not None
    lower = amount(-_mean_difference(winner), found.standard_error)
    interval = interval_text(away(found.interval_95, -1), found.standard_error)
    sentence = (
        f"{winner.arm} is chosen: better than {BASELINE}{on_this_split(winner.examples)} by "
        f"{lower} nats per target token (95 % interval {interval}), comparable, stable, "
        f"{_retention_words(winner)}. Its validation loss was selected on this split and is "
        f"therefore somewhat optimistic.{_at_the_edge(study, winner.arm, boundary)}"
    )
    return Choice(kind=ChoiceKind.BETTER, arm=winner.arm, sentence=sentence)


def _at_the_edge(study: StudyEvidence, arm: str, boundary: Boundary | None) -> str:
    """No arm at the edge of the rates is chosen without saying so."""
    edges = {BoundaryKind.EDGE, BoundaryKind.EDGE_OF_STABILITY}
    if boundary is not None:
        at_edge = boundary.best == arm and boundary.kind in edges
        return f" {boundary.sentence}" if at_edge else ""
    values = {each.name: each.number for each in study.arms}
    known = [value for value in values.values() if value is not None]
    if study.kind is StudyKind.RATE and values[arm] in (min(known), max(known)):
        return f" {arm} is at the edge of the rates compared: the range is not bracketed."
    return ""


def _retention_words(arm: ArmComparison) -> str:
    if arm.retention.verdict is RetentionVerdict.NOT_MEASURED:
        return "retention not measured"
    return "retention guard passed"


def _keep_baseline(arms: Sequence[ArmComparison]) -> Choice:
    return Choice(
        kind=ChoiceKind.BASELINE_KEPT,
        arm=BASELINE,
        sentence=f"{BASELINE} is kept: {_why_not_another(arms)}.",
    )


def _why_not_another(arms: Sequence[ArmComparison]) -> str:
    better = [arm for arm in arms if arm.verdict.kind in BETTER_KINDS]
    reasons = [_why_not(arm) for arm in better]
    return "; ".join(reasons) if reasons else "no other arm is shown to be better"


def _why_not(arm: ArmComparison) -> str:
    if not arm.is_eligible:
        reasons = listing(arm.not_eligible_because)
        return f"{arm.arm} is better in validation loss, but cannot be chosen ({reasons})"
    return f"{arm.arm} is better only provisionally, and a provisional verdict never selects"


def _without_baseline(arms: Sequence[ArmComparison]) -> Choice:
    eligible = [arm for arm in arms if arm.is_eligible]
    if not eligible:
        return Choice(
            kind=ChoiceKind.NOTHING,
            arm=None,
            sentence=f"Nothing is chosen: {BASELINE} was stopped and no other arm is eligible.",
        )
    lowest = min(eligible, key=_mean_loss)
    return Choice(
        kind=ChoiceKind.BASELINE_INELIGIBLE,
        arm=lowest.arm,
        sentence=f"{lowest.arm} is chosen because {BASELINE} is ineligible; no improvement is "
        "shown.",
    )


def _mean_difference(arm: ArmComparison) -> float:
    assert arm.difference is not None
    assert arm.difference.mean is not None
    return arm.difference.mean


def _mean_loss(arm: ArmComparison) -> float:
    assert arm.summary.mean is not None
    return arm.summary.mean
