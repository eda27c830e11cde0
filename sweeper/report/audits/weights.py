"""The weights that completed trials left, against what the chain sealed when they ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sweeper.report.audits.check import Check, RecordUnderAudit, counted
from sweeper.selection.chain import EntryKind
from sweeper.selection.wording import listing
from sweeper.study.folder import StudyFolder
from sweeper.training.folder_digest import folder_digest

_SEALED = (("weights_sha256", "adapter_path"), ("best_sha256", "best_path"))
"""What an entry on an ended attempt seals of weights, and where the record says they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """Weights that an attempt left.

    Attributes:
        path: In the run folder; None where the record does not say.
    """

    attempt: str
    path: str | None
    sha256: str


def check_weights(case: RecordUnderAudit) -> Check:
    """Whether weights of completed trials are those that they left.

    Every file is read, which takes its time for large models; those of the frozen choice are left
    to the check of that. Weights that are gone are told, and no fault: `clean` keeps them, and
    whoever needs room may delete what nothing is frozen of.
    """
    frozen = _frozen(case)
    left = [each for each in _left(case) if each.path not in frozen]
    there = [each for each in left if each.path and (case.folder.path / each.path).is_dir()]
    gone = list(dict.fromkeys(each.attempt for each in left if each not in there))
    remark = f"Those of {listing(gone)} are gone, and were not compared."
    return Check(
        about="The weights of other trials" if case.frozen else "The weights of trials",
        looked_at=counted(len(there), "folder", "folders"),
        findings=tuple(
            sentence for each in there if (sentence := _finding(case.folder, each)) is not None
        ),
        remarks=(remark,) if gone else (),
    )


def _left(case: RecordUnderAudit) -> Iterator[_Left]:
    rows = {(row["trial"], row["attempt"]): row for row in case.store.attempts()}
    for facts in case.facts(EntryKind.TRIAL_ENDED):
        row = rows.get((facts.get("trial"), facts.get("attempt")), {})
        for sealed, place in _SEALED:
            sha256, path = facts.get(sealed), row.get(place)
            if isinstance(sha256, str):
                yield _Left(
                    attempt=f"{facts.get('trial')}, attempt {facts.get('attempt')}",
                    path=path if isinstance(path, str) else None,
                    sha256=sha256,
                )


def _frozen(case: RecordUnderAudit) -> frozenset[str | None]:
    """Returns where the frozen weights are."""
    if case.frozen is None:
        return frozenset()
    _, frozen = case.frozen
    return frozenset(each.path for each in frozen.checkpoints if each.path is not None)


def _finding(folder: StudyFolder, left: _Left) -> str | None:
    assert left.path is not None, "it is there"
    try:
        found = folder_digest(folder.path / left.path)
    except OSError as error:
        return f"{left.attempt}: its weights in {left.path} cannot be read: {error.strerror}."
    if found == left.sha256:
        return None
    return (
        f"{left.attempt}: the weights in {left.path} are not those that it left: SHA-256 "
        f"{found[:12]} now, {left.sha256[:12]} then."
    )
