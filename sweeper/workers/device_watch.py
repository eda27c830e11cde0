"""Who holds how much memory on a trial's GPUs, as the driver sees it. Neither torch nor CUDA.

A trial's devices are those that its slot names by UUID and those on which its processes were seen:
a bare number is CUDA's, and may be another device for the driver.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import psutil
import pynvml

from sweeper.workers.gpus import Nvml, handles, uuid_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one look at the trial's devices saw.

    Attributes:
        held_bytes: By the trial's processes, on all of its devices together.
        foreign_processes: Process ids of others on these devices.
        foreign_bytes: What those hold, as far as the driver tells.
        room_bytes: What the others leave of the device on which they hold most; None without any.
    """

    held_bytes: int = 0
    foreign_processes: tuple[int, ...] = ()
    foreign_bytes: int = 0
    room_bytes: int | None = None

    def crowding(self, limit_bytes: int | None) -> str | None:
        """Returns the sentence for others that took memory from the trial, or None.

        They did not where they leave as much as its own limit allows it.
        """
        if self.room_bytes is None:
            return None
        if limit_bytes is not None and self.room_bytes >= limit_bytes:
            return None
        numbers = ", ".join(map(str, self.foreign_processes))
        return (
            f"other processes on the device ({numbers}) hold {self.foreign_bytes} bytes and leave "
            f"{self.room_bytes}; the trial held {self.held_bytes}"
        )


@dataclass(slots=True)
class _Device:
    total_bytes: int
    own: dict[int, int] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)

    @property
    def room_bytes(self) -> int:
        return self.total_bytes - sum(self.others.values())


class DeviceWatch:
    """Asks the driver again and again. Where it does not answer nothing is seen.

    Args:
        devices: `CUDA_VISIBLE_DEVICES` of the trial.
    """

    def __init__(self, devices: str, nvml: Nvml = pynvml) -> None:
        self._names = {name.strip() for name in devices.split(",")}
        self._nvml = nvml
        self._seen: set[str] = set()
        self._silent = False

    def look(self, processes: Collection[int]) -> Usage | None:
        """Returns what is held now, or None where the driver does not say.

        Args:
            processes: Ids of the trial's.
        """
        try:
            with self._driver():
                found = list(self._devices(processes))
        except self._nvml.NVMLError as error:
            if not self._silent:
                self._silent = True
                _log.warning("the driver does not tell who uses the GPU: %s", error)
            return None
        return _usage(found)

    @contextlib.contextmanager
    def _driver(self) -> Iterator[None]:
        self._nvml.nvmlInit()
        try:
            yield
        finally:
            self._nvml.nvmlShutdown()

    def _devices(self, processes: Collection[int]) -> Iterator[_Device]:
        for handle in handles(self._nvml):
            uuid = uuid_of(self._nvml, handle)
            device = self._device(handle, processes)
            if device.own:
                self._seen.add(uuid)
            if uuid in self._seen:
                yield device
            elif uuid in self._names:
                # ours may hide here under the numbers of another process namespace
                device.others = {p: n for p, n in device.others.items() if psutil.pid_exists(p)}
                yield device

    def _device(self, handle: object, processes: Collection[int]) -> _Device:
        device = _Device(self._nvml.nvmlDeviceGetMemoryInfo(handle).total)
        for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle):
            side = device.own if process.pid in processes else device.others
            side[process.pid] = process.usedGpuMemory or 0  # None: the driver does not tell
        return device


def _usage(devices: Iterable[_Device]) -> Usage:
    found = list(devices)
    crowded = [device for device in found if device.others]
    return Usage(
        held_bytes=sum(sum(device.own.values()) for device in found),
        foreign_processes=tuple(sorted({pid for device in crowded for pid in device.others})),
        foreign_bytes=sum(sum(device.others.values()) for device in crowded),
        room_bytes=min((device.room_bytes for device in crowded), default=None),
    )
