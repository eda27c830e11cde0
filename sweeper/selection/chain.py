"""The chain: what happened in a study, each entry sealed by a digest over all entries before it.

An entry that is changed, taken out or put in later breaks the chain from there on. It shows what
was tampered with only to somebody who knows its head, the last digest, from elsewhere: whoever can
write the chain can also make it anew, and a chain whose last entries are cut off is whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

GENESIS = hashlib.sha256(b"sweeper-audit-v1").hexdigest()
"""The digest before the first entry."""

NUMBER, KIND, TIME = "seq", "type", "at"
"""Names of what every entry says beside its facts."""


class EntryKind(StrEnum):
    """What an entry is about."""

    STUDY_CREATED = "study_created"
    TRIAL_STARTED = "trial_started"
    TRIAL_ENDED = "trial_ended"
    NOTE = "note"
    SELECTION_FROZEN = "selection_frozen"
    TEST_INTENT = "test_intent"
    TEST_RESULT = "test_result"
    TEST_REPEAT = "test_repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One entry in its place.

    Attributes:
        number: From 1, without a gap.
        kind: An `EntryKind`, unless it was tampered with.
        entry: The entry as canonical JSON; number, kind and time are in it as well.
        digest: Over this entry and the digest before it.
        at: UTC, by the database's clock.
    """

    number: int
    kind: str
    entry: str
    digest: str
    at: str

    @property
    def facts(self) -> dict[str, object]:
        """What the entry says, without number, kind and time.

        Raises:
            ValueError: The entry is no JSON object; a chain that is whole has none such.
        """
        plain = json.loads(self.entry)
        if not isinstance(plain, dict):
            raise ValueError(f"entry {self.number} is no object")  # noqa: TRY004  # not a type of ours
        return {name: plain[name] for name in plain if name not in (NUMBER, KIND, TIME)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainBreak:
    """Where a chain is not whole; what comes after it proves nothing.

    Attributes:
        number: Of the entry, as its place in the chain has it.
    """

    number: int
    sentence: str


def canonical(entry: Mapping[str, object]) -> str:
    """Returns the one JSON text of an entry: sorted keys, no spaces, floats by repr.

    Raises:
        ValueError: A number in it is not finite; a loss that is unknown is null.
    """
    return json.dumps(
        entry, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def next_digest(before: str, entry: str) -> str:
    """Returns the digest of an entry, given as canonical JSON, behind that of the one before."""
    return hashlib.sha256(f"{before}\n{entry}".encode()).hexdigest()


def digest_of(value: Mapping[str, object]) -> str:
    """Returns the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def link_after(last: Link | None, kind: EntryKind, facts: Mapping[str, object], *, at: str) -> Link:
    """Returns the link that follows `last`; the first one, if there is none.

    Raises:
        ValueError: See `canonical`.
    """
    number = 1 if last is None else last.number + 1
    entry = entry_text(kind, facts, number=number, at=at)
    before = GENESIS if last is None else last.digest
    digest = next_digest(before, entry)
    return Link(number=number, kind=kind.value, entry=entry, digest=digest, at=at)


def entry_text(kind: EntryKind, facts: Mapping[str, object], *, number: int, at: str) -> str:
    """Returns an entry as canonical JSON."""
    assert not {NUMBER, KIND, TIME} & facts.keys(), "names that every entry has"
    return canonical({NUMBER: number, KIND: kind.value, TIME: at, **facts})


def head(links: Sequence[Link]) -> str:
    """Returns the digest that stands for the whole chain."""
    return links[-1].digest if links else GENESIS


def verify(links: Sequence[Link]) -> tuple[ChainBreak, ...]:
    """Returns where the chain is not whole, the first place first; empty if it is."""
    return tuple(_breaks(links))


def _breaks(links: Sequence[Link]) -> Iterator[ChainBreak]:
    before = GENESIS
    for number, link in enumerate(links, start=1):
        if link.number != number:
            yield ChainBreak(
                number=number, sentence=f"entry {number} is missing: entry {link.number} follows"
            )
            return  # each of those behind it would be told as missing too
        if next_digest(before, link.entry) != link.digest:
            yield ChainBreak(
                number=number,
                sentence=f"entry {number} ({link.kind}) does not have the digest it was sealed "
                "with: it was changed, or an entry before it was",
            )
        elif not _says_the_same(link):
            yield ChainBreak(
                number=number,
                sentence=f"entry {number} is filed as {link.kind} of {link.at}, and says something "
                "else",
            )
        before = link.digest


def _says_the_same(link: Link) -> bool:
    """Whether number, kind and time stand in the entry as they do beside it."""
    try:
        plain = json.loads(link.entry)
        return (plain[NUMBER], plain[KIND], plain[TIME]) == (link.number, link.kind, link.at)
    except (ValueError, KeyError, TypeError):
        return False
