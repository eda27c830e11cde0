"""Whether a study's record is what it was: its chain, what the chain is about, and their copies.

Nothing is changed. What an audit cannot show is part of what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import StoreError, StoreUnavailable, SweeperError
from sweeper.report.audits.chain import check_chain, check_kept_head, check_mirror
from sweeper.report.audits.check import Check, RecordUnderAudit, unread
from sweeper.report.audits.plan import check_plan
from sweeper.report.audits.records import check_record_losses
from sweeper.report.audits.study import check_choice, check_data, check_protocol
from sweeper.report.audits.trials import check_interventions, check_trials
from sweeper.report.audits.weights import check_weights
from sweeper.report.recorded import reading, run_folder
from sweeper.selection.chain import head
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder

PROVES = (
    "Entry by entry the chain is as it was sealed. What is on record of the protocol, arms and "
    "cells, of how trials started, evaluated and ended, of the data, the choice and weights that "
    "are there is what the chain has of it."
)
LIMITS = (
    "Whoever can write the database and the run folder can make the whole chain anew, and a chain "
    "whose last entries were cut off in both is whole. Only its head, kept elsewhere, shows that: "
    "commit it or mail it, and give it to `sweeper audit --head`. Windows of training are counted, "
    "not sealed one by one; times, costs, attached metrics and what the study file says beside the "
    "protocol are not compared; and nothing shows that nobody has read the test records."
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
        study=_name(case),
        entries=len(case.links),
        head=head(case.links),
        checks=tuple(_made(about, check, case) for about, check in _CHECKS)
        + (() if kept_head is None else (check_kept_head(case, kept_head),)),
    )


def _name(case: RecordUnderAudit) -> str:
    """The study's name; the run folder's where that cannot be read."""
    try:
        return case.store.study().name
    except StoreUnavailable:
        raise
    except StoreError:
        return case.folder.path.name


def _made(about: str, check: Callable[[RecordUnderAudit], Check], case: RecordUnderAudit) -> Check:
    """Returns what the check comes to; that something cannot be read is a finding of it."""
    try:
        return check(case)
    except StoreUnavailable:
        raise
    except SweeperError as error:
        return Check(about=about, looked_at="cannot be read", findings=unread(error))


_CHECKS: tuple[tuple[str, Callable[[RecordUnderAudit], Check]], ...] = (
    ("The chain in the database", check_chain),
    ("Its mirror in the run folder", check_mirror),
    ("Trials on record", check_trials),
    ("Changes by hand", check_interventions),
    ("The protocol", check_protocol),
    ("Arms, seeds and cells", check_plan),
    ("The prepared data", check_data),
    ("The weights of trials", check_weights),
    ("The losses of single records", check_record_losses),
    ("The frozen choice", check_choice),
)
"""Each with what it is called where the record cannot be read that it is made on."""
