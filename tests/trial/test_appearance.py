from __future__ import annotations

import subprocess
import sys

import psutil

APPEARS = """
import os, sys
from sweeper.trial.appearance import appear_as

argv = ["python", "-m", "sweeper.trial", "/runs/" + 5000 * "x"]
appear_as(argv, {**os.environ, "SWEEPER_ATTEMPT": "/runs/1"})
heap = [bytes(1000) for _ in range(100_000)]
print("ready", os.environ.get("SWEEPER_ATTEMPT"), flush=True)
input()
"""


def test_a_process_shows_the_command_line_and_environment_that_it_names():
    argv = [sys.executable, "-c", APPEARS]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"ONE": "1"}
    ) as process:
        said = process.stdout.readline()
        seen = psutil.Process(process.pid)
        cmdline, environment = seen.cmdline(), seen.environ()
        process.communicate("\n")

    assert cmdline == ["python", "-m", "sweeper.trial", "/runs/" + 5000 * "x"]
    assert environment["SWEEPER_ATTEMPT"] == "/runs/1"
    assert environment["ONE"] == "1"
    assert said == "ready None\n", "what it has itself is another matter"
    assert process.returncode == 0
