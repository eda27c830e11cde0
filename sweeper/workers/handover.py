"""What a coordinator and the node of an engine's job tell each other, through the attempt's folder.

They share nothing else: no network, no clock, no database. Standard library only.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweeper.files import write_whole
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.limits import TrialLimits
from sweeper.workers.liveness import host_name

_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOrder:
    """What a node is to run.

    Attributes:
        argv: Program and arguments.
        environment: Added to what the engine gives the job.
    """

    argv: Sequence[str]
    environment: Mapping[str, str]
    limits: TrialLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the coordinator asks of the node.

    Attributes:
        grace_seconds: For an orderly end; None asks for an end at once.
    """

    grace_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """The engine's job of an attempt."""

    engine: str
    id: str
    name: str


def write_order(folder: AttemptFolder, order: NodeOrder) -> None:
    """Leaves the order for the node.

    Raises:
        OSError: The folder cannot be written.
    """
    plain = {
        "argv": list(order.argv),
        "environment": dict(order.environment),
        "limits": order.limits.to_plain(),
    }
    write_whole(folder.order, json.dumps(plain, indent=1, allow_nan=False))


def read_order(folder: AttemptFolder) -> NodeOrder:
    """Returns the order.

    Raises:
        OSError: There is none.
        ValueError: It is none of ours.
    """
    try:
        plain = json.loads(folder.order.read_text("utf-8"))
        return NodeOrder(
            argv=tuple(str(part) for part in plain["argv"]),
            environment={str(name): str(value) for name, value in plain["environment"].items()},
            limits=TrialLimits.from_plain(plain["limits"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an order: {folder.order}") from error


def take(folder: AttemptFolder, *, by: str) -> bool:
    """Takes the attempt, in one step, for the caller alone; False when somebody has it already.

    An engine may start a job twice, or late: whoever has not taken the attempt leaves it alone. A
    coordinator takes it to call it off before it begins.

    Args:
        by: Who that is, for people.

    Raises:
        OSError: The folder cannot be written.
    """
    note = {"by": by, "host": host_name(), "pid": os.getpid(), "at": time.time()}
    try:
        descriptor = os.open(folder.taken, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(note, stream)
    return True


def write_request(folder: AttemptFolder, request: Request) -> None:
    """Asks the node; a later request replaces an earlier one.

    Raises:
        OSError: The folder cannot be written.
    """
    grace = request.grace_seconds
    plain = {"command": "kill"} if grace is None else {"command": "stop", "grace_seconds": grace}
    write_whole(folder.request, json.dumps(plain, allow_nan=False))


def read_request(folder: AttemptFolder) -> Request | None:
    """Returns what is asked; None while nothing is, or nothing that makes sense."""
    try:
        plain = json.loads(folder.request.read_text("utf-8"))
        if plain["command"] == "kill":
            return Request(grace_seconds=None)
        return Request(grace_seconds=float(plain["grace_seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_job(folder: AttemptFolder, job: SubmittedJob) -> None:
    """Leaves the job's id for a coordinator after this one.

    Raises:
        OSError: The folder cannot be written.
    """
    plain = {"engine": job.engine, "id": job.id, "name": job.name}
    write_whole(folder.job, json.dumps(plain, allow_nan=False))


def read_job(folder: AttemptFolder) -> SubmittedJob | None:
    """Returns the attempt's job; None where there is no telling."""
    try:
        plain = json.loads(folder.job.read_text("utf-8"))
        return SubmittedJob(
            engine=str(plain["engine"]), id=str(plain["id"]), name=str(plain["name"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
