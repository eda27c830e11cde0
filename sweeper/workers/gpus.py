"""The GPUs of this host by UUID, asked of the driver without touching CUDA."""

# ruff: noqa: N802, D102 - the driver's functions keep the names that NVIDIA gave them
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pynvml

from sweeper.errors import Fault, PlanError

VARIABLE = "CUDA_VISIBLE_DEVICES"
"""In the environment of a trial: which devices it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device that a trial can be given.

    Attributes:
        uuid: `GPU-…`, or `MIG-…` for a part of a divided device.
        busy: Whether processes compute on it.
    """

    uuid: str
    busy: bool


class DeviceProcess(Protocol):
    """A process on a device; the memory is None where the driver does not tell."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815


class DeviceMemory(Protocol):
    """Memory of a device in bytes."""

    total: int


class Nvml(Protocol):
    """The part of `pynvml` that is asked; its names are NVIDIA's."""

    NVMLError: type[Exception]
    NVMLError_LibraryNotFound: type[Exception]
    NVMLError_DriverNotLoaded: type[Exception]

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...
    def nvmlDeviceGetUUID(self, handle: object) -> str | bytes: ...
    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int) -> object: ...
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> DeviceMemory: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[DeviceProcess]: ...


def list_gpus(nvml: Nvml = pynvml) -> tuple[Gpu, ...]:
    """Returns this host's GPUs in the driver's order; none where there is no driver.

    A GPU that is divided (MIG) is listed as its parts.

    Raises:
        PlanError: There is a driver, but it does not answer: that is no reason to use the CPU.
    """
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return ()
    except nvml.NVMLError as error:
        raise _no_answer(error) from error
    try:
        return tuple(_gpu(nvml, handle) for handle in handles(nvml))
    except nvml.NVMLError as error:
        raise _no_answer(error) from error
    finally:
        nvml.nvmlShutdown()


def handles(nvml: Nvml) -> list[object]:
    """Returns the driver's handles of all devices, of a divided one those of its parts.

    Raises:
        NVMLError: The driver does not answer; it must be initialised.
    """
    count = nvml.nvmlDeviceGetCount()
    whole = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    return [handle for device in whole for handle in _parts(nvml, device)]


def uuid_of(nvml: Nvml, handle: object) -> str:
    """Returns the identifier of a device.

    Raises:
        NVMLError: The driver does not answer.
    """
    uuid = nvml.nvmlDeviceGetUUID(handle)
    return uuid.decode("ascii") if isinstance(uuid, bytes) else uuid


def _no_answer(error: Exception) -> PlanError:
    return PlanError(
        Fault(
            what="the NVIDIA driver does not tell its GPUs",
            got=str(error),
            hint="Mend the driver (see nvidia-smi), name the devices in `run.slots`, or write "
            "`slots: [cpu]` to run without a GPU",
        )
    )


def _parts(nvml: Nvml, device: object) -> list[object]:
    try:
        divided, _pending = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError:  # a model that cannot be divided
        return [device]
    if not divided:
        return [device]
    places = range(nvml.nvmlDeviceGetMaxMigDeviceCount(device))
    parts = [_part(nvml, device, place) for place in places]
    return [part for part in parts if part is not None]


def _part(nvml: Nvml, device: object, place: int) -> object | None:
    try:
        return nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, place)
    except nvml.NVMLError:  # the place is empty
        return None


def _gpu(nvml: Nvml, handle: object) -> Gpu:
    return Gpu(
        uuid=uuid_of(nvml, handle),
        busy=bool(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
    )
