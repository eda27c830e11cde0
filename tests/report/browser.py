"""Chromium, driven by its DevTools protocol: what a reader sees of a page, and what axe says of it.

Debian's chromium is used; no network is needed, and the profile lies in a folder of the test's.
"""

import asyncio
import base64
import json
import shutil
import subprocess
from pathlib import Path

from waiting import within

PROGRAM = shutil.which("chromium")
PHONE, DESK = 390, 1280


class Browser:
    """One chromium without a window."""

    def __init__(self, profile: Path) -> None:
        self.profile = profile
        self.process = subprocess.Popen(
            [
                *(
                    PROGRAM,
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                ),
                *("--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.port = self._port()

    def _port(self) -> int:
        told = self.profile / "DevToolsActivePort"
        first, *_ = within(60, lambda: told.exists() and told.read_text().splitlines())
        return int(first)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def visit(self, page: Path, *commands: tuple[str, dict]) -> list[dict]:
        """Opens a file, gives the commands in order, and returns their results."""
        return asyncio.run(self._visit(page, commands))

    async def _visit(self, page, commands):
        from tornado.httpclient import AsyncHTTPClient
        from tornado.websocket import websocket_connect

        address = f"http://127.0.0.1:{self.port}/json/new?about:blank"
        opened = await AsyncHTTPClient().fetch(address, method="PUT", body="")
        socket = await websocket_connect(
            json.loads(opened.body)["webSocketDebuggerUrl"], max_message_size=2**28
        )
        await _ask(socket, "Page.enable", {})
        await _ask(socket, "Page.setBypassCSP", {"enabled": True})
        results = []
        for name, arguments in commands:
            if name == "open":
                await _ask(socket, "Page.navigate", {"url": page.resolve().as_uri()})
                await _event(socket, "Page.loadEventFired")
            else:
                results.append(await _ask(socket, name, arguments))
        socket.close()
        return results


async def _ask(socket, name, arguments):
    await socket.write_message(json.dumps({"id": 1, "method": name, "params": arguments}))
    while True:
        told = json.loads(await socket.read_message())
        if told.get("id") == 1:
            assert "error" not in told, (name, told["error"])
            return told["result"]


async def _event(socket, name):
    while json.loads(await socket.read_message()).get("method") != name:
        pass


OPEN = ("open", {})


def width(pixels: int) -> tuple[str, dict]:
    metrics = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": pixels < 600}
    return ("Emulation.setDeviceMetricsOverride", metrics)


def scheme(name: str) -> tuple[str, dict]:
    features = [{"name": "prefers-color-scheme", "value": name}]
    return ("Emulation.setEmulatedMedia", {"features": features})


def evaluate(expression: str) -> tuple[str, dict]:
    arguments = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    return ("Runtime.evaluate", arguments)


def value_of(result: dict) -> object:
    assert "exceptionDetails" not in result, result["exceptionDetails"]
    return result["result"].get("value")


PICTURE = ("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True})
PRINT = ("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": False})


def bytes_of(result: dict) -> bytes:
    return base64.b64decode(result["data"])
