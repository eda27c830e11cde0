"""Has the last windows of an attempt run again by a child process, in a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweeper.data.manifest import Manifest
from sweeper.data.request import PrepareRequest
from sweeper.errors import Fault, PlanError, RunFolderError, StudyConflict
from sweeper.files import write_whole
from sweeper.study.child import ChildCall, Progress, run_child
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import Inputs, changed_inputs
from sweeper.study.loading import load_study
from sweeper.sweep.devices import is_on_cpu
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.report import ReplayReport
from sweeper.trial.replay.request import Change, ReplayRequest
from sweeper.workers.environment import trial_environment
from sweeper.workers.slots import Slot, find_slots, this_machine

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
    _refuse_another_model(order.folder)
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
        ),
        progress,
    )
    return Replay(folder=folder.path, report=ReplayReport.read(folder.report))


def _slot(order: ReplayOrder) -> Slot:
    """Returns a place of the kind that the attempt ran on, for one rank."""
    if is_on_cpu(order.environment) is not False:
        return Slot(name="replay", device=None)
    run = load_study(order.folder.recorded_study).study.run
    alone = run.model_copy(update={"devices_per_trial": 1, "trials_per_device": 1})
    slots = find_slots(alone, this_machine(os.environ), memory_bytes_per_rank=1)
    devices = [slot.device for slot in slots if slot.device is not None]
    if not devices:
        raise PlanError(
            Fault(
                what="the trial ran on a GPU, and there is none here to replay it on",
                where=order.trial,
                expected=order.environment.get("device"),
                hint="Replay it where it ran: a processor gives other numbers",
            )
        )
    return Slot(name="replay", device=devices[0])


def _refuse_another_model(folder: StudyFolder) -> None:
    """Refuses to replay with weights that are not those of the study.

    Raises:
        StudyConflict: The model's files have changed, or are gone.
        RunFolderError: The prepared data are gone.
    """
    manifest = Manifest.read(folder.prepared)
    request = PrepareRequest.read(folder.prepared / "request.json")
    inputs = Inputs.model_validate_json(folder.inputs.read_bytes())
    found = changed_inputs(inputs, request, manifest)
    if faults := [fault for fault in found if fault.where == request.model.path]:
        raise StudyConflict(*faults)


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
