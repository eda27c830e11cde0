"""Who holds how much memory on a trial's GPUs, as the driver sees it. Neither torch nor CUDA.

A trial's devices are those that its slot names by UUID and those on which its processes were seen:
a bare number is CUDA's, and may be another device for the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import psutil

from sweeper.workers.gpus import DriverSession, Nvml, handles, uuid_of

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
    used_bytes: int = 0
    own: dict[int, int] = field(default_factory=dict)
    siblings: dict[int, int] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)

    @property
    def room_bytes(self) -> int:
        return self.total_bytes - sum(self.others.values())


class DeviceWatch:
    """Asks the driver again and again. Where it does not answer nothing is seen.

    To be made before the trial starts: what it looks like then is what it has to look like after.

    Args:
        devices: `CUDA_VISIBLE_DEVICES` of the trial.
        is_sibling: Whether a process is that of another trial of the same study, which the user
            lets share the device.
    """

    def __init__(
        self,
        devices: str,
        driver: DriverSession,
        *,
        is_sibling: Callable[[int], bool] = lambda _number: False,
    ) -> None:
        self._names = [name.strip() for name in devices.split(",")]
        self._driver = driver
        self._is_sibling = is_sibling
        self._seen: set[str] = set()
        self._own: set[int] = set()
        self._peak_bytes: dict[str, int] = {}
        self._silent = False
        self._before = dict(self._all() or ())

    def look(self, processes: Collection[int]) -> Usage | None:
        """Returns what is held now, or None where the driver does not say.

        Args:
            processes: Ids of the trial's.
        """
        self._own |= set(processes)
        listed = self._all()
        return None if listed is None else _usage(self._of_the_trial(listed))

    def not_back(self) -> str | None:
        """Returns, once no process of the trial is left, what of its memory is not back yet.

        The trial must not be listed any more. On a device that lists nobody else, it must not hold
        more than before either, by half of what the trial was seen to hold: a smaller rise is a
        desktop's, or somebody's whom the driver does not list. None where all is back, or where the
        driver does not say.
        """
        for uuid, device in self._all() or ():
            if uuid not in self._seen and not self._names_it(uuid):
                continue
            before = self._before.get(uuid, _Device(total_bytes=device.total_bytes))
            peak_bytes = self._peak_bytes.get(uuid, 0)
            is_alone = not device.own and not device.others and not device.siblings
            has_risen = device.used_bytes > before.used_bytes + peak_bytes // 2
            if is_alone and peak_bytes and has_risen:
                return (
                    f"device {uuid} holds {device.used_bytes} bytes, {before.used_bytes} before "
                    "the trial"
                )
            if listed := sorted(set(device.own) | _strangers(device, before)):
                numbers = ", ".join(map(str, listed))
                return f"device {uuid} still lists the trial's process ({numbers})"
        return None

    def _all(self) -> list[tuple[str, _Device]] | None:
        try:
            with self._driver.asked() as nvml:
                return [
                    (uuid_of(nvml, handle), self._device(nvml, handle)) for handle in handles(nvml)
                ]
        except self._driver.error as error:
            if not self._silent:
                self._silent = True
                _log.warning("the driver does not tell who uses the GPU: %s", error)
            return None

    def _of_the_trial(self, listed: Iterable[tuple[str, _Device]]) -> Iterator[_Device]:
        for uuid, device in listed:
            if device.own:
                self._seen.add(uuid)
                held_bytes = sum(device.own.values())
                self._peak_bytes[uuid] = max(held_bytes, self._peak_bytes.get(uuid, 0))
            if uuid in self._seen:
                yield device
            elif self._names_it(uuid):
                # ours may hide here under the numbers of another process namespace
                device.others = {p: n for p, n in device.others.items() if psutil.pid_exists(p)}
                yield device

    def _names_it(self, uuid: str) -> bool:
        """Says whether the trial was given the device by its identifier, which may be shortened."""
        return any(uuid.startswith(name) for name in self._names if name and not name.isdecimal())

    def _device(self, nvml: Nvml, handle: object) -> _Device:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        device = _Device(total_bytes=memory.total, used_bytes=memory.used)
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
            side = device.others
            if process.pid in self._own:
                side = device.own
            elif self._is_sibling(process.pid):
                side = device.siblings
            side[process.pid] = process.usedGpuMemory or 0  # None: the driver does not tell
        return device


def _strangers(device: _Device, before: _Device) -> set[int]:
    """Returns processes that came since and that no process of this host has the number of.

    They may be the trial's, in another process namespace.
    """
    return {p for p in device.others if p not in before.others and not psutil.pid_exists(p)}


def _usage(devices: Iterable[_Device]) -> Usage:
    found = list(devices)
    crowded = [device for device in found if device.others]
    return Usage(
        held_bytes=sum(sum(device.own.values()) for device in found),
        foreign_processes=tuple(sorted({pid for device in crowded for pid in device.others})),
        foreign_bytes=sum(sum(device.others.values()) for device in crowded),
        room_bytes=min((device.room_bytes for device in crowded), default=None),
    )
