"""The journal in the run folder: lines that say again what the record knows besides attempts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.files import add_lines
from sweeper.store.interventions import Intervention
from sweeper.store.restoring import Entry, StudyState

_KIND = "record"
_INTERVENTION = "intervention"
_STUDY = "study"


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFile:
    """What a journal says.

    Attributes:
        entries: What users changed by hand, numbered from 1 without a gap.
        state: Whether the study has ended, as the last line on that has it; None without one.
    """

    entries: tuple[Entry, ...]
    state: StudyState | None


def read_journal_file(file: Path) -> JournalFile:
    """Returns what the journal says; nothing, where there is none.

    Raises:
        RunFolderError: A line is not one of ours, or one is missing.
    """
    return _read(file, file.read_bytes() if file.exists() else b"")


def _read(file: Path, content: bytes) -> JournalFile:
    *lines, _unfinished = content.split(b"\n")
    entries: list[Entry] = []
    state: StudyState | None = None
    for place, line in enumerate(lines, start=1):
        read = _line(file, place, line)
        if isinstance(read, StudyState):
            state = read
        elif read in entries:
            continue  # two workers wrote it at once
        elif read.number != len(entries) + 1:
            raise _damaged(file, place, f"intervention {read.number} after {len(entries)}")
        else:
            entries.append(read)
    return JournalFile(entries=tuple(entries), state=state)


def complete(file: Path, missing: Callable[[JournalFile], Iterable[Entry | StudyState]]) -> None:
    """Adds the lines that are missing, and waits until they are on the disk; one at a time may.

    Args:
        missing: Called with what the journal says.

    Raises:
        RunFolderError: The journal is damaged.
        OSError: They cannot be written; what was there before is.
    """
    add_lines(file, lambda content: map(_text, missing(_read(file, content))))


def _text(line: Entry | StudyState) -> str:
    kind = _INTERVENTION if isinstance(line, Entry) else _STUDY
    return json.dumps({_KIND: kind, **asdict(line)})


def _line(file: Path, place: int, text: bytes) -> Entry | StudyState:
    try:
        plain = json.loads(text)
        kind = plain.pop(_KIND)
        return StudyState(**plain) if kind == _STUDY else _entry(plain)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(file, place, repr(text[:80])) from error


def _entry(plain: Mapping[str, object]) -> Entry:
    fields = {**plain, "kind": Intervention(str(plain["kind"]))}
    return Entry(**fields)  # type: ignore[arg-type]  # the names and types are the file's


def _damaged(file: Path, place: int, got: str) -> RunFolderError:
    return RunFolderError(
        Fault(
            what="the journal is damaged",
            where=f"{file}, line {place}",
            got=got,
            hint="Put a copy of the file back. While the database is whole, moving the file away "
            "will do: it is written anew",
        )
    )
