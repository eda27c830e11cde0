"""The study file, read and checked: every fault of it in one error."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sweeper.errors import StudyFileError
from sweeper.study.document import Finding, KeyPath, Plain, dotted, locate
from sweeper.study.encoding import read_text
from sweeper.study.findings import StudyDocument, schema_findings
from sweeper.study.keys import schema_keys
from sweeper.study.pending import (
    NotYet,
    not_yet_in_effect,
    pending_findings,
    without_null_pending,
)
from sweeper.study.rules import broken_rules, stray_variables
from sweeper.study.schema import Study
from sweeper.study.taken_choice import TakenChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFile:
    """A study with the file it was read from.

    Attributes:
        path: Absolute; relative paths in the study are relative to its folder.
        named: The file as it was named, which messages call it by.
        given: The key paths that the file gives, dotted; all others are at their default.
        not_yet: The given keys that have no effect so far.
        text: The file as it was.
        taken: The earlier choice whose rate the study has; None where the file gives the rate, and
            before `following.with_baseline` has looked.
    """

    path: Path
    named: str
    study: Study
    given: frozenset[str]
    not_yet: tuple[NotYet, ...]
    text: str
    taken: TakenChoice | None = None


def load_study(path: Path) -> StudyFile:
    """Returns the study that the file holds.

    Raises:
        StudyFileError: The file cannot be read, is not YAML, or does not hold a study; all
            faults that can be told apart in one go are in it, in the order of their lines.
    """
    return parse_study(read_text(path), path)


def parse_study(text: str, path: Path) -> StudyFile:
    """Returns the study that the text holds; `path` is where it is, or would be.

    Raises:
        StudyFileError: See `load_study`.
    """
    root, findings = locate(text, str(path))
    document = StudyDocument(file=str(path), root=root, keys=schema_keys())
    study, wrong = _validate(document)
    unread = {finding.path for finding in findings if finding.hides_value}
    found = [*findings, *(each for each in wrong if each.path not in unread)]
    found += stray_variables(document)
    if found or study is None:
        found.sort(key=lambda finding: finding.line)
        raise StudyFileError(*(finding.fault for finding in found))
    return StudyFile(
        path=path.resolve(),
        named=str(path),
        study=study,
        given=frozenset(dotted(at) for at, _ in root.walk() if at),
        not_yet=not_yet_in_effect(document),
        text=text,
    )


def _validate(document: StudyDocument) -> tuple[Study | None, list[Finding]]:
    """Returns the study, and what is wrong with it.

    Keys that hold a fault of their own are set aside, so that the rules between keys are asked
    of the rest; when that is no study any more, they cannot be.
    """
    values = without_null_pending(document)
    findings: list[Finding] = []
    study: Study | None = None
    try:
        study = Study.model_validate_json(json.dumps(values))
    except ValidationError as error:
        findings += schema_findings(document, error)
        study = _study_without(values, [_set_aside(document, each.path) for each in findings])
    if study is not None:
        pending = pending_findings(study, document)
        known = [finding.path for finding in findings]
        findings += [each for each in pending if not _touches(each.path, known)]
        # One fault a key: that it does nothing yet says more than that it breaks a rule.
        refused = {finding.path for finding in pending}
        findings += [
            each
            for each in broken_rules(study, document)
            if each.path not in refused and not _touches(each.path, known)
        ]
    return study, findings


def _study_without(values: Plain, paths: Sequence[KeyPath]) -> Study | None:
    remaining = copy.deepcopy(values)
    for path in paths:
        _remove(remaining, path)
    try:
        return Study.model_validate_json(json.dumps(remaining))
    except ValidationError:
        return None


def _set_aside(document: StudyDocument, path: KeyPath) -> KeyPath:
    """Returns what a fault makes unusable: the key, or the mapping that lacks it."""
    return path if document.holds(path) else path[:-1]


def _remove(values: Plain, path: KeyPath) -> None:
    """Takes the key out; a list with a faulty entry goes as a whole."""
    if not path or not isinstance(values, dict) or not isinstance(path[0], str):
        return
    if len(path) == 1 or isinstance(values.get(path[0]), list):
        values.pop(path[0], None)
    else:
        _remove(values.get(path[0]), path[1:])


def _touches(path: KeyPath, others: Sequence[KeyPath]) -> bool:
    """Tells whether the path is one of the others, within one of them, or holds one."""
    return any(path[: len(other)] == other or other[: len(path)] == path for other in others)
