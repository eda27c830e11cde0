"""Whether a study's record is what it was: its chain, what the chain is about, and their copies.

Nothing is changed. What an audit cannot show is part of what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweeper.report.audits.chain import check_chain, check_kept_head, check_mirror
from sweeper.report.audits.check import Check, RecordUnderAudit
from sweeper.report.audits.study import check_choice, check_data, check_protocol
from sweeper.report.audits.trials import check_interventions, check_trials
from sweeper.report.recorded import reading, run_folder
from sweeper.selection.chain import head
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder

PROVES = (
    "Entry by entry the chain is as it was sealed, and what is on record of trials, data, weights "
    "and the choice is what the chain says."
)
LIMITS = (
    "Whoever can write the database and the run folder can make the whole chain anew, and a chain "
    "whose last entries were cut off in both is whole. Only its head, kept elsewhere, shows that: "
    "commit it or mail it, and give it to `sweeper audit --head`. Windows of training are counted, "
    "not sealed one by one, and nothing shows that nobody has read the test records."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found.

    Attributes:
        head: The digest that stands for the chain in the database.
    """

    study: str
    entries: int
    head: str
    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return all(check.is_sound for check in self.checks)

    def to_json(self) -> dict[str, object]:
        """Returns plain values."""
        return {
            "study": self.study,
            "is_sound": self.is_sound,
            "entries": self.entries,
            "head": self.head,
            "checks": [
                {
                    "about": check.about,
                    "looked_at": check.looked_at,
                    "is_sound": check.is_sound,
                    "findings": list(check.findings),
                    "remarks": list(check.remarks),
                }
                for check in self.checks
            ],
            "proves": PROVES,
            "limits": LIMITS,
        }


def audit(study: str | Path, *, kept_head: str | None = None) -> Audit:
    """Returns what an audit of the recorded study finds.

    Args:
        study: A study file or its run folder.
        kept_head: A head of the chain that was kept elsewhere, or its first digits.

    Raises:
        NotFound: There is no such study, or it has not begun.
        StoreError: The database cannot be read.
    """
    folder = run_folder(study)
    with reading(study) as store:
        return audit_of(store, folder, kept_head=kept_head)


def audit_of(store: StudyStore, folder: StudyFolder, *, kept_head: str | None = None) -> Audit:
    """Does the same for a store that is open."""
    case = RecordUnderAudit(store, folder)
    return Audit(
        study=store.study().name,
        entries=len(case.links),
        head=head(case.links),
        checks=tuple(check(case) for check in _CHECKS)
        + (() if kept_head is None else (check_kept_head(case, kept_head),)),
    )


_CHECKS: tuple[Callable[[RecordUnderAudit], Check], ...] = (
    check_chain,
    check_mirror,
    check_trials,
    check_interventions,
    check_protocol,
    check_data,
    check_choice,
)
