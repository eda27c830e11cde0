"""NVIDIA's library is replaced by one of the same form: this suite must run without a GPU."""

from __future__ import annotations

import pytest

from sweeper.errors import PlanError
from sweeper.workers.gpus import Gpu, list_gpus


class NvmlError(Exception):
    """Stands in for the library's error."""


class NotThere(NvmlError):
    """There is no library, or no driver."""


class Driver:
    """Answers like `pynvml`. A device is (uuid, processes, None or the uuids of its parts)."""

    NVMLError = NvmlError
    NVMLError_LibraryNotFound = NotThere
    NVMLError_DriverNotLoaded = NotThere

    def __init__(self, *devices, refuses=None, breaks=None):
        self.devices = devices
        self.refuses = refuses
        self.breaks = breaks
        self.open = 0

    def nvmlInit(self):  # noqa: N802
        if self.refuses is not None:
            raise self.refuses
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        if self.breaks is not None:
            raise self.breaks
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.devices[index]

    def nvmlDeviceGetUUID(self, device):  # noqa: N802
        return device[0]

    def nvmlDeviceGetComputeRunningProcesses(self, device):  # noqa: N802
        return device[1]

    def nvmlDeviceGetMigMode(self, device):  # noqa: N802
        if device[2] is None:
            raise NvmlError("not supported")
        return [int(bool(device[2])), 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, device):  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device, index):  # noqa: N802
        if index >= len(device[2]):
            raise NvmlError("no such part")
        return (device[2][index], [], None)


def test_a_host_without_a_driver_has_no_gpu():
    assert list_gpus(Driver(refuses=NotThere("driver not loaded"))) == ()


@pytest.mark.parametrize(
    "driver",
    [
        Driver(refuses=NvmlError("driver/library version mismatch")),
        Driver(breaks=NvmlError("driver/library version mismatch")),
    ],
    ids=["at the start", "later"],
)
def test_a_driver_that_does_not_answer_is_no_reason_to_use_the_cpu(driver):
    with pytest.raises(PlanError, match=r"version mismatch.*slots: \[cpu\]"):
        list_gpus(driver)

    assert driver.open == 0


@pytest.mark.parametrize("uuid", ["GPU-a", b"GPU-a"])
def test_a_gpu_is_known_by_its_uuid_and_busy_when_processes_compute_on_it(uuid):
    driver = Driver((uuid, [], None), ("GPU-b", ["a process"], None))

    assert list_gpus(driver) == (Gpu(uuid="GPU-a", busy=False), Gpu(uuid="GPU-b", busy=True))


def test_a_divided_gpu_is_listed_as_its_parts():
    driver = Driver(("GPU-a", [], ["MIG-1", "MIG-2"]), ("GPU-b", [], []))

    assert [gpu.uuid for gpu in list_gpus(driver)] == ["MIG-1", "MIG-2", "GPU-b"]


def test_the_library_is_closed_again():
    driver = Driver(("GPU-a", [], None))

    list_gpus(driver)

    assert driver.open == 0


def test_the_real_library_answers_on_this_host_whatever_it_has():
    assert isinstance(list_gpus(), tuple)
