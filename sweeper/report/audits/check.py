"""What a check comes to, and the record that it is made on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sweeper.errors import StoreUnavailable, SweeperError
from sweeper.selection.chain import EntryKind, Link
from sweeper.selection.frozen import Frozen
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        about: What it was, as the subject of a line.
        looked_at: What there was to look at: "14 entries".
        findings: Sentences on what is not as it should be; empty if all is well.
        remarks: Sentences on what is worth knowing, and no fault.
    """

    about: str
    looked_at: str
    findings: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class RecordUnderAudit:
    """A study's record, each part of it read once."""

    def __init__(self, store: StudyStore, folder: StudyFolder) -> None:
        self.store = store
        self.folder = folder
        self.links = store.chain.links()

    @cached_property
    def created(self) -> Mapping[str, object]:
        """What the first entry says of the study; nothing, if it cannot be read."""
        return next(iter(self.facts(EntryKind.STUDY_CREATED)), {})

    @cached_property
    def frozen(self) -> tuple[Link, Frozen] | None:
        """The frozen choice that counts; None without one, or where its entry cannot be read."""
        links = [link for link in self.links if link.kind == EntryKind.SELECTION_FROZEN]
        try:
            return (links[-1], Frozen.from_facts(links[-1].facts)) if links else None
        except ValueError:
            return None

    def facts(self, kind: EntryKind) -> list[Mapping[str, object]]:
        """Returns what the entries of a kind say, as far as they can be read."""
        found: list[Mapping[str, object]] = []
        for link in self.links:
            if link.kind == kind:
                try:
                    found.append(link.facts)
                except ValueError:
                    continue
        return found


def unread(error: SweeperError) -> tuple[str, ...]:
    """Returns that something cannot be read, as findings."""
    return tuple(as_sentence(str(fault)) for fault in error.faults)


def as_far_as_read(find: Callable[[], Iterable[str]]) -> tuple[str, ...]:
    """Returns what is found; that something cannot be read is found as well.

    Raises:
        StoreUnavailable: Nothing can be read at the moment.
    """
    try:
        return tuple(find())
    except StoreUnavailable:
        raise
    except SweeperError as error:
        return unread(error)


def as_sentence(text: str) -> str:
    """Returns the text with a capital letter and a full stop."""
    whole = text[:1].upper() + text[1:]
    return whole if whole.endswith(".") else f"{whole}."


def counted(number: int, one: str, many: str) -> str:
    """Returns "1 entry" or "2 entries"."""
    return f"{number} {one if number == 1 else many}"
