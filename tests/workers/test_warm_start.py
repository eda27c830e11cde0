"""Trials that are forked from a template which loads nothing; the real one is in tests/trial.

What every launcher promises is asked of them in the contracts. A trial that starts cold here is the
real one with an empty spec: it complains at once, with exit status 1.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import psutil
import pytest

from sweeper.workers import process_tree
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.launchers import local
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause

SLOT = Slot(name="cpu 1", device=None)
QUICK = TrialLimits(grace_seconds=0.3)
COLD = 1
"""Exit status of a trial whose spec is empty."""

pytestmark = [pytest.mark.costly, pytest.mark.usefixtures("survivors")]


@pytest.fixture
def notices():
    return []


@pytest.fixture
def launching(tmp_path, notices, monkeypatch):
    """Returns launchers whose forked trials, or their template, behave as named."""
    script = str(Path(__file__).with_name("warm_supervisor.py"))
    with contextlib.ExitStack() as stack:

        def launcher(behaviour, **options):
            monkeypatch.setattr(local, "_SUPERVISOR_COMMAND", (sys.executable, script, behaviour))
            made = LocalLauncher(logs=tmp_path / "logs", tell=notices.append, **options)
            return stack.enter_context(contextlib.closing(made))

        yield launcher


@pytest.fixture
def folder_with_spec(new_folder):
    def make(**spec):
        folder = new_folder()
        folder.spec.write_text(json.dumps(spec))
        return folder

    return make


def supervisor_of(folder):
    return psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid)


def template_below(supervisor):
    """The template that the supervisor has started; None where it has not come to that yet."""
    found = [p for p in supervisor.children() if "light_template.py" in str(p.cmdline())]
    assert len(found) <= 1
    return found[0] if found else None


def test_trials_of_a_slot_come_from_one_template(
    launching, folder_with_spec, said, eventually, notices
):
    launcher = launching("ends_when_asked")
    templates = []
    for folder in (folder_with_spec(), folder_with_spec()):
        running = launcher.start(folder, SLOT, QUICK)
        eventually(lambda folder=folder: said(folder) and folder.heartbeat.exists())
        templates.append(template_below(supervisor_of(folder)).pid)
        running.stop(grace_seconds=20)
        assert eventually(running.poll).exit_status == 0

    assert templates[0] == templates[1]
    assert notices == []


def test_a_forked_trial_and_what_it_starts_look_like_the_trial_they_are(
    launching, folder_with_spec, said, eventually
):
    folder = folder_with_spec()
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    eventually(lambda: said(folder) and running.poll() is None and running.pid)

    marked = process_tree.marked(folder.path)
    trial = psutil.Process(running.pid)

    assert {process.pid for process in marked} == {trial.pid, *(p.pid for p in trial.children())}
    assert len(marked) == 3
    assert trial.cmdline() == [sys.executable, "-m", "sweeper.trial", str(folder.path)]
    assert trial.ppid() == supervisor_of(folder).pid
    running.kill()
    assert eventually(running.poll).leftovers == 0, "the template is no part of the trial"


def test_a_trial_outlives_its_template_and_the_next_gets_another(
    launching, folder_with_spec, said, eventually, notices
):
    launcher = launching("ends_when_asked")
    first, second = folder_with_spec(), folder_with_spec()
    running = launcher.start(first, SLOT, QUICK)
    eventually(lambda: said(first) and first.heartbeat.exists())
    killed = template_below(supervisor_of(first))

    killed.kill()
    eventually(lambda: running.poll() is None and notices)
    running.stop(grace_seconds=20)
    ended = eventually(running.poll)
    again = launcher.start(second, SLOT, QUICK)
    eventually(lambda: said(second) and second.heartbeat.exists())

    assert ended.exit_status == 0
    assert notices == ["the template ended with status -9; another takes its place"]
    assert template_below(supervisor_of(second)).pid != killed.pid
    again.kill()
    eventually(again.poll)


def test_a_template_killed_between_trials_is_replaced(
    launching, folder_with_spec, eventually, notices
):
    launcher = launching("completes")
    first, second = folder_with_spec(), folder_with_spec()
    eventually(launcher.start(first, SLOT, QUICK).poll)

    template = template_below(supervisor_of(first))
    template.kill()
    eventually(lambda: not template.is_running())
    ended = eventually(launcher.start(second, SLOT, QUICK).poll)

    assert ended.exit_status == 0
    assert notices == ["the template ended with status -9; another takes its place"]


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("is_unfit", "loading its libraries left 2 threads"),
        ("dies_while_loading", "the template ended with status 5"),
    ],
)
def test_without_a_template_trials_start_cold_with_one_notice(
    launching, folder_with_spec, eventually, notices, behaviour, why
):
    launcher = launching(behaviour)

    endings = [
        eventually(launcher.start(folder_with_spec(), SLOT, QUICK).poll).exit_status
        for _ in range(2)
    ]

    assert endings == [COLD, COLD]
    assert notices == [f"trials start cold, each loading its own libraries: {why}"]


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("cannot_fork", "[Errno 11] no more processes"),
        ("dies_when_it_is_asked", "the template ended with status 6"),
    ],
)
def test_a_trial_that_cannot_be_forked_starts_cold_with_a_notice(
    launching, folder_with_spec, eventually, notices, behaviour, why
):
    ended = eventually(launching(behaviour).start(folder_with_spec(), SLOT, QUICK).poll)

    assert ended.exit_status == COLD
    assert notices == [f"a trial starts cold, for it could not be forked: {why}"]


def test_a_trial_of_several_ranks_starts_cold_with_a_notice(
    launching, folder_with_spec, eventually, notices
):
    ended = eventually(launching("completes").start(folder_with_spec(ranks=2), SLOT, QUICK).poll)

    assert ended.exit_status == COLD
    assert notices == ["trials of several ranks start cold: each rank loads its own libraries"]


def test_without_warm_a_trial_starts_cold_without_a_word(
    launching, folder_with_spec, eventually, notices
):
    launcher = launching("completes", warm=False)

    assert eventually(launcher.start(folder_with_spec(), SLOT, QUICK).poll).exit_status == COLD
    assert notices == []


@pytest.mark.parametrize(
    ("ask", "cause"),
    [
        (lambda running: running.stop(grace_seconds=20), Cause.STOPPED),
        (lambda running: running.kill(), Cause.KILLED),
    ],
    ids=["stop", "kill"],
)
def test_a_trial_that_waits_for_its_template_can_be_called_off(
    launching, folder_with_spec, eventually, ask, cause
):
    running = launching("never_loads").start(folder_with_spec(), SLOT, QUICK)
    assert running.poll() is None

    ask(running)
    ended = eventually(running.poll, seconds=5)

    assert (ended.cause, ended.pid) == (cause, None)


def test_a_slot_with_other_variables_gets_another_template(launching, folder_with_spec, eventually):
    """Libraries read them when they are loaded."""
    launcher = launching("shows_its_surroundings")
    first, second = folder_with_spec(), folder_with_spec()
    slots = [SLOT, Slot(name=SLOT.name, device="GPU-0a1b", threads=2)]

    eventually(launcher.start(first, slots[0], QUICK).poll)
    eventually(launcher.start(second, slots[1], QUICK).poll)

    assert first.stdout.read_text().splitlines()[0] == "'' 1"
    assert second.stdout.read_text().splitlines()[0] == "'GPU-0a1b' 2"


@pytest.mark.parametrize("behaviour", ["watches_its_parent", "never_loads"])
def test_a_killed_supervisor_takes_template_and_trial_along(
    launching, folder_with_spec, eventually, survivors, behaviour
):
    folder = folder_with_spec()
    running = launching(behaviour).start(folder, SLOT, QUICK)
    me = psutil.Process()
    (supervisor,) = [p for p in me.children() if "warm_supervisor.py" in str(p.cmdline())]
    template = eventually(lambda: template_below(supervisor))

    supervisor.kill()

    assert eventually(running.poll).cause is Cause.SUPERVISOR_LOST
    eventually(lambda: survivors() == [] and not template.is_running(), seconds=5)


def test_closing_ends_the_template(launching, folder_with_spec, eventually):
    launcher = launching("completes")
    folder = folder_with_spec()
    eventually(launcher.start(folder, SLOT, QUICK).poll)
    template = template_below(supervisor_of(folder))

    launcher.close()

    assert not template.is_running()
