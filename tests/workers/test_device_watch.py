"""What the driver says of a trial's GPUs; the driver is one of NVIDIA's form without a GPU."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from sweeper.workers.device_watch import DeviceWatch, Usage
from sweeper.workers.gpus import DriverSession

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
        self.open = self.opened = self.unlisted = 0

    def nvmlInit(self):  # noqa: N802
        self.open += 1
        self.opened += 1

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

    def nvmlDeviceGetMemoryInfo(self, name):  # noqa: N802
        held = sum(count or 0 for count in self.devices[name].values())
        return SimpleNamespace(total=1000, used=held + self.unlisted)

    def nvmlDeviceGetComputeRunningProcesses(self, name):  # noqa: N802
        if self.lost:
            raise NvmlError("GPU is lost")
        held = self.devices[name].items()
        return [SimpleNamespace(pid=pid, usedGpuMemory=count) for pid, count in held]


def looked(driver, devices="0"):
    return DeviceWatch(devices, DriverSession(driver)).look({TRIAL, CHILD})


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
    watch = DeviceWatch("0", DriverSession(driver))
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
    watch = DeviceWatch("0", DriverSession(driver))

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


# --- after the trial ----------------------------------------------------------------------------


def after(driver, *, devices="a", is_sibling=lambda _number: False):
    """The watch over a trial that held memory on `a`, and whose processes are gone now."""
    watch = DeviceWatch(devices, DriverSession(driver), is_sibling=is_sibling)
    driver.devices["a"][TRIAL] = 300
    watch.look({TRIAL})
    del driver.devices["a"][TRIAL]
    return watch


@pytest.mark.parametrize("devices", ["a", "0"], ids=["by its identifier", "where it was seen"])
def test_memory_that_is_back_leaves_the_device_free(devices):
    assert after(Driver(a={}, b={HERE: 5}), devices=devices).not_back() is None


def test_memory_of_a_device_that_lists_nobody_has_to_be_what_it_was():
    driver = Driver(a={})
    watch = after(driver)

    driver.unlisted = 151
    assert watch.not_back() == "device a holds 151 bytes, 0 before the trial"
    driver.unlisted = 150  # half of what the trial held: more likely a desktop's
    assert watch.not_back() is None


def test_where_the_trial_was_never_listed_nobody_knows_what_to_wait_for():
    driver = Driver(a={})
    watch = DeviceWatch("a", DriverSession(driver))
    watch.look({TRIAL})
    driver.unlisted = 900

    assert watch.not_back() is None


def test_a_trial_that_is_still_listed_has_not_given_its_memory_back():
    driver = Driver(a={HERE: 10})
    watch = after(driver)
    driver.devices["a"][TRIAL] = 300

    assert watch.not_back() == "device a still lists the trial's process (7)"


def test_an_unknown_process_that_came_with_the_trial_may_be_its_own():
    driver = Driver(a={HERE: 10})
    watch = after(driver)
    driver.devices["a"][NOWHERE] = 300

    assert watch.not_back() == f"device a still lists the trial's process ({NOWHERE})"


def test_on_a_device_with_others_their_memory_is_not_waited_for():
    driver = Driver(a={HERE: 10})
    watch = after(driver)

    driver.devices["a"][HERE] = 900

    assert watch.not_back() is None


def test_a_driver_that_does_not_answer_keeps_nobody_waiting():
    driver = Driver(a={})
    watch = after(driver)
    driver.lost = True

    assert watch.not_back() is None


# --- trials that share a device -----------------------------------------------------------------


def test_another_trial_of_the_study_is_nobody_foreign():
    watch = DeviceWatch(
        "a", DriverSession(Driver(a={TRIAL: 100, 40: 850, HERE: 20})), is_sibling=lambda n: n == 40
    )

    usage = watch.look({TRIAL})

    assert usage == Usage(
        held_bytes=100, foreign_processes=(HERE,), foreign_bytes=20, room_bytes=980
    )


def test_a_sibling_goes_on_while_the_trial_s_own_memory_is_back():
    watch = after(Driver(a={40: 600}), is_sibling=lambda number: number == 40)

    assert watch.not_back() is None


# --- the driver's library -----------------------------------------------------------------------


def test_the_library_is_opened_once_for_all_looks():
    driver = Driver(a={})
    session = DriverSession(driver)

    for _ in range(3):
        DeviceWatch("a", session).look({TRIAL})

    assert (driver.opened, driver.open) == (1, 1)
    session.close()
    assert driver.open == 0


def test_it_is_opened_anew_after_an_error():
    driver = Driver(a={TRIAL: 5})
    watch = DeviceWatch("a", DriverSession(driver))
    driver.lost = True
    watch.look({TRIAL})
    driver.lost = False

    assert watch.look({TRIAL}) == Usage(held_bytes=5)
    assert (driver.opened, driver.open) == (2, 1)
