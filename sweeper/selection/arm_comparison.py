"""Everything that is found out about one arm."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.selection.case import Case
from sweeper.selection.differences import Difference, adjust_family, compare_with_baseline
from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.gates import (
    GateBreak,
    applied_note,
    baseline_breaks,
    gate_breaks,
    pairings,
)
from sweeper.selection.retention import Retention, guard_retention
from sweeper.selection.summaries import ArmSummary, remarks, summarise
from sweeper.selection.verdicts import Verdict, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """One arm's findings.

    Attributes:
        difference: None when a gate was broken: no difference is reported then.
        notes: Sentences that weaken or explain the numbers, and change no verdict.
        not_eligible_because: Why the arm cannot be chosen, whatever its losses; empty if it can.
    """

    arm: str
    summary: ArmSummary
    breaks: tuple[GateBreak, ...]
    difference: Difference | None
    retention: Retention
    verdict: Verdict
    notes: tuple[str, ...]
    not_eligible_because: tuple[str, ...]

    @property
    def is_eligible(self) -> bool:
        """Whether the arm may be chosen."""
        return not self.not_eligible_because


def compare_arms(study: StudyEvidence) -> tuple[ArmComparison, ...]:
    """Returns the findings of every arm but the baseline, in declared order."""
    shared = baseline_breaks(study)
    breaks = {arm.name: gate_breaks(study, arm.name) + shared for arm in study.rivals}
    untestable = frozenset(name for name, broken in breaks.items() if broken)
    comparable = [name for name in breaks if name not in untestable]
    found = {name: compare_with_baseline(study, name) for name in comparable}
    adjusted = adjust_family(study, found)
    return tuple(
        _compare(study, name, broken, adjusted.get(name)) for name, broken in breaks.items()
    )


def _compare(
    study: StudyEvidence, arm: str, breaks: tuple[GateBreak, ...], difference: Difference | None
) -> ArmComparison:
    summary = summarise(study, arm)
    retention = guard_retention(study, arm)
    return ArmComparison(
        arm=arm,
        summary=summary,
        breaks=breaks,
        difference=difference,
        retention=retention,
        verdict=judge(Case(study=study, arm=arm, breaks=breaks, difference=difference)),
        notes=_notes(study, summary, difference),
        not_eligible_because=_obstacles(summary, breaks, retention),
    )


def _obstacles(
    summary: ArmSummary, breaks: tuple[GateBreak, ...], retention: Retention
) -> tuple[str, ...]:
    found = (
        (bool(breaks), "not comparable"),
        (summary.n_stopped > 0, f"{summary.n_stopped} of {summary.n_planned} trials stopped"),
        (summary.n_missing > 0, f"{summary.n_missing} of {summary.n_planned} trials missing"),
        (not retention.allows_selection, f"retention guard {retention.verdict}"),
    )
    return tuple(reason for applies, reason in found if applies)


def _notes(
    study: StudyEvidence, summary: ArmSummary, difference: Difference | None
) -> tuple[str, ...]:
    arm = summary.arm
    notes = [
        f"{arm}, seed {pairing.cell.seed}: {note}."
        for pairing in pairings(study, arm)
        if (note := applied_note(pairing)) is not None
    ]
    notes += remarks(summary)
    if difference is not None and difference.correlation is not None and difference.correlation < 0:
        notes.append(f"Pairing by seed did not help {arm}: r = {difference.correlation:.2f}.")
    return tuple(notes)
