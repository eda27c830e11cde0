"""NVIDIA's library is replaced by one of the same form: this suite must run without a GPU."""

from __future__ import annotations

import pytest

from sweeper.errors import PlanError
from sweeper.workers.gpus import Gpu, cuda_without_driver_library, find_gpu, list_gpus


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

    def nvmlDeviceGetName(self, device):  # noqa: N802
        return b"NVIDIA H200" if device[0] == b"GPU-a" else "NVIDIA A100"

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

    first, second = list_gpus(driver)

    assert (first.uuid, first.busy) == ("GPU-a", False)
    assert (second.uuid, second.busy) == ("GPU-b", True)


@pytest.mark.parametrize("uuid", [b"GPU-a", "GPU-b"])
def test_a_gpu_has_the_name_of_its_model(uuid):
    (gpu,) = list_gpus(Driver((uuid, [], None)))

    assert gpu.model == {b"GPU-a": "NVIDIA H200", "GPU-b": "NVIDIA A100"}[uuid]


def test_a_divided_gpu_is_listed_as_its_parts_whose_names_only_cuda_knows():
    driver = Driver(("GPU-a", [], ["MIG-1", "MIG-2"]), ("GPU-b", [], None))

    assert [(gpu.uuid, gpu.model) for gpu in list_gpus(driver)] == [
        ("MIG-1", None),
        ("MIG-2", None),
        ("GPU-b", "NVIDIA A100"),
    ]


TWO_MODELS = (
    Gpu(uuid="GPU-a1", busy=False, model="A100"),
    Gpu(uuid="GPU-a2", busy=False, model="H100"),
)
ONE_MODEL = tuple(Gpu(uuid=gpu.uuid, busy=False, model="A100") for gpu in TWO_MODELS)
DIVIDED = (Gpu(uuid="MIG-1", busy=False, is_part=True), TWO_MODELS[0])


@pytest.mark.parametrize(
    ("name", "gpus", "order", "uuid"),
    [
        ("GPU-a2", TWO_MODELS, None, "GPU-a2"),
        ("GPU-a", TWO_MODELS, None, None),
        ("GPU-b", TWO_MODELS, None, None),
        ("1", TWO_MODELS, None, None),
        ("1", TWO_MODELS, "FASTEST_FIRST", None),
        ("1", TWO_MODELS, "PCI_BUS_ID", "GPU-a2"),
        ("1", ONE_MODEL, None, "GPU-a2"),
        ("2", ONE_MODEL, None, None),
        ("MIG-1", DIVIDED, None, "MIG-1"),
        ("0", DIVIDED, "PCI_BUS_ID", None),
        ("", ONE_MODEL, None, None),
    ],
)
def test_a_name_means_a_device_where_that_is_sure(name, gpus, order, uuid):
    found = find_gpu(name, gpus, device_order=order)

    assert (found and found.uuid) == uuid


@pytest.mark.parametrize("name", ["nvidia0", "nvidiactl", "dxg", "nvhost-gpu"])
def test_a_device_file_shows_that_there_is_a_gpu(tmp_path, name):
    assert cuda_without_driver_library(tmp_path) is None
    (tmp_path / name).touch()

    assert cuda_without_driver_library(tmp_path) == str(tmp_path / name)


def test_the_library_is_closed_again():
    driver = Driver(("GPU-a", [], None))

    list_gpus(driver)

    assert driver.open == 0


def test_the_real_library_answers_on_this_host_whatever_it_has():
    assert isinstance(list_gpus(), tuple)
