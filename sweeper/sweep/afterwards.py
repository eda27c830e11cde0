"""What a look at a trial afterwards needs: its base model unchanged, and a slot like its own."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sweeper.data.manifest import Manifest
from sweeper.data.request import PrepareRequest
from sweeper.errors import Fault, PlanError, StudyConflict
from sweeper.study.folder import StudyFolder
from sweeper.study.inputs import Inputs, changed_inputs
from sweeper.study.run_options import RunOptions
from sweeper.sweep.devices import is_on_cpu
from sweeper.workers.slots import Slot, find_slots, this_machine


def slot_alike(
    run: RunOptions, environment: Mapping[str, str], *, name: str, no_gpu: Fault
) -> Slot:
    """Returns a place of the kind that a trial ran on, for one rank.

    Args:
        environment: What the trial ran on, by field.
        name: Of the slot.
        no_gpu: What to say where the trial ran on a GPU and there is none.

    Raises:
        PlanError: There is no such place here.
    """
    if is_on_cpu(environment) is not False:
        return Slot(name=name, device=None)
    alone = run.model_copy(update={"devices_per_trial": 1, "trials_per_device": 1})
    slots = find_slots(alone, this_machine(os.environ), memory_bytes_per_rank=1)
    devices = [slot.device for slot in slots if slot.device is not None]
    if not devices:
        raise PlanError(no_gpu)
    return Slot(name=name, device=devices[0])


def refuse_another_model(folder: StudyFolder) -> None:
    """Refuses to go on with another base model than that of the study.

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
