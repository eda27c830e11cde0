"""Stands in for the process that holds a connection: `bridged_engine.py`, on standard input.

Its engine does what a job's name says; an engine of its own kind, with no cluster behind it.
"""

from __future__ import annotations

import os
import sys
import time

from sweeper.errors import Fault, PlanError
from sweeper.workers.launchers import bridge_child
from sweeper.workers.launchers.engine import Job, JobState


class Scripted:
    kind = "dask"

    def submit(self, *, name, folder, command):
        if name == "refused":
            raise ValueError("no such job")
        if name == "unheard":
            raise TimeoutError("the scheduler is asleep")
        return f"{name} {folder.path} {' '.join(command)}"

    def look(self, job_id):
        if job_id == "slow":
            time.sleep(1.0)
        if job_id == "deadly":
            os._exit(7)
        if job_id == "odd":
            raise ConnectionError("the line is cut")
        sys.stdout.write("a library prints what it likes\n")
        return Job(state=JobState.RUNNING, detail=f"{job_id} runs")

    def find(self, name):
        if name == "stuck":
            time.sleep(600)
        return None if name == "nobody" else name

    def cancel(self, job_id):
        raise ConnectionError(job_id)

    def close(self):
        print("closed", file=sys.stderr)  # noqa: T201


def connected(hello):
    if hello["options"]["address"] == "nowhere":
        raise PlanError(Fault(what="nobody answers", got="nowhere"))
    return Scripted()


if __name__ == "__main__":
    bridge_child.connected = connected
    bridge_child.main()
