"""A supervisor on a host whose driver says what `gpu.json` in the folder says: no GPU is needed.

Usage: crowded_supervisor.py FOLDER. A device is {"uuid", "total", "own", "others"}: bytes that
every process of the trial holds there, null for none, and bytes by process id for others. With
"lingers" there are bytes of no process, once the trial has used it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

from sweeper.workers import process_tree, supervisor, watched_trial


class NvmlError(Exception):
    """Stands in for the library's error."""


class Driver:
    """Answers like `pynvml`."""

    NVMLError = NvmlError
    NVMLError_LibraryNotFound = NvmlError
    NVMLError_DriverNotLoaded = NvmlError

    def __init__(self, file: Path) -> None:
        self.file = file
        self.was_used = False

    def nvmlInit(self):  # noqa: N802
        """Opens nothing."""

    def nvmlShutdown(self):  # noqa: N802
        """Closes nothing."""

    def nvmlDeviceGetCount(self):  # noqa: N802
        if not self.file.exists():
            raise NvmlError("the GPU is lost")
        self.devices = json.loads(self.file.read_text())
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.devices[index]

    def nvmlDeviceGetUUID(self, device):  # noqa: N802
        return device["uuid"]

    def nvmlDeviceGetMigMode(self, _device):  # noqa: N802
        raise NvmlError("not supported")

    def nvmlDeviceGetMemoryInfo(self, device):  # noqa: N802
        listed = self.nvmlDeviceGetComputeRunningProcesses(device)
        self.was_used |= device["own"] is not None and bool(process_tree.descendants())
        lingers = device.get("lingers", 0) if self.was_used else 0
        used = lingers + sum(process.usedGpuMemory for process in listed)
        return SimpleNamespace(total=device["total"], used=used)

    def nvmlDeviceGetComputeRunningProcesses(self, device):  # noqa: N802
        held = {int(pid): count for pid, count in device["others"].items()}
        if device["own"] is not None:
            held |= {process.pid: device["own"] for process in process_tree.descendants()}
        return [SimpleNamespace(pid=pid, usedGpuMemory=count) for pid, count in held.items()]


if __name__ == "__main__":
    if "TEST_MEMORY_SECONDS" in os.environ:
        watched_trial.MEMORY_SECONDS = float(os.environ["TEST_MEMORY_SECONDS"])
    supervisor.main(Driver(Path(sys.argv[1]) / "gpu.json"))
