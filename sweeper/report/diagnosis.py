"""What is wrong with a trial, as far as its record tells: findings, and guesses apart from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeper.report.case import Case, case_of
from sweeper.report.guesses import Guess, Subject, guesses
from sweeper.report.history import History, history
from sweeper.report.recorded import agreed_settings, reading
from sweeper.report.symptoms import SYMPTOMS, Finding, Symptom
from sweeper.study.folder import StudyFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What was looked at in a trial, and what was found.

    Attributes:
        trial: The trial's row, as in the table of trials.
        looked_at: How much there was to look at, by name.
        findings: What the record shows.
        guesses: What may be behind it, and how to tell.
        not_found: The symptoms that were looked for in vain.
    """

    trial: Mapping[str, object]
    looked_at: Mapping[str, int]
    findings: Sequence[Finding]
    guesses: Sequence[Guess]
    not_found: Sequence[Symptom]


def diagnose(study: str | Path, trial: str) -> Diagnosis:
    """Returns what the record of a trial shows; nothing is run.

    Args:
        study: A study file or its run folder; commands in the guesses name it like this.

    Raises:
        NotFound: There is no such study or trial.
        StudyConflict: See `agreed_settings`.
    """
    found = history(study, trial)
    with reading(study) as store:
        settings = agreed_settings(store, StudyFolder(found.folder))
    case = case_of(found, settings)
    findings = [finding for _, look in SYMPTOMS if (finding := look(case)) is not None]
    shown = {finding.symptom for finding in findings}
    subject = Subject(study=str(study), trial=trial, learning_rate=_peak(found), case=case)
    return Diagnosis(
        trial=found.trial.records()[0],
        looked_at=_looked_at(case, found),
        findings=findings,
        guesses=list(guesses(findings, subject)),
        not_found=[symptom for symptom, _ in SYMPTOMS if symptom not in shown],
    )


def _looked_at(case: Case, found: History) -> Mapping[str, int]:
    return {
        "windows": len(case.windows),
        "validation_evaluations": len(case.validation),
        "retention_evaluations": len(case.retention),
        "attempts": len(found.attempts),
    }


def _peak(found: History) -> float | None:
    """Returns the peak rate that the latest attempt was told; None before it said so."""
    for attempt in reversed(found.attempts):
        configuration = attempt["configuration"]
        if isinstance(configuration, Mapping) and "training.learning_rate" in configuration:
            return float(str(configuration["training.learning_rate"]))
    return None
