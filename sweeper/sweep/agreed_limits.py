"""The limits of a study: those it began with, and those that were raised on record since."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType

from pydantic import ValidationError

from sweeper.errors import Fault, StudyConflict, StudyFileError, nearest
from sweeper.options import DURATION, SIZE, duration_seconds, size_bytes
from sweeper.store.store import StudyStore
from sweeper.study.loading import StudyFile
from sweeper.study.run_options import Limits

_AMOUNT: Mapping[str, Callable[[str], float]] = MappingProxyType(
    {
        "wall_clock": duration_seconds,
        "host_memory": size_bytes,
        "device_memory": size_bytes,
        "disk": size_bytes,
        "hang": duration_seconds,
    }
)

_WRITTEN: Mapping[Callable[[str], float], str] = MappingProxyType(
    {duration_seconds: DURATION, size_bytes: SIZE}
)
_FULL_DISK = "Where a full disk ended a trial, make room, then `sweeper retry STUDY TRIAL`"


def under_agreed_limits(study_file: StudyFile, store: StudyStore) -> StudyFile:
    """Returns the study with the limits that were amended on record; its text stays as it is."""
    study = study_file.study
    limits = study.run.limits.model_copy(update=dict(store.amended_limits()))
    run = study.run.model_copy(update={"limits": limits})
    return dataclasses.replace(study_file, study=study.model_copy(update={"run": run}))


def raised_limits(agreed: Limits, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the wanted limits once each is found to be higher than the agreed one. Pure.

    Raises:
        StudyFileError: A name is none of a limit, or a value is no value of it.
        StudyConflict: A limit is not raised, or there is none that could be.
    """
    faults = [fault for name, text in wanted.items() if (fault := _fault_in(name, text))]
    if faults:
        raise StudyFileError(*faults)
    faults = [
        fault
        for name, text in wanted.items()
        if (fault := _not_raised(name, text, agreed.model_dump()[name]))
    ]
    if faults:
        raise StudyConflict(*faults)
    return dict(wanted)


def _fault_in(name: str, text: str) -> Fault | None:
    if name not in _AMOUNT:
        close = nearest(name, _AMOUNT)
        return Fault(
            what="there is no such limit",
            where=f"run.limits.{name}",
            expected=", ".join(_AMOUNT),
            hint=f"Did you mean {close}?" if close else None,
        )
    try:
        Limits.model_validate({name: text})
    except ValidationError:
        return Fault(
            what="not a value of this limit",
            where=f"run.limits.{name}",
            got=text,
            expected=_WRITTEN[_AMOUNT[name]],
        )
    return None


def _not_raised(name: str, text: str, agreed: str | None) -> Fault | None:
    amount = _AMOUNT[name]
    if agreed is not None and amount(text) > amount(agreed):
        return None
    is_full_disk = name == "disk" and agreed is None
    return Fault(
        what="a limit that trials have run under can only be raised",
        where=f"run.limits.{name}",
        got=text,
        hint=_FULL_DISK if is_full_disk else None,
        expected="no limit, as agreed" if agreed is None else f"more than {agreed}",
    )
