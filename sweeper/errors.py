"""The errors a caller may handle.

    SweeperError
    ├── UserError                 the user can mend it; the command line exits with 2
    │   ├── StudyFileError        the study file: unknown keys, wrong values, bad YAML
    │   ├── DataError             records, splits, files that hold them
    │   ├── ModelError            the model folder, the tokenizer, the adapter's targets
    │   ├── PlanError             a study that is well formed but cannot be run as asked
    │   ├── StudyConflict         the run folder holds a study with another fingerprint
    │   ├── StudyBusy             another coordinator is running the study
    │   ├── RunFolderError        the run folder cannot be written, or is not one
    │   └── NotFound              a study, trial or column that does not exist
    ├── StoreError                the study database cannot be used; exit status 1
    │   ├── StoreUnavailable      it cannot be reached, has no room or stays busy; that may pass
    │   │   └── StoreUnreachable  no connection to its server; a UserError too
    │   └── StoreForbidden        its server forbids what it is asked for; a UserError too
    └── EventsDamaged             a trial's events were cut, replaced or overwritten

A trial that goes wrong is no error but a value: see `records.Outcome`.

Owns: how a fault is worded. Refuses to know: who prints it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, in the four parts every message has.

    Attributes:
        what: The fault as a sentence without a full stop.
        where: File and line, key path, record or trial.
        got: What was found, as the user wrote it.
        expected: What would have been right.
        hint: What to do next, as a sentence; its full stop may be left out.
    """

    what: str
    where: str | None = None
    got: str | None = None
    expected: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        details = [
            f"{label} {text}"
            for label, text in (("got", self.got), ("expected", self.expected))
            if text is not None
        ]
        if details:
            head += f" ({'; '.join(details)})"
        hint = f" {_sentence(self.hint)}" if self.hint else ""
        return f"{head}.{hint}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


class SweeperError(Exception):
    """Root of every error that sweeper raises on purpose.

    All faults found in one go are carried together, so that a user mends them in one go.
    """

    def __init__(self, *faults: Fault | str) -> None:
        self.faults = tuple(f if isinstance(f, Fault) else Fault(what=f) for f in faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[SweeperError], tuple[Fault, ...]]:
        return type(self), self.faults


class UserError(SweeperError):
    """Something the user can mend."""


class StudyFileError(UserError):
    """The study file is not what the schema asks for."""


class DataError(UserError):
    """A data file, a record or a split is not usable."""


class ModelError(UserError):
    """The model, its tokenizer or its adapter is not usable."""


class PlanError(UserError):
    """The study is well formed, but cannot be run as it asks."""


class StudyConflict(UserError):
    """The run folder belongs to a study with another fingerprint."""


class StudyBusy(UserError):
    """Another coordinator, which is named, is running the study."""


class RunFolderError(UserError):
    """The run folder is not one, or cannot be written."""


class NotFound(UserError):
    """What was asked for does not exist."""


class StoreError(SweeperError):
    """The study database cannot be used."""


class StoreUnavailable(StoreError):
    """The study database cannot be used at the moment, whatever it is asked for."""


class StoreUnreachable(StoreUnavailable, UserError):
    """No connection to the study database's server: it is away, or does not let this user in."""


class StoreForbidden(StoreError, UserError):
    """The study database's server does not allow this user what was asked for."""


class EventsDamaged(SweeperError):
    """A trial's events are no longer what the trial wrote."""


def as_plain(error: SweeperError) -> dict[str, object]:
    """Returns the error as plain values, for instance to cross a process boundary as JSON."""
    faults = [{name: getattr(fault, name) for name in _PARTS} for fault in error.faults]
    return {"error": type(error).__name__, "faults": faults}


def from_plain(plain: dict[str, object]) -> SweeperError:
    """Returns the error that `as_plain` described; an unknown kind becomes a `SweeperError`."""
    faults = plain["faults"]
    assert isinstance(faults, list)
    own = (StoreError, StoreUnavailable)
    kinds: tuple[type[SweeperError], ...] = (*UserError.__subclasses__(), UserError, *own)
    name = str(plain["error"])
    kind = next((kind for kind in kinds if kind.__name__ == name), SweeperError)
    return kind(*(Fault(**fault) for fault in faults))


_PARTS = ("what", "where", "got", "expected", "hint")


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Returns the valid name closest to `name`, or None when none is close."""
    matches = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return matches[0] if matches else None
