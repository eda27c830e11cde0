"""The files with the losses of single records, against the digests on record of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sweeper.errors import Fault
from sweeper.report.audits.check import Check, RecordUnderAudit, counted
from sweeper.report.record_losses import recorded_bytes
from sweeper.selection.opened import openings_in


def check_record_losses(case: RecordUnderAudit) -> Check:
    """Whether the losses of single records are those that trials and openings left.

    Evaluations are sealed with the digests of their files, and openings are entries of the chain.
    """
    findings: list[str] = []
    changed: dict[str, list[str]] = defaultdict(list)
    files = [*_of_trials(case)]
    try:
        files += _of_openings(case)
    except ValueError:
        findings.append("What the chain says of openings of the test split cannot be read.")
    for whose, row in files:
        if isinstance(recorded_bytes(case.folder.path, row), Fault):
            changed[whose].append(str(row["per_record_path"]))
    findings += [
        f"{whose}: losses of single records are gone, or not as they were left: {', '.join(paths)}."
        for whose, paths in changed.items()
    ]
    return Check(
        about="The losses of single records",
        looked_at=counted(len(files), "file", "files"),
        findings=tuple(findings),
    )


def _of_trials(case: RecordUnderAudit) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yields whose each file is, and the row that has its path and digest."""
    for row in case.store.evaluations():
        if row["per_record_path"] is not None:
            yield str(row["trial"]), row


def _of_openings(case: RecordUnderAudit) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yields the same of what was left by opening the test split.

    Raises:
        ValueError: An entry is none of ours.
    """
    for opened in openings_in(case.links).results:
        for loss in opened.losses:
            names = {
                "per_record_path": loss.per_record_path,
                "per_record_sha256": loss.per_record_sha256,
            }
            yield f"Opening {opened.opening} of the test split", names
