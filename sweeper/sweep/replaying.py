"""Has the last windows of an attempt run again by a child process, in a folder of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.errors import Fault, RunFolderError
from sweeper.files import write_whole
from sweeper.study.child import ChildCall, Progress, run_child
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.storage import variables
from sweeper.sweep.afterwards import refuse_another_model, slot_alike
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.report import ReplayReport
from sweeper.trial.replay.request import Change, ReplayRequest
from sweeper.workers.environment import trial_environment
from sweeper.workers.slots import Slot

MODULE = "sweeper.trial.replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOrder:
    """Which attempt is to be replayed, and how.

    Attributes:
        folder: The run folder of the study.
        trial: `arm/seed`.
        attempt: Folder of the attempt, in the run folder.
        environment: What the attempt ran on, by field.
        windows: How many at least; None: from the newest checkpoint before what ended it began.
        change: None: nothing is changed.
    """

    folder: StudyFolder
    trial: str
    attempt: str
    environment: Mapping[str, str]
    windows: int | None
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A replay that was carried out: its folder and what was found."""

    folder: Path
    report: ReplayReport


def replay(order: ReplayOrder, *, progress: Progress) -> Replay:
    """Carries out a replay and returns what was found.

    It runs on a device of the kind that the attempt ran on. Nothing is written but a new folder
    below `replays/`.

    Raises:
        UserError: The attempt cannot be replayed, or not so, or there is no such device.
        SweeperError: The child failed in another way.
    """
    refuse_another_model(order.folder)
    slot = _slot(order)
    request = ReplayRequest(
        attempt=str(order.folder.path.resolve() / order.attempt),
        prepared=str(order.folder.prepared.resolve()),
        windows=order.windows,
        change=order.change,
    )
    folder = _new_folder(order)
    write_whole(folder.request, request.to_json())
    run_child(
        ChildCall(
            module=MODULE,
            arguments=(str(folder.path),),
            purpose=f"replaying {order.trial}",
            log=folder.log,
            environment=trial_environment(AttemptFolder(folder.path), slot),
            hidden=variables(load_study(order.folder.recorded_study).study.run.storage),
        ),
        progress,
    )
    return Replay(folder=folder.path, report=ReplayReport.read(folder.report))


def _slot(order: ReplayOrder) -> Slot:
    """Returns a place of the kind that the attempt ran on, for one rank."""
    run = load_study(order.folder.recorded_study).study.run
    no_gpu = Fault(
        what="the trial ran on a GPU, and there is none here to replay it on",
        where=order.trial,
        expected=order.environment.get("device"),
        hint="Replay it where it ran: a processor gives other numbers",
    )
    return slot_alike(run, order.environment, name="replay", no_gpu=no_gpu)


def _new_folder(order: ReplayOrder) -> ReplayFolder:
    """Makes a folder that no other replay has, however many run at once."""
    name = order.trial.replace("/", "-")
    number = 1
    try:
        order.folder.replays.mkdir(exist_ok=True)
        while True:
            folder = ReplayFolder(order.folder.replays / f"{name}-{number}")
            try:
                folder.path.mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder
    except OSError as error:
        raise RunFolderError(
            Fault(
                what="the replay has no place to write to",
                where=str(order.folder.replays),
                got=error.strerror,
                hint="Make the run folder writable",
            )
        ) from error
