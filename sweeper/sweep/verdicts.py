"""What an attempt's folder holds of its record: whose it is, and how it ended.

The database is the record. These files say the same again, so that it can be made anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sweeper.files import write_whole
from sweeper.records import Outcome, Reason
from sweeper.store.claims import Claim, Owner, Process
from sweeper.store.endings import Cost
from sweeper.store.plain import to_text
from sweeper.trial.folder import AttemptFolder

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Whose an attempt is, and since when.

    Attributes:
        at: UTC, by the clock of the coordinator or of the database.
    """

    claim: Claim
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an attempt ended, as its coordinator found it.

    Attributes:
        claim: By which it was ended.
        max_resumes: Losses without progress that were allowed then; of no meaning in a late one.
        events: How many of its events were on record; None where it was not noted.
        at: UTC, likewise.
    """

    claim: Claim
    outcome: Outcome
    cost: Cost
    max_resumes: int = 0
    events: int | None = None
    supervisor: Process | None = None
    child: Process | None = None
    at: str

    def says(self, other: Verdict) -> bool:
        """Whether both say the same; when they were written does not matter."""
        return (self.claim, self.outcome, self.cost) == (other.claim, other.outcome, other.cost)


def now() -> str:
    """Returns the time of day as the record has it."""
    return to_text(datetime.now(UTC))


def leave_claim(folder: AttemptFolder, claim: Claim) -> None:
    """Writes whose attempt it is into its folder.

    Raises:
        OSError: It cannot be written.
    """
    text = json.dumps({"claim": asdict(claim), "at": now()}, indent=1)
    write_whole(folder.claim, text, durable=False)


def read_claim(folder: AttemptFolder) -> Claimed | None:
    """Returns whose attempt it is; None where the folder does not say.

    Raises:
        ValueError: The file is not one of ours.
    """
    return _read(
        folder.claim, lambda plain: Claimed(claim=_claim(plain["claim"]), at=_text(plain["at"]))
    )


def leave_verdict(file: Path, verdict: Verdict) -> None:
    """Writes the verdict whole, and waits until it is on the disk.

    An attempt that could not be started may have no folder yet. Where the disk takes nothing, the
    database alone has the verdict; the study's next coordinator writes it, see `mirroring`.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(verdict), indent=1, default=dict), durable=True)
    except OSError as error:
        _log.warning("%s: %s", file, error)


def read_verdict(file: Path) -> Verdict | None:
    """Returns the verdict in the file; None where there is none.

    Raises:
        ValueError: The file is not one of ours.
    """
    return _read(file, _verdict)


def readable_verdict(file: Path) -> Verdict | None:
    """Returns the verdict in the file; None where there is none that can be read."""
    try:
        return read_verdict(file)
    except ValueError as error:
        _log.warning("%s", error)
        return None


def _read(file: Path, made: Callable[[Mapping[str, object]], T]) -> T | None:
    try:
        return made(json.loads(file.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file}: cut, or not written by sweeper ({error!r})"[:400]) from error


def _verdict(plain: Mapping[str, object]) -> Verdict:
    outcome, cost = _mapping(plain["outcome"]), _mapping(plain["cost"])
    return Verdict(
        claim=_claim(plain["claim"]),
        outcome=Outcome(
            reason=Reason(_text(outcome["reason"])),
            detail=_text(outcome["detail"]),
            evidence={
                str(name): _text(fact) for name, fact in _mapping(outcome["evidence"]).items()
            },
        ),
        cost=Cost(**cost),  # type: ignore[arg-type]  # the names and types are the file's
        max_resumes=_number(plain["max_resumes"]),
        events=None if plain["events"] is None else _number(plain["events"]),
        supervisor=_process(plain["supervisor"]),
        child=_process(plain["child"]),
        at=_text(plain["at"]),
    )


def _claim(plain: object) -> Claim:
    fields = dict(_mapping(plain))
    owner = Owner(**_mapping(fields.pop("owner")))  # type: ignore[arg-type]  # likewise
    return Claim(owner=owner, **fields)  # type: ignore[arg-type]  # likewise


def _process(plain: object) -> Process | None:
    return None if plain is None else Process(**_mapping(plain))  # type: ignore[arg-type]  # likewise


def _mapping(plain: object) -> Mapping[str, object]:
    if not isinstance(plain, Mapping):
        raise TypeError(f"not an object: {plain!r}")
    return plain


def _text(plain: object) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"not a text: {plain!r}")
    return plain


def _number(plain: object) -> int:
    if not isinstance(plain, int):
        raise TypeError(f"not a number: {plain!r}")
    return plain
