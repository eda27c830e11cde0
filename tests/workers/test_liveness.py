from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from sweeper.workers import liveness
from sweeper.workers.liveness import birth, host_name, is_alive, is_of_this_kernel, started_at


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child
        child.kill()


def boot_of(born):
    """Machine, boot and numbering of processes, as a birth names them."""
    return born.partition("@")[2].split(".")


def with_boot(born, machine, boot, namespace):
    return f"{born.partition('@')[0]}@{machine}.{boot}.{namespace}"


def test_a_running_process_is_alive():
    assert is_alive(host_name(), os.getpid(), started_at(os.getpid())) is True
    assert is_alive(host_name(), os.getpid(), birth(os.getpid())) is True


def test_the_start_time_is_counted_from_the_boot_whatever_the_clock_says():
    since_boot = psutil.Process().create_time() - psutil.boot_time()

    assert started_at(os.getpid()) == pytest.approx(since_boot, abs=1e-3)


def test_a_process_that_ended_is_dead(process):
    start, born = started_at(process.pid), birth(process.pid)
    process.kill()
    process.wait()

    assert is_alive(host_name(), process.pid, start) is False
    assert is_alive(host_name(), process.pid, born) is False
    assert started_at(process.pid) is None
    assert birth(process.pid) is None


def test_a_process_that_ended_uncollected_is_dead(process):
    start = started_at(process.pid)
    process.kill()
    psutil_view = psutil.Process(process.pid)
    while psutil_view.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)

    assert is_alive(host_name(), process.pid, start) is False


def test_a_stopped_process_is_alive(process):
    start = started_at(process.pid)
    psutil.Process(process.pid).suspend()

    assert is_alive(host_name(), process.pid, start) is True


def test_another_process_under_the_same_id_is_not_taken_for_the_first(process):
    tick = 1 / os.sysconf("SC_CLK_TCK")

    assert is_alive(host_name(), process.pid, started_at(process.pid) - tick) is False


def test_of_another_host_nothing_can_be_said():
    assert is_alive("another-host", os.getpid(), birth(os.getpid())) is None


def test_what_ran_before_this_machine_was_booted_is_dead():
    born = birth(os.getpid())
    machine, _boot, namespace = boot_of(born)

    assert is_alive(host_name(), os.getpid(), with_boot(born, machine, "e", namespace)) is False


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param(("other", "other", "1"), id="another machine of the same name"),
        pytest.param(("", "other", "1"), id="a machine without an identity"),
        pytest.param((None, None, "1"), id="another container of this host"),
    ],
)
def test_of_a_process_in_another_place_of_this_name_nothing_can_be_said(elsewhere):
    born = birth(os.getpid())
    place = [there or here for there, here in zip(elsewhere, boot_of(born), strict=True)]
    place[0] = elsewhere[0] if elsewhere[0] is not None else place[0]

    assert is_alive(host_name(), os.getpid(), with_boot(born, *place)) is None


def test_without_an_identity_of_the_machine_a_reboot_proves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(liveness, "_MACHINE_ID", tmp_path / "none")
    born = birth(os.getpid())
    machine, _boot, namespace = boot_of(born)

    assert machine == ""
    assert is_alive(host_name(), os.getpid(), with_boot(born, "", "e", namespace)) is None


def test_the_identity_of_the_machine_is_not_told(monkeypatch, tmp_path):
    identity = tmp_path / "machine-id"
    identity.write_text("3d1219c7c4c5")
    monkeypatch.setattr(liveness, "_MACHINE_ID", identity)

    assert boot_of(birth(os.getpid()))[0] not in {"", "3d1219c7c4c5"}


def test_another_container_of_this_host_shares_its_kernel_and_its_locks():
    born = birth(os.getpid())
    machine, boot, _namespace = boot_of(born)

    assert is_of_this_kernel(with_boot(born, machine, boot, "1"))
    assert not is_of_this_kernel(with_boot(born, machine, "e", "1"))
    assert not is_of_this_kernel("1700000000.25")
