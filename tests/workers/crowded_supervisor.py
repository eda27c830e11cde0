"""A supervisor on a host whose driver says what `gpu.json` in the folder says: no GPU is needed.

Usage: crowded_supervisor.py FOLDER. A device is {"uuid", "total", "own", "others"}: bytes that
every process of the trial holds there, null for none, and bytes by process id for others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from sweeper.workers import process_tree, supervisor


class NvmlError(Exception):
    """Stands in for the library's error."""


class Driver:
    """Answers like `pynvml`."""

    NVMLError = NvmlError
    NVMLError_LibraryNotFound = NvmlError
    NVMLError_DriverNotLoaded = NvmlError

    def __init__(self, file: Path) -> None:
        self.file = file

    def nvmlInit(self):  # noqa: N802
        if not self.file.exists():
            raise NvmlError("the GPU is lost")
        self.devices = json.loads(self.file.read_text())

    def nvmlShutdown(self):  # noqa: N802
        self.devices = []

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return self.devices[index]

    def nvmlDeviceGetUUID(self, device):  # noqa: N802
        return device["uuid"]

    def nvmlDeviceGetMigMode(self, _device):  # noqa: N802
        raise NvmlError("not supported")

    def nvmlDeviceGetMemoryInfo(self, device):  # noqa: N802
        return SimpleNamespace(total=device["total"])

    def nvmlDeviceGetComputeRunningProcesses(self, device):  # noqa: N802
        held = {int(pid): count for pid, count in device["others"].items()}
        if device["own"] is not None:
            held |= {process.pid: device["own"] for process in process_tree.descendants()}
        return [SimpleNamespace(pid=pid, usedGpuMemory=count) for pid, count in held.items()]


if __name__ == "__main__":
    supervisor.main(Driver(Path(sys.argv[1]) / "gpu.json"))
