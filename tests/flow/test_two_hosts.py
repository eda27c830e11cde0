"""Two workers, each with a host name, a disk and a time of day of its own, end as one run would."""

import contextlib
import os
import shutil
import subprocess
from datetime import datetime, timedelta

import laboratories
import pandas as pd
import pytest

import sweeper
from sweeper.records import decode

pytestmark = pytest.mark.slow

SKEW = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t skew(void) { return atol(getenv("CLOCK_SKEW_SECONDS")); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    int tells_the_day = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && tells_the_day) now->tv_sec += skew();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, now, zone);
    if (!failed) now->tv_sec += skew();
    return failed;
}

time_t time(time_t *place) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place) *place = now.tv_sec;
    return now.tv_sec;
}
"""
"""The time of day of a process, and of those that it starts, is another. libfaketime is not used:
its version 0.9.10 lets Python 3.11 wait for ever, or not at all, see `threading.Event.wait` and
`time.sleep`.
"""


@pytest.fixture(scope="module")
def skewed(tmp_path_factory):
    """Environment variables with which clocks are ten minutes fast."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler (Debian: gcc) for a clock that is wrong")
    library = tmp_path_factory.mktemp("clock") / "skew.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-o", str(library), "-"]
    subprocess.run(command, input=SKEW, text=True, check=True, timeout=60)
    return {"LD_PRELOAD": str(library), "CLOCK_SKEW_SECONDS": "600"}


@pytest.fixture
def boxes(tmp_path, tiny_model, set_up, on_postgres):
    """The study in two folders, as on two disks."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        box = set_up(tmp_path / name, tiny_model, **laboratories.STANDARD, slots="[cpu]")
        found.append(on_postgres(box))
    return found


@contextlib.contextmanager
def worker(box, before, **environment):
    with box.log.open("wb") as log:
        process = subprocess.Popen(
            [*before, *box.command("worker", str(box.study))],
            cwd=box.folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_two_hosts_with_clocks_ten_minutes_apart_end_as_one(boxes, on_host, skewed, undisturbed):
    one, other = boxes
    with (
        worker(one, on_host("boxa")) as first,
        worker(other, on_host("boxb"), **skewed) as second,
    ):
        ended = first.wait(timeout=250), second.wait(timeout=250)

    assert ended == (0, 0), one.log.read_text() + other.log.read_text()
    attempts = sweeper.attempts(one.study)
    assert attempts.groupby("trial").size().eq(1).all(), "each cell has had one owner"
    assert set(attempts["host"]) == {"boxa", "boxb"}
    assert set(attempts["outcome"]) == {"completed"}
    for ours, theirs in zip(facts(other.study), facts(undisturbed.study), strict=True):
        pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    assert clock_error(one, attempts, "boxa") < timedelta(minutes=3)
    assert clock_error(other, attempts, "boxb") > timedelta(minutes=9)
    assert one.processes() == []
    assert other.processes() == []


def facts(study):
    """Everything that the study has come to, without what clocks and memory say."""
    clocks = ["at", "seconds", "sequence", "wall_seconds", "peak_memory_bytes"]
    tables = (sweeper.trials(study), sweeper.updates(study), sweeper.evaluations(study))
    return [table.drop(columns=clocks, errors="ignore") for table in tables]


def clock_error(box, attempts, host):
    """How far a host's first trial believed to be after what the database's clock said."""
    row = attempts[attempts["host"] == host].iloc[0]
    events = (box.run_folder / row["folder"] / "events.jsonl").read_text().splitlines()
    begun = decode(events[0]).at
    return begun - datetime.fromisoformat(row["claimed_at"])
