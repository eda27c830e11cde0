"""The files in which a coordinator and a node meet."""

from __future__ import annotations

import threading

import pytest

from sweeper.trial.folder import AttemptFolder
from sweeper.workers.handover import (
    NodeOrder,
    Request,
    SubmittedJob,
    read_job,
    read_order,
    read_request,
    take,
    write_job,
    write_order,
    write_request,
)
from sweeper.workers.limits import TrialLimits


@pytest.fixture
def folder(tmp_path):
    return AttemptFolder(tmp_path)


def test_an_order_comes_back_as_it_was_given(folder) -> None:
    limits = TrialLimits(wall_clock_seconds=0.1, host_memory_bytes=5, hang_seconds=1e-3)
    order = NodeOrder(argv=("a", "b c"), environment={"X": "1\n2"}, limits=limits)

    write_order(folder, order)

    assert read_order(folder) == order


@pytest.mark.parametrize("text", ["{}", "[]", '{"argv": [], "environment": [], "limits": {}}'])
def test_what_is_no_order_is_refused(folder, text) -> None:
    folder.order.write_text(text, "utf-8")

    with pytest.raises(ValueError, match="not an order"):
        read_order(folder)


@pytest.mark.parametrize("grace_seconds", [None, 0.0, 12.5])
def test_a_request_comes_back_as_it_was_made(folder, grace_seconds) -> None:
    write_request(folder, Request(grace_seconds=7.0))
    write_request(folder, Request(grace_seconds=grace_seconds))

    assert read_request(folder) == Request(grace_seconds=grace_seconds)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"command": "stop"}', "{}"])
def test_a_request_that_makes_no_sense_is_none(folder, text) -> None:
    folder.request.write_text(text, "utf-8")

    assert read_request(folder) is None


def test_nothing_is_asked_of_a_node_at_first(folder) -> None:
    assert read_request(folder) is None


def test_a_job_comes_back_as_it_was_written_and_damage_is_not_knowing(folder) -> None:
    assert read_job(folder) is None
    job = SubmittedJob(engine="slurm", id="17", name="sweeper-x")

    write_job(folder, job)
    assert read_job(folder) == job

    folder.job.write_text("{", "utf-8")
    assert read_job(folder) is None


def test_of_many_that_take_an_attempt_at_once_one_has_it(folder) -> None:
    barrier, taken = threading.Barrier(8), []

    def run() -> None:
        barrier.wait()
        taken.append(take(folder, by="a thread"))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == [False] * 7 + [True]
