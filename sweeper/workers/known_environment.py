"""What is known of a slot of this host before a trial runs in it, as trials would report it.

No torch: versions come from what is installed, models of GPUs from the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeper.study.run_options import RunOptions
from sweeper.study.same_environment import CPU, DEVICE, SOME_GPU
from sweeper.training.host import describe_host
from sweeper.workers.gpus import ORDER_VARIABLE, Gpu, find_gpu
from sweeper.workers.slots import Slot


def told_by_the_file(run: RunOptions) -> Mapping[str, str]:
    """Returns what the study file says of the environment that a trial reports."""
    return {
        "micro_batch": str(run.micro_batch),
        "ranks": str(run.devices_per_trial),
        "deterministic": "yes" if run.deterministic else "no",
    }


def known_environment(
    slot: Slot, run: RunOptions, gpus: Sequence[Gpu], environ: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the fields that are known of the slot; none where an engine chooses the place.

    Args:
        gpus: What the driver lists.
        environ: Environment variables of this process.
    """
    if slot.engine:
        return {}
    here = {DEVICE: _device(slot, gpus, environ), "threads": str(slot.threads)}
    return {**describe_host(), **told_by_the_file(run), **here}


def _device(slot: Slot, gpus: Sequence[Gpu], environ: Mapping[str, str]) -> str:
    """Returns the model of the slot's first GPU, which is the one that a trial reports."""
    if slot.device is None:
        return CPU
    order = environ.get(ORDER_VARIABLE)
    gpu = find_gpu(slot.device.split(",")[0], gpus, device_order=order)
    return SOME_GPU if gpu is None or gpu.model is None else gpu.model
