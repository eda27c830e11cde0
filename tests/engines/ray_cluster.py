"""A real Ray of two nodes on this host, each a raylet with its processes, in a temporary folder.

The head has one processor and the node has eight, so jobs that take two run on the node. Access is
by a token, as `ray start` has it of its own accord; usage statistics and dashboard are off.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import psutil

PACKAGE = "ray"
NODE_CPUS = 8
_NODE = "SWEEPER_TEST_RAY_NODE"
_PROGRAM = Path(sys.executable).with_name("ray")
_ALIKE = ("--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats")
_PORTS = ("--min-worker-port=0", "--max-worker-port=0")


def why_not() -> str | None:
    """Says why none can be started here, or nothing."""
    if importlib.util.find_spec(PACKAGE) is None:
        return "needs ray: pip install 'sweeper[ray]'"
    return None


class RayCluster:
    """Usage: `with RayCluster() as ray:`, then drivers with `ray.environ` and `ray.address`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32), "ascii")
        self.environ = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def __enter__(self) -> Self:
        try:
            self._start(
                "head",
                "--head",
                f"--port={self.address.split(':')[1]}",
                "--num-cpus=1",
                "--include-dashboard=false",
                f"--temp-dir={self.folder / 'ray'}",
            )
            self.start_node()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process of the cluster, those of its jobs too, and removes its folder."""
        while left := self._processes():
            for process in left:
                _kill(process)
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_node(self) -> None:
        """Starts the second node, again after `kill_node`."""
        self._start("node", f"--address={self.address}", f"--num-cpus={NODE_CPUS}", "--num-gpus=2")

    def kill_node(self) -> None:
        """Kills its raylet, whose processes end for want of it; those of jobs do not."""
        for process in self._processes():
            if _is_raylet(process, "node"):
                _kill(process)

    def _start(self, node: str, *arguments: str) -> None:
        with (self.folder / f"{node}.out").open("ab") as out:
            subprocess.run(
                [_PROGRAM, "start", *arguments, *_ALIKE, *_PORTS],
                env={**os.environ, **self.environ, _NODE: node},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=120,
                check=True,
            )

    def _processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        """By its working folder: Ray's processes rename themselves, which wipes the environment."""
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and Path(process.cwd()).is_relative_to(self.folder)
        except (psutil.Error, OSError):
            return False


def _is_raylet(process: psutil.Process, node: str) -> bool:
    try:
        return process.name() == "raylet" and process.environ().get(_NODE) == node
    except psutil.Error:
        return False


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()
