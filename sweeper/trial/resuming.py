"""Which checkpoint an attempt goes on from: the newest valid one of the attempts before it.

Earlier folders are read and never written. What is damaged, or belongs to something else, is named
and passed over; when nothing is left the trial starts over and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sweeper.errors import Fault, ModelError
from sweeper.study.spec import TrialSpec
from sweeper.training.checkpoint import (
    DamagedCheckpoint,
    Found,
    checkpoint_folders,
    read_checkpoint,
)
from sweeper.training.keeper import CHECKPOINTS
from sweeper.trial.folder import AttemptFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What an attempt goes on from.

    Attributes:
        found: None: it starts from the beginning.
        notices: What was passed over, and that it starts over if it does, as sentences.
        differences: How the process differs from the one that made the checkpoint.
    """

    found: Found | None
    notices: tuple[str, ...]
    differences: tuple[str, ...] = ()


def owner_of(spec: TrialSpec) -> dict[str, str]:
    """Returns what a checkpoint of this trial says that it belongs to."""
    return {"fingerprint": spec.fingerprint, "cell": spec.cell, "study": spec.study}


def find_resumption(spec: TrialSpec, *, device_type: str) -> Resumption:
    """Returns the newest checkpoint that is valid and the trial's own.

    Args:
        device_type: `cpu` or `cuda`: what this attempt runs on.

    Raises:
        ModelError: It was made on another kind of device or number of ranks, and the spec does not
            ask to go on all the same.
    """
    notices: list[str] = []
    for folder in _earlier(spec):
        for candidate in checkpoint_folders(folder.path / CHECKPOINTS):
            try:
                found = own_checkpoint(read_checkpoint(candidate), spec)
            except DamagedCheckpoint as error:
                notices.append(f"the checkpoint {candidate} is passed over: {error}")
                continue
            differences = _differences(found, spec, device_type)
            if differences and not spec.resume_elsewhere:
                raise ModelError(*(_refusal(found, sentence) for sentence in differences))
            return Resumption(found=found, notices=tuple(notices), differences=differences)
    if spec.resume_from is not None:
        notices.append(f"no checkpoint in {spec.resume_from} to go on from: the trial starts over")
    return Resumption(found=None, notices=tuple(notices))


def _earlier(spec: TrialSpec) -> Iterator[AttemptFolder]:
    """Yields the attempts before, the latest first, along what each of them resumed from."""
    seen: set[str] = set()
    before = spec.resume_from
    while before is not None and before not in seen:
        seen.add(before)
        folder = AttemptFolder(Path(before))
        yield folder
        try:
            before = TrialSpec.read(folder.spec).resume_from
        except (OSError, ValidationError):  # it may have died before it was told
            return


def own_checkpoint(found: Found, spec: TrialSpec) -> Found:
    """Returns the checkpoint if it is the trial's own.

    Raises:
        DamagedCheckpoint: It is another's.
    """
    if found.owner != owner_of(spec):
        owner = ", ".join(f"{name} {value}" for name, value in sorted(found.owner.items()))
        raise DamagedCheckpoint(f"it belongs to another trial: {owner or 'nobody says which'}")
    return found


def _differences(found: Found, spec: TrialSpec, device_type: str) -> tuple[str, ...]:
    snapshot = found.snapshot
    pairs = (
        ("device", snapshot.device_type, device_type),
        ("number of ranks", str(snapshot.ranks), str(spec.ranks)),
    )
    return tuple(f"the {name} was {was}, now {now}" for name, was, now in pairs if was != now)


def _refusal(found: Found, sentence: str) -> Fault:
    return Fault(
        what=f"the trial cannot go on to the bit: {sentence}",
        where=str(found.folder),
        hint="Run it where it ran before, or `sweeper run --resume-elsewhere`; it is marked then",
    )
