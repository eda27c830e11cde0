"""Faults of single records, gathered so that a file gives one message per kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sweeper.errors import Fault

LISTED_PLACES = 5
LISTED_KINDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a record stands in its file.

    Attributes:
        record: Number of the record, from 1.
        line: Physical line it begins on, from 1.
    """

    record: int
    line: int

    def __str__(self) -> str:
        return f"record {self.record} (line {self.line})"


MEND = "Mend the records, or take them out of the file"
"""What to do where a problem knows nothing better."""


class BadRecord(Exception):
    """A record that cannot be used. Caught where records are gathered; never leaves this room.

    Attributes:
        what: The fault, so worded that it is the same for all records of its kind.
        detail: What this one record adds, for instance the number of a turn.
    """

    def __init__(
        self,
        what: str,
        *,
        detail: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.detail = detail
        self.expected = expected
        self.hint = hint


@dataclass(slots=True)
class Tally:
    """Problems of one file by kind, in the order in which they first occur."""

    _first: dict[str, BadRecord] = field(default_factory=dict)
    _places: dict[str, list[str]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, problem: BadRecord, place: Place) -> None:
        """Notes that the record at `place` has this problem."""
        self._first.setdefault(problem.what, problem)
        self._counts[problem.what] += 1
        places = self._places.setdefault(problem.what, [])
        if len(places) < LISTED_PLACES:
            places.append(f"{place}, {problem.detail}" if problem.detail else str(place))

    def faults(self, where: str) -> tuple[Fault, ...]:
        """Returns one fault per kind, with its count and the first records that have it."""
        kinds = list(self._first.items())
        faults = [self._fault(where, kind, problem) for kind, problem in kinds[:LISTED_KINDS]]
        if len(kinds) > LISTED_KINDS:
            more = f"{len(kinds) - LISTED_KINDS} further kinds of fault are left out here"
            faults.append(Fault(what=more, where=where))
        return tuple(faults)

    def _fault(self, where: str, kind: str, problem: BadRecord) -> Fault:
        count = self._counts[kind]
        places = "; ".join(self._places[kind])
        rest = count - len(self._places[kind])
        return Fault(
            what=kind if count == 1 else f"{kind}, in {count} records",
            where=where,
            got=f"{places}; and {rest} more" if rest else places,
            expected=problem.expected,
            hint=problem.hint or MEND,
        )


def listed(numbers: list[int] | tuple[int, ...], count: int) -> str:
    """Returns record numbers for a sentence: `2, 5 and 14 more`."""
    shown = ", ".join(str(number) for number in numbers[:LISTED_PLACES])
    rest = count - min(len(numbers), LISTED_PLACES)
    return f"{shown} and {rest} more" if rest else shown


def counted(count: int, noun: str = "record") -> str:
    """Returns a count with its noun: `1 record`, `3 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
