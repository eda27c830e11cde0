"""What the driver says of a trial's GPUs; the driver is one of NVIDIA's form without a GPU."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from sweeper.workers.device_watch import DeviceWatch, Usage

TRIAL, CHILD = 7, 8
HERE = os.getppid()
"""A process of this host that belongs to no trial."""
NOWHERE = 1 << 30
"""No process of this host has that number."""


class NvmlError(Exception):
    """Stands in for the library's error."""


class Driver:
    """Answers like `pynvml`. A device is its uuid, its bytes and what each process holds there."""

    NVMLError = NvmlError
    NVMLError_LibraryNotFound = NvmlError
    NVMLError_DriverNotLoaded = NvmlError

    def __init__(self, **devices):
        self.devices = devices
        self.lost = False
        self.open = 0

    def nvmlInit(self):  # noqa: N802
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return list(self.devices)[index]

    def nvmlDeviceGetUUID(self, name):  # noqa: N802
        return name.encode()

    def nvmlDeviceGetMigMode(self, _name):  # noqa: N802
        raise NvmlError("not supported")

    def nvmlDeviceGetMemoryInfo(self, _name):  # noqa: N802
        return SimpleNamespace(total=1000)

    def nvmlDeviceGetComputeRunningProcesses(self, name):  # noqa: N802
        if self.lost:
            raise NvmlError("GPU is lost")
        held = self.devices[name].items()
        return [SimpleNamespace(pid=pid, usedGpuMemory=count) for pid, count in held]


def looked(driver, devices="0"):
    return DeviceWatch(devices, driver).look({TRIAL, CHILD})


def test_a_trial_holds_what_all_its_processes_hold_on_all_its_devices():
    usage = looked(Driver(a={TRIAL: 100}, b={CHILD: 20, TRIAL: 3}))

    assert usage == Usage(held_bytes=123)


def test_a_device_without_the_trial_is_none_of_its_own():
    usage = looked(Driver(a={TRIAL: 100}, b={HERE: 900}))

    assert usage == Usage(held_bytes=100)


def test_others_are_counted_on_the_device_that_the_trial_shares_with_them():
    usage = looked(Driver(a={TRIAL: 100, 40: 500, 30: 150}))

    assert usage == Usage(
        held_bytes=100, foreign_processes=(30, 40), foreign_bytes=650, room_bytes=350
    )


def test_the_fullest_device_says_how_much_room_is_left():
    usage = looked(Driver(a={TRIAL: 1, HERE: 200}, b={CHILD: 1, HERE: 700}, c={CHILD: 1}))

    assert (usage.foreign_bytes, usage.room_bytes) == (900, 300)


def test_a_device_that_the_slot_names_counts_before_the_trial_has_come_to_it():
    """The trial may not even have found room for a start."""
    usage = looked(Driver(a={HERE: 990}), devices="b, a")

    assert usage == Usage(foreign_processes=(HERE,), foreign_bytes=990, room_bytes=10)


def test_unknown_numbers_on_it_may_be_the_trials_own_in_another_namespace():
    assert looked(Driver(a={NOWHERE: 990}), devices="a") == Usage()


def test_a_device_on_which_the_trial_was_seen_stays_its_own():
    driver = Driver(a={TRIAL: 100})
    watch = DeviceWatch("0", driver)
    watch.look({TRIAL})

    driver.devices["a"] = {NOWHERE: 300}

    assert watch.look({TRIAL}).room_bytes == 700


def test_memory_that_the_driver_does_not_tell_counts_as_nothing():
    assert looked(Driver(a={TRIAL: None, 40: None})) == Usage(
        foreign_processes=(40,), room_bytes=1000
    )


def test_a_driver_that_stops_answering_sees_nothing_and_says_so_once(caplog):
    driver = Driver(a={TRIAL: 100})
    driver.lost = True
    watch = DeviceWatch("0", driver)

    assert watch.look({TRIAL}) is None
    assert watch.look({TRIAL}) is None
    assert driver.open == 0
    assert [record.message for record in caplog.records] == [
        "the driver does not tell who uses the GPU: GPU is lost"
    ]


CROWDED = Usage(held_bytes=100, foreign_processes=(30, 40), foreign_bytes=650, room_bytes=350)


@pytest.mark.parametrize(("limit", "is_crowded"), [(None, True), (351, True), (350, False)])
def test_others_took_memory_unless_they_leave_what_the_limit_allows(limit, is_crowded):
    assert (CROWDED.crowding(limit) is not None) is is_crowded


def test_the_sentence_names_processes_and_bytes():
    assert CROWDED.crowding(None) == (
        "other processes on the device (30, 40) hold 650 bytes and leave 350; the trial held 100"
    )


def test_without_others_nobody_took_anything():
    assert Usage(held_bytes=100).crowding(None) is None
