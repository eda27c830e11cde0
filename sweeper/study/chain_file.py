"""The chain's mirror in the run folder: a line an entry, for a database that is lost or doubted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from sweeper.errors import Fault, RunFolderError, StudyConflict
from sweeper.files import add_lines
from sweeper.selection.chain import KIND, NUMBER, TIME, Link, canonical


def read_chain_file(file: Path) -> tuple[Link, ...]:
    """Returns the links that the file has; none, where there is no file. They are not verified.

    Raises:
        RunFolderError: A line is none of ours.
    """
    return _links(file, file.read_bytes() if file.exists() else b"")


def complete_chain_file(file: Path, recorded: Callable[[], Sequence[Link]]) -> None:
    """Adds the links that are missing, and waits until they are on the disk; one at a time may.

    Args:
        recorded: Returns the links of the record, when the file is this process's own.

    Raises:
        StudyConflict: The file says something that the record does not.
        RunFolderError: A line is none of ours.
        OSError: They cannot be written; what was there before is.
    """

    def missing(content: bytes) -> list[str]:
        known, links = _links(file, content), tuple(recorded())
        if links[: len(known)] != known:
            raise _other_chain(file, known, links)
        return [_line(link) for link in links[len(known) :]]

    add_lines(file, missing)


def _links(file: Path, content: bytes) -> tuple[Link, ...]:
    *lines, _unfinished = content.split(b"\n")
    links: list[Link] = []
    for place, line in enumerate(lines, start=1):
        link = _link(file, place, line)
        if link not in links[-1:]:  # two workers may have written it at once
            links.append(link)
    return tuple(links)


def _link(file: Path, place: int, line: bytes) -> Link:
    try:
        plain = json.loads(line)
        entry = plain["entry"]
        return Link(
            number=int(entry[NUMBER]),
            kind=str(entry[KIND]),
            entry=canonical(entry),
            digest=str(plain["digest"]),
            at=str(entry[TIME]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(
            Fault(
                what="the mirror of the chain is damaged",
                where=f"{file}, line {place}",
                got=repr(line[:80]),
                hint="Put a copy of the file back. `sweeper audit` says whether the database's "
                "chain is whole; while it is, moving the file away will do: it is written anew",
            )
        ) from error


def _line(link: Link) -> str:
    return canonical({"digest": link.digest, "entry": json.loads(link.entry)})


def _other_chain(file: Path, known: Sequence[Link], links: Sequence[Link]) -> StudyConflict:
    pairs = zip(known, links, strict=False)
    place = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), len(links) + 1)
    return StudyConflict(
        Fault(
            what="the chain in the database is not the one that the run folder has",
            where=f"{file}, line {place}",
            got=f"{len(links)} entries in the database",
            expected=f"{len(known)} as in the file, or more that follow them",
            hint=f"`sweeper audit {file.parent}` says which of the two is whole. If the database "
            f"is an older copy, `sweeper rebuild {file.parent} --replace` makes it anew",
        )
    )
