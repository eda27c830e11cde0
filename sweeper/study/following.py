"""A follow-up study: its baseline is what an earlier study froze, under the settings it was chosen.

Once such a study is on record it keeps what it took in its own plan, and the earlier study's
folder may go.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from sweeper.errors import Fault, RunFolderError, StudyFileError, SweeperError
from sweeper.selection.chain import Link
from sweeper.study.arm_rules import ARM_RULES
from sweeper.study.chosen_under import other_budget, other_settings
from sweeper.study.document import Finding, locate, place
from sweeper.study.earlier_study import choice_in, whole_chain, with_openings
from sweeper.study.findings import StudyDocument
from sweeper.study.fingerprint import Protocol, declared
from sweeper.study.folder import StudyFolder
from sweeper.study.keys import schema_keys
from sweeper.study.loading import StudyFile, load_study
from sweeper.study.places import absolute
from sweeper.study.recorded import is_recorded
from sweeper.study.schema import Study
from sweeper.study.taken_choice import TakenChoice, taken_in, taken_of

_HINT = (
    "A rate holds for the settings it was chosen under: write them here as they were there, or "
    "find the rate for the new ones in a study of rates"
)


def with_baseline(study_file: StudyFile, folder: StudyFolder) -> StudyFile:
    """Returns the study with the rate that it takes from an earlier one, if it takes one.

    Args:
        folder: The study's own run folder. Where the study is on record there, and the earlier
            study's folder says nothing any more, the study goes on with what it took.

    Raises:
        StudyFileError: There is no frozen choice, or it was made under other settings; all of
            these are told at once.
        RunFolderError: What the study took stands in its own run folder no more.
    """
    if study_file.study.baseline is None:
        return study_file
    document = _document(study_file)
    try:
        taken = _earlier_choice(study_file, document, folder)
    except StudyFileError:
        kept = kept_choice(folder)
        if kept is None:
            raise
        return _with(study_file, kept)
    filled = _with(study_file, taken)
    found = [
        *other_settings(document, declared(filled.study), taken, prepared=False),
        *other_budget(filled.study, document, taken, filled.study.budget.target_tokens),
        *(finding for rule in ARM_RULES for finding in rule(filled.study, document)),
    ]
    _raise(found)
    return filled


def refuse_other_data(study_file: StudyFile, protocol: Protocol, budget: int) -> None:
    """Accepts the prepared data as those that the taken rate was chosen with.

    Args:
        protocol: The study's own, with what preparing has found.
        budget: Target tokens that each trial reads.

    Raises:
        StudyFileError: They are others; all that differs is told.
    """
    taken = study_file.taken
    if taken is None or taken.chosen_under is None:
        return
    document = _document(study_file)
    found = [
        *other_settings(document, protocol, taken, prepared=True),
        *other_budget(study_file.study, document, taken, budget),
    ]
    _raise(found)


def kept_choice(folder: StudyFolder) -> TakenChoice | None:
    """Returns what the study on record took; None where there is none, or it took nothing.

    Raises:
        RunFolderError: The plan in the run folder is damaged.
    """
    if not is_recorded(folder) or not folder.plan.exists():
        return None
    try:
        return taken_of(json.loads(folder.plan.read_bytes())["data"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(
            Fault(
                what="the plan in the run folder does not say what the baseline was taken from",
                where=str(folder.plan),
                got=str(error)[:200],
                hint="Put a copy of it back",
            )
        ) from error


def recorded_study_file(folder: StudyFolder) -> StudyFile:
    """Returns the study file as it was when the study began, with the rate that it took.

    Raises:
        StudyFileError: The recorded study file cannot be read.
        RunFolderError: See `kept_choice`.
    """
    recorded = load_study(folder.recorded_study)
    if recorded.study.baseline is None:
        return recorded
    kept = kept_choice(folder)
    if kept is None:
        raise RunFolderError(
            Fault(
                what="the plan is gone that says which rate the study took as its baseline's",
                where=str(folder.plan),
                hint="Put a copy of it back",
            )
        )
    return _with(recorded, kept)


def taken_by(links: Sequence[Link], study: Study, folder: StudyFolder) -> TakenChoice | None:
    """Returns what a study on record took, as its chain has it; None where it took nothing.

    The record does not depend on the earlier study's folder; where that is still there, what has
    become of its test split since is known from it.

    Args:
        folder: The study's own run folder.

    Raises:
        RunFolderError: The first entry of the chain is none of ours.
    """
    try:
        taken = taken_in(links)
    except ValueError as error:
        what, hint = "the chain cannot be read", f"`sweeper audit {folder.path}` says more"
        raise RunFolderError(Fault(what=what, got=str(error), hint=hint)) from error
    if taken is None or study.baseline is None:
        return taken
    try:
        earlier = _folder_of(study.baseline.folder, folder.path.parents[1])
        return with_openings(taken, whole_chain(earlier, StudyFileError))
    except SweeperError:
        return taken


def _earlier_choice(
    study_file: StudyFile, document: StudyDocument, own: StudyFolder
) -> TakenChoice:
    option, path = study_file.study.baseline, ("baseline", "from")
    assert option is not None

    def refuse(fault: Fault) -> StudyFileError:
        line = document.nearest_located(path).line
        where = place(document.file, line, path)
        return StudyFileError(dataclasses.replace(fault, where=where))

    folder = _folder_of(option.folder, study_file.path.parent)
    if folder.path == own.path.resolve():
        hint = "Give this study a name of its own, and name the run folder of the earlier one"
        what = "a study cannot take its baseline from itself"
        raise refuse(Fault(what=what, got=option.folder, hint=hint))
    return choice_in(folder, refuse)


def _folder_of(named: str, base: Path) -> StudyFolder:
    """Returns the run folder that is named, or that of the study file that is.

    Raises:
        StudyFileError: It is a file that holds no study.
    """
    place = absolute(named, base)
    if not place.is_file():
        return StudyFolder(place)
    return StudyFolder.beside(place, load_study(place).study.name)


def _with(study_file: StudyFile, taken: TakenChoice) -> StudyFile:
    study = study_file.study
    training = study.training.model_copy(update={"learning_rate": taken.learning_rate})
    filled = study.model_copy(update={"training": training})
    return dataclasses.replace(study_file, study=filled, taken=taken)


def _document(study_file: StudyFile) -> StudyDocument:
    root, _ = locate(study_file.text, study_file.named)
    return StudyDocument(file=study_file.named, root=root, keys=schema_keys())


def _raise(found: list[Finding]) -> None:
    """Raises all findings, in the order of their lines, the way on behind the last.

    Raises:
        StudyFileError: There are any.
    """
    if not found:
        return
    faults = [each.fault for each in sorted(found, key=lambda each: each.line)]
    if faults[-1].hint is None:
        faults[-1] = dataclasses.replace(faults[-1], hint=_HINT)
    raise StudyFileError(*faults)
