"""The places where trials run side by side: GPUs by opaque identifiers, else processor cores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

from sweeper.errors import Fault, PlanError
from sweeper.study.run_options import RunOptions
from sweeper.workers.gpus import (
    ORDER_VARIABLE,
    VARIABLE,
    Gpu,
    cuda_without_driver_library,
    find_gpu,
    list_gpus,
)

CPU = "cpu"
"""In `run.slots`: a slot without a GPU. Each mention is one slot."""

INTERPRETER_BYTES = 512 << 20
"""What a trial's process holds before it loads a model: libraries, data, allocator."""

THREADS = 1
"""Threads of a trial. One, whatever the number of slots: results depend on it in the last bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one trial at a time.

    Attributes:
        name: Unique among the study's slots.
        device: Value of `CUDA_VISIBLE_DEVICES` for the trial, never interpreted: one device for
            each of its ranks, joined by commas. None: no GPU.
        threads: Threads that each rank of the trial may compute with.
        engine: An engine chooses the device; nothing is known of it before the trial runs.
    """

    name: str
    device: str | None
    threads: int = THREADS
    engine: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is to divide into slots.

    Attributes:
        visible_devices: `CUDA_VISIBLE_DEVICES` as the user set it; None when it is not set.
        gpus: What the driver lists.
        cores: Cores this process may use.
        free_memory_bytes: Host memory that is available.
        device_order: `CUDA_DEVICE_ORDER` as the user set it; None when it is not set.
        unlisted_device: The device file of a GPU that no driver library lists; None without one.
    """

    visible_devices: str | None
    gpus: tuple[Gpu, ...]
    cores: int
    free_memory_bytes: int
    device_order: str | None = None
    unlisted_device: str | None = None


def this_machine(environ: Mapping[str, str]) -> Machine:
    """Returns what this host offers to a process with these environment variables."""
    gpus = list_gpus()
    return Machine(
        visible_devices=environ.get(VARIABLE),
        gpus=gpus,
        cores=len(os.sched_getaffinity(0)),
        free_memory_bytes=psutil.virtual_memory().available,
        device_order=environ.get(ORDER_VARIABLE),
        unlisted_device=None if gpus else cuda_without_driver_library(),
    )


def trial_memory_bytes(*, parameters: int, trainable_parameters: int) -> int:
    """Estimates the host memory of one trial on a CPU.

    Float32 weights count twice, for activations and logits grow with them; a trainable scalar
    brings a gradient, two moments and the copy that shows whether it moved.
    """
    return INTERPRETER_BYTES + 4 * (2 * parameters + 4 * trainable_parameters)


def find_slots(
    run: RunOptions, machine: Machine, *, memory_bytes_per_rank: int
) -> tuple[Slot, ...]:
    """Returns the study's slots, in order.

    What `run.slots` names comes first, then what `CUDA_VISIBLE_DEVICES` names, then what the
    driver lists, then the cores. An empty `CUDA_VISIBLE_DEVICES` means no GPU. Trials of several
    ranks get as many devices, one after the other in that order, or as many cores; see
    `unused_devices`.

    Args:
        run: The study's `run:` section.
        machine: What there is.
        memory_bytes_per_rank: Host memory of one rank; bounds the slots on cores.

    Raises:
        PlanError: A device is named twice or is no device, every GPU is used by others, there are
            fewer devices than a trial takes, or there is a GPU and no library to ask for it.
    """
    devices = _devices(run, machine)
    if run.slots != "auto":
        slots = _on_devices(devices, run) + _on_cores(run.slots.count(CPU))
        return _at_least_one(slots)
    if devices:
        return _on_devices(devices, run)
    ranks = run.devices_per_trial
    if machine.cores < ranks:
        hint = f"Lower it, or write `slots: [{CPU}]` to let ranks share cores"
        raise PlanError(_too_few(ranks, f"{machine.cores} cores", hint))
    affordable = machine.free_memory_bytes // (memory_bytes_per_rank * ranks)
    return _on_cores(max(1, min(machine.cores // ranks, affordable)))


def unused_devices(run: RunOptions, machine: Machine) -> tuple[str, ...]:
    """Returns the devices at the end of the row that are too few for one more trial.

    Raises:
        PlanError: As `find_slots` does.
    """
    devices = _devices(run, machine)
    return devices[len(devices) - len(devices) % run.devices_per_trial :]


def _devices(run: RunOptions, machine: Machine) -> tuple[str, ...]:
    """Returns the GPUs that the study may use, in order."""
    if run.slots != "auto":
        names = [entry for entry in run.slots if entry != CPU]
        return _checked(names, machine, where="run.slots", got=", ".join(run.slots))
    if machine.visible_devices is not None:
        names = _visible(machine.visible_devices)
        return _checked(names, machine, where=VARIABLE, got=machine.visible_devices)
    if machine.unlisted_device is not None:
        raise PlanError(_unlisted(machine.unlisted_device))
    return _free(machine.gpus, use_busy=run.use_busy)


def _at_least_one(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    if not slots:
        fault = Fault(
            what="no slot is listed",
            where="run.slots",
            expected="`auto`, or a list of devices",
            hint=f"`[{CPU}]` runs one trial at a time without a GPU",
        )
        raise PlanError(fault)
    return slots


def _visible(value: str) -> list[str]:
    """Splits the variable as CUDA does; `-1` is its way to say that there is none."""
    names = [name.strip() for name in value.split(",")]
    return [] if names in ([""], ["-1"]) else names


def _unlisted(device: str) -> Fault:
    return Fault(
        what="there is a GPU, but the driver's library (NVML), which lists them, is not there",
        where="run.slots",
        got=f"auto, and {device}",
        expected="a list of devices",
        hint=f"Name the devices, as in `slots: ['0']`, install the library, or write "
        f"`slots: [{CPU}]` to run without a GPU",
    )


def _checked(names: list[str], machine: Machine, *, where: str, got: str) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    faults = [_fault(f"device {name!r} is named twice", where, got) for name in twice if name]
    faults += [_fault(what, where, got) for what in _named_in_two_ways(names, machine)]
    if any(name in {"", "-1"} or "," in name for name in names):
        faults.append(_fault("an entry is no device", where, got))
    if faults:
        raise PlanError(*faults)
    return tuple(names)


def _named_in_two_ways(names: Iterable[str], machine: Machine) -> Iterator[str]:
    """Yields the devices that have several of the names, as far as the driver can tell."""
    names_of: dict[str, set[str]] = {}
    for name in names:
        gpu = find_gpu(name, machine.gpus, device_order=machine.device_order)
        if gpu is not None:
            names_of.setdefault(gpu.uuid, set()).add(name)
    for uuid, given in names_of.items():
        if len(given) > 1:
            yield f"{' and '.join(map(repr, sorted(given)))} are the same device, {uuid}"


def _fault(what: str, where: str, got: str) -> Fault:
    return Fault(
        what=what,
        where=where,
        got=got,
        expected="every device once, for instance 0,1 or GPU-<uuid>",
        hint="Several trials on one device are `run.trials_per_device`",
    )


def _free(gpus: Iterable[Gpu], *, use_busy: bool) -> tuple[str, ...]:
    listed = tuple(gpus)
    free = tuple(gpu.uuid for gpu in listed if use_busy or not gpu.busy)
    if listed and not free:
        fault = Fault(
            what="every GPU of this host is used by other processes",
            where="run.slots",
            got=", ".join(gpu.uuid for gpu in listed),
            hint=f"Wait, share them with `use_busy: true`, or run without: `slots: [{CPU}]`",
        )
        raise PlanError(fault)
    return free


def _on_devices(devices: Sequence[str], run: RunOptions) -> tuple[Slot, ...]:
    """Several trials per device share all of a group: no trial has a part of it to itself."""
    ranks, trials = run.devices_per_trial, run.trials_per_device
    if devices and len(devices) < ranks:
        raise PlanError(_too_few(ranks, ", ".join(devices), "Lower it, or give more devices"))
    firsts = range(0, len(devices) - ranks + 1, ranks)
    groups = [",".join(devices[first : first + ranks]) for first in firsts]
    if trials == 1:
        return tuple(Slot(name=f"gpu {group}", device=group) for group in groups)
    return tuple(
        Slot(name=f"gpu {group} {place}", device=group)
        for place in range(1, trials + 1)
        for group in groups
    )


def _too_few(ranks: int, got: str, hint: str) -> Fault:
    return Fault(
        what="a trial takes more devices than there are",
        where="run.devices_per_trial",
        got=f"{ranks} with {got}",
        hint=hint,
    )


def _on_cores(count: int) -> tuple[Slot, ...]:
    return tuple(Slot(name=f"{CPU} {place}", device=None) for place in range(1, count + 1))
