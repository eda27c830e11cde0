"""What is studied, what was prepared and what was frozen, against the chain."""

from __future__ import annotations

from collections.abc import Iterator

from sweeper.data.manifest import Manifest, tokens_digest
from sweeper.data.prepared import PreparedSplit
from sweeper.errors import SweeperError
from sweeper.report.audits.check import (
    Check,
    RecordUnderAudit,
    as_far_as_read,
    as_sentence,
    counted,
)
from sweeper.report.comparison import evidence
from sweeper.report.recorded import recorded_settings
from sweeper.selection.chain import EntryKind, Link
from sweeper.selection.evidence import StudyEvidence
from sweeper.selection.frozen import Frozen, FrozenCheckpoint
from sweeper.selection.refrozen import departures
from sweeper.study.agreed import disagreements
from sweeper.study.data_facts import data_facts
from sweeper.study.fingerprint import ABSENT, fingerprint
from sweeper.study.folder import StudyFolder
from sweeper.study.following import recorded_study_file
from sweeper.study.taken_choice import BASELINE_FACTS, taken_in
from sweeper.training.folder_digest import folder_digest


def check_protocol(case: RecordUnderAudit) -> Check:
    """Whether the study on record, and its file, is the one that the chain began with."""
    study = case.store.study()
    findings = []
    if case.created.get("protocol") != study.fingerprint:
        findings.append("The study on record does not have the fingerprint that the chain has.")
    if fingerprint(dict(study.protocol)) != study.fingerprint:  # type: ignore[arg-type]  # it is JSON
        findings.append("The protocol on record does not have the study's fingerprint.")
    findings += _file_findings(case)
    findings += _taken_findings(case)
    return Check(
        about="The protocol",
        looked_at=f"fingerprint {study.fingerprint[:12]}",
        findings=tuple(findings),
    )


def _file_findings(case: RecordUnderAudit) -> Iterator[str]:
    """Yields what the run folder's study file says otherwise: commands that read it go by it."""
    name = case.folder.recorded_study.name
    try:
        study_file = recorded_study_file(case.folder)
    except (OSError, SweeperError) as error:
        yield as_sentence(str(error))
        return
    for key, old, new in disagreements(study_file, case.store.study().protocol):
        has = f"no {key}" if new == ABSENT else f"{key} {new}"
        yield f"{name} in the run folder has {has}, the protocol on record {_or_none(old)}."


def _or_none(value: str) -> str:
    return "none" if value == ABSENT else value


def _taken_findings(case: RecordUnderAudit) -> Iterator[str]:
    """Yields what is wrong with the earlier choice that the baseline was taken from."""
    agreed = case.store.study().protocol.get(BASELINE_FACTS)
    try:
        taken = taken_in(case.links)
    except ValueError:
        yield "What the chain says of the earlier study's choice cannot be read."
        return
    if agreed != (None if taken is None else taken.in_protocol()):
        yield "The chain has the baseline from another choice than the protocol on record."


def check_data(case: RecordUnderAudit) -> Check:
    """Whether the prepared data are those that the study began with."""
    about = "The prepared data"
    told = case.created.get("data")
    if not isinstance(told, dict) or not told:
        return Check(about=about, looked_at="nothing on record of them", findings=())
    try:
        manifest = Manifest.read(case.folder.prepared)
        splits = {
            name: (tokens_digest(case.folder.prepared / name), _records_digest(case, name))
            for name in manifest.splits
        }
    except (OSError, SweeperError) as error:
        return Check(about=about, looked_at="a folder", findings=(as_sentence(str(error)),))
    findings = [
        f"The split {name} is not what was prepared: its tokens or records were changed."
        for name, digests in splits.items()
        if digests != (manifest.splits[name].tokens_digest, manifest.splits[name].records_digest)
    ]
    prepared = {name: value for name, value in told.items() if name != BASELINE_FACTS}
    if data_facts(manifest) != prepared:
        findings.append(
            "The manifest is not the one that the chain has from the study's beginning."
        )
    return Check(
        about=about, looked_at=counted(len(splits), "split", "splits"), findings=tuple(findings)
    )


def _records_digest(case: RecordUnderAudit, split: str) -> str:
    return PreparedSplit.open(case.folder.prepared, split).records_digest


def check_choice(case: RecordUnderAudit) -> Check:
    """Whether the frozen choice, its weights and its copy in Optuna are what was frozen."""
    about = "The frozen choice"
    if case.frozen is None:
        is_there = any(link.kind == EntryKind.SELECTION_FROZEN for link in case.links)
        finding = ("Its entry in the chain cannot be read.",) if is_there else ()
        return Check(about=about, looked_at="nothing is frozen yet", findings=finding)
    link, frozen = case.frozen
    other = as_far_as_read(lambda: departures(frozen, _evidence(case)))
    weights = [
        sentence
        for each in frozen.checkpoints
        if (sentence := _checkpoint_finding(case.folder, each)) is not None
    ]
    findings = (
        *as_far_as_read(lambda: _protocol_finding(case, frozen)),
        *other,
        *weights,
        *as_far_as_read(lambda: _mirrored_finding(case, link, frozen)),
    )
    with_files = sum(each.path is not None for each in frozen.checkpoints)
    return Check(
        about=about,
        looked_at=f"{frozen.arm}, with {counted(with_files, 'checkpoint', 'checkpoints')}",
        findings=tuple(dict.fromkeys(findings)),
        remarks=(_OTHER_VERSION,) if other else (),
    )


def _protocol_finding(case: RecordUnderAudit, frozen: Frozen) -> Iterator[str]:
    if frozen.protocol != case.store.study().fingerprint:
        yield "It was frozen for another protocol than the one on record."


def _mirrored_finding(case: RecordUnderAudit, link: Link, frozen: Frozen) -> Iterator[str]:
    if case.store.chain.mirrored_choice() != frozen.mirrored(link.digest):
        yield "What the Optuna study says of the choice is not what was frozen."


_OTHER_VERSION = (
    "The choice was computed anew. Another version of sweeper, or of a library it computes with, "
    "than the one that froze it may compute or word it otherwise from the same trials."
)


def _evidence(case: RecordUnderAudit) -> StudyEvidence:
    """Returns what a freeze reads."""
    return evidence(case.store, recorded_settings(case.folder), folder=case.folder.path)


def _checkpoint_finding(folder: StudyFolder, checkpoint: FrozenCheckpoint) -> str | None:
    if checkpoint.path is None:
        return None
    name = f"{checkpoint.arm}/{checkpoint.seed}"
    weights = folder.path / checkpoint.path
    if not weights.is_dir():
        return f"{name}: the frozen weights are gone from {checkpoint.path}."
    found = folder_digest(weights)
    if found == checkpoint.sha256:
        return None
    return (
        f"{name}: the weights in {checkpoint.path} are not those that were frozen: SHA-256 "
        f"{found[:12]} now, {checkpoint.sha256[:12]} then."
    )
