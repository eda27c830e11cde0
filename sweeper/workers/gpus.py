"""The GPUs of this host by UUID, asked of the driver without touching CUDA."""

# ruff: noqa: N802, D102 - the driver's functions keep the names that NVIDIA gave them
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pynvml

from sweeper.errors import Fault, PlanError

VARIABLE = "CUDA_VISIBLE_DEVICES"
"""In the environment of a trial: which devices it has."""

ORDER_VARIABLE = "CUDA_DEVICE_ORDER"
"""In the environment of a user: what numbers in the other variable count."""
BUS_ORDER = "PCI_BUS_ID"
"""Its value for the driver's own order; otherwise CUDA puts what it takes for the fastest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device that a trial can be given.

    Attributes:
        uuid: `GPU-…`, or `MIG-…` for a part of a divided device.
        busy: Whether processes compute on it.
        model: Its name, as CUDA says it too; None for a part, or where the driver does not tell.
        is_part: Whether it is a part of a divided device.
    """

    uuid: str
    busy: bool
    model: str | None = None
    is_part: bool = False


class DeviceProcess(Protocol):
    """A process on a device; the memory is None where the driver does not tell."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815


class DeviceMemory(Protocol):
    """Memory of a device in bytes."""

    total: int
    used: int


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
    def nvmlDeviceGetName(self, handle: object) -> str | bytes: ...
    def nvmlDeviceGetMigMode(self, handle: object) -> Sequence[int]: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int) -> object: ...
    def nvmlDeviceGetMemoryInfo(self, handle: object) -> DeviceMemory: ...
    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> Sequence[DeviceProcess]: ...


class DriverSession:
    """The driver's library, initialised at the first question and kept for all that follow.

    After an error it is initialised anew: a driver that was restarted asks for it. For one thread.
    """

    def __init__(self, nvml: Nvml = pynvml) -> None:
        self._nvml = nvml
        self._is_open = False
        self.error = nvml.NVMLError

    @contextlib.contextmanager
    def asked(self) -> Iterator[Nvml]:
        """Yields the library.

        Raises:
            NVMLError: There is no driver, or it does not answer.
        """
        if not self._is_open:
            self._nvml.nvmlInit()
            self._is_open = True
        try:
            yield self._nvml
        except self.error:
            self.close()
            raise

    def close(self) -> None:
        """Gives the library back; the next question opens it again."""
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(self.error):
                self._nvml.nvmlShutdown()


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
        return tuple(gpu for device in _whole(nvml) for gpu in _listed(nvml, device))
    except nvml.NVMLError as error:
        raise _no_answer(error) from error
    finally:
        nvml.nvmlShutdown()


def gpus_if_told(nvml: Nvml = pynvml) -> tuple[Gpu, ...]:
    """Returns the same; none where the driver does not answer. For what one can do without."""
    try:
        return list_gpus(nvml)
    except PlanError:
        return ()


def handles(nvml: Nvml) -> list[object]:
    """Returns the driver's handles of all devices, of a divided one those of its parts.

    Raises:
        NVMLError: The driver does not answer; it must be initialised.
    """
    return [handle for device in _whole(nvml) for handle in _parts(nvml, device)]


def uuid_of(nvml: Nvml, handle: object) -> str:
    """Returns the identifier of a device.

    Raises:
        NVMLError: The driver does not answer.
    """
    return _text(nvml.nvmlDeviceGetUUID(handle))


def find_gpu(name: str, gpus: Sequence[Gpu], *, device_order: str | None) -> Gpu | None:
    """Returns the device that a name in `CUDA_VISIBLE_DEVICES` means, or None where it is not sure.

    Identifiers may be shortened as long as they mean one device. A number is CUDA's: it counts as
    the driver does where `CUDA_DEVICE_ORDER` says so, or where all devices are of one model, so
    that there is no faster one to come first.

    Args:
        gpus: What the driver lists.
        device_order: Value of `CUDA_DEVICE_ORDER`; None when it is not set.
    """
    if not name.isdecimal():
        meant = [gpu for gpu in gpus if name and gpu.uuid.startswith(name)]
        return meant[0] if len(meant) == 1 else None
    in_order = device_order == BUS_ORDER or len({gpu.model for gpu in gpus}) == 1
    has_parts = any(gpu.is_part for gpu in gpus)  # they have no numbers, nor has what they are of
    if has_parts or not in_order or int(name) >= len(gpus):
        return None
    return gpus[int(name)]


def cuda_without_driver_library(dev: Path = Path("/dev")) -> str | None:
    """Returns the device file that shows that there is a GPU; None where there is none.

    For a host whose driver library is not there: without any such file CUDA has nothing to work
    with, whatever torch was built for.
    """
    return next((str(dev / name) for name in _DEVICE_FILES if (dev / name).exists()), None)


_DEVICE_FILES = ("nvidia0", "nvidiactl", "dxg", "nvhost-gpu")
"""Of the usual driver, of Windows' subsystem for Linux, of Tegra boards."""


def _text(name: str | bytes) -> str:
    return name.decode("utf-8") if isinstance(name, bytes) else name


def _whole(nvml: Nvml) -> list[object]:
    """Returns the handles of the devices as they are, divided or not, in the driver's order."""
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


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


def _listed(nvml: Nvml, device: object) -> list[Gpu]:
    """Returns the device, or its parts."""
    parts = _parts(nvml, device)
    if parts == [device]:
        return [_gpu(nvml, device, model=_model(nvml, device))]
    return [_gpu(nvml, part, is_part=True) for part in parts]


def _gpu(nvml: Nvml, handle: object, *, model: str | None = None, is_part: bool = False) -> Gpu:
    return Gpu(
        uuid=uuid_of(nvml, handle),
        busy=bool(nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
        model=model,
        is_part=is_part,
    )


def _model(nvml: Nvml, device: object) -> str | None:
    try:
        return _text(nvml.nvmlDeviceGetName(device))
    except nvml.NVMLError:
        return None
