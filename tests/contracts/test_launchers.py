"""What every launcher promises, asked of each. Add a new one to `SITES`.

The trials are the stand-ins of `tests/workers/child.py`: real processes that behave as named. The
engines are real, too, and run on this host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from waiting import within

from sweeper.records import Reason
from sweeper.study.run_options import DaskLauncher, RayLauncher, SlurmLauncher
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.ending import judge, listen
from sweeper.workers.gpus import VARIABLE
from sweeper.workers.handover import take
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.launchers import local
from sweeper.workers.launchers.bridge import BridgedEngine
from sweeper.workers.launchers.engine import Patience
from sweeper.workers.launchers.engine_launcher import EngineLauncher
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.launchers.slurm import Slurm
from sweeper.workers.limits import TrialLimits
from sweeper.workers.liveness import host_name, is_alive
from sweeper.workers.process_tree import MARKER
from sweeper.workers.slots import Slot
from sweeper.workers.supervision import Cause, Supervision

pytestmark = pytest.mark.costly  # every claim starts real processes

CHILD = Path(__file__).parents[1] / "workers" / "child.py"
WARM_SUPERVISOR = CHILD.with_name("warm_supervisor.py")
SLOT = Slot(name="first", device=None)
QUICK = TrialLimits(grace_seconds=0.3)
IMPATIENT = Patience(file_seconds=1.0, silence_seconds=5.0, obey_seconds=3.0, engine_seconds=20.0)


class LocalSite:
    """Child processes of this one."""

    def __init__(self, request, scratch):
        self._scratch = scratch

    def launcher(self, command):
        return LocalLauncher(logs=self._scratch / "logs", trial_command=command)

    def lose(self, folder):
        psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid).kill()

    def close(self):
        """Nothing to mend."""


class WarmSite(LocalSite):
    """Likewise, forked from a template that loads nothing."""

    def __init__(self, request, scratch):
        super().__init__(request, scratch)
        self._monkeypatch = request.getfixturevalue("monkeypatch")

    def launcher(self, command):
        supervisor = (sys.executable, str(WARM_SUPERVISOR), command[-1])
        self._monkeypatch.setattr(local, "_SUPERVISOR_COMMAND", supervisor)
        return LocalLauncher(logs=self._scratch / "logs")


class SlurmSite:
    """Two nodes; one that is lost comes back when the test is over."""

    def __init__(self, request, scratch):
        self._slurm = request.getfixturevalue("slurm")
        self._lost = []

    def launcher(self, command):
        options = SlurmLauncher(kind="slurm")
        engine = Slurm(options, environ={**os.environ, **self._slurm.environ})
        return EngineLauncher(engine, trial_command=command, patience=IMPATIENT)

    def lose(self, folder):
        """The daemon of the job's node dies; the job's processes live on, unseen by Slurm."""
        self._lost.append(self._slurm.node_of(folder))
        self._slurm.kill_node(self._lost[-1])
        self._slurm.give_up_node(self._lost[-1])

    def close(self):
        for node in self._lost:
            self._slurm.start_node(node)
            self._slurm.wait_until_idle(node)


class Lent:
    """A coordinator's connection to an engine, which several tests use: it takes seconds."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def close(self):
        """Left to its owner."""


def connection(cluster, options):
    environ = {**os.environ, **cluster.environ}
    return contextlib.closing(
        BridgedEngine(options, environ=environ, log=cluster.folder / "client.log")
    )


@pytest.fixture(scope="module")
def ray_connections(ray):
    """Two coordinators' connections; jobs take two processors, which the head has not."""
    options = RayLauncher(kind="ray", address=ray.address, cpus=2)
    with connection(ray, options) as first, connection(ray, options) as second:
        yield first, second


@pytest.fixture(scope="module")
def dask_connections(dask):
    options = DaskLauncher(kind="dask", address=dask.address)
    with connection(dask, options) as first, connection(dask, options) as second:
        yield first, second


class BridgedSite:
    """The first launcher has a connection of its own, later ones the other."""

    def __init__(self, connections):
        self._first, *self._others = connections
        self._unused = [self._first]

    def launcher(self, command):
        engine = self._unused.pop() if self._unused else self._others[0]
        return EngineLauncher(Lent(engine), trial_command=command, patience=IMPATIENT)


class RaySite(BridgedSite):
    """A head and a node, on which all jobs run."""

    def __init__(self, request, scratch):
        super().__init__(request.getfixturevalue("ray_connections"))
        self._ray = request.getfixturevalue("ray")
        self._has_lost = False

    def lose(self, folder):
        """The node's raylet dies, and the actors with it; the job sees that nobody holds it."""
        self._has_lost = True
        self._ray.kill_node()

    def close(self):
        if self._has_lost:
            self._ray.start_node()


class DaskSite(BridgedSite):
    """A scheduler and two workers; one that is lost comes back when the test is over."""

    def __init__(self, request, scratch):
        super().__init__(request.getfixturevalue("dask_connections"))
        self._dask = request.getfixturevalue("dask")
        self._lost = []

    def lose(self, folder):
        """The worker dies; the job sees that nobody holds it."""
        self._lost.append(self._dask.kill_worker_of(folder))

    def close(self):
        for worker in self._lost:
            self._dask.start_worker(worker)


class RayGpuSite(RaySite):
    """Each job takes one of the node's two GPUs, which are names only."""

    devices = frozenset({"0", "1"})

    def __init__(self, request, scratch):
        super().__init__(request, scratch)
        options = RayLauncher(kind="ray", address=self._ray.address, gpus=1)
        self._own = connection(self._ray, options)
        self._unused = [self._own.__enter__()]

    def close(self):
        self._own.__exit__(None, None, None)


class DaskGpuSite(DaskSite):
    """Each job takes what each of the two workers has one of; Dask itself names no device."""

    devices = frozenset({""})

    def __init__(self, request, scratch):
        super().__init__(request, scratch)
        options = DaskLauncher(kind="dask", address=self._dask.address, resources={"GPU": 1.0})
        self._own = connection(self._dask, options)
        self._unused = [self._own.__enter__()]

    def close(self):
        self._own.__exit__(None, None, None)


ENGINES = {"slurm": SlurmSite, "ray": RaySite, "dask": DaskSite}
SITES = {"local": LocalSite, "warm": WarmSite} | ENGINES
FOR_TWO = {"ray for two": RayGpuSite, "dask for two": DaskGpuSite}


def slow(names, *more):
    return [pytest.param(name, marks=[pytest.mark.slow, *more]) for name in names]


FURTHER = slow(["ray", "dask"], pytest.mark.exhaustive)
"""Asked of every engine by the tests of `submitting`; the rest is what `workers.job` does alike."""


@contextlib.contextmanager
def launchers_of(kind, request, scratch):
    """Yields what makes launchers of that kind; none of their processes may be left at the end."""
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(contextlib.closing((SITES | FOR_TWO)[kind](request, scratch)))

        def launcher(behaviour):
            made = site.launcher((sys.executable, str(CHILD), behaviour))
            return stack.enter_context(contextlib.closing(made))

        launcher.lose = site.lose
        launcher.devices = getattr(site, "devices", None)
        yield launcher
    assert processes_of(scratch) == []


@pytest.fixture(params=["local", "warm", *slow(["slurm"]), *FURTHER])
def launching(request, tmp_path):
    """Returns launchers of one kind whose trials behave as named; closes them at the end."""
    with launchers_of(request.param, request, tmp_path) as launcher:
        yield launcher


@pytest.fixture(params=slow(ENGINES))
def submitting(request, tmp_path):
    """The same, of those whose jobs outlive their coordinator."""
    with launchers_of(request.param, request, tmp_path) as launcher:
        yield launcher


@pytest.fixture(params=slow(FOR_TWO, pytest.mark.exhaustive))
def crowded(request, tmp_path):
    """The same, of clusters with room for two jobs."""
    with launchers_of(request.param, request, tmp_path) as launcher:
        yield launcher


@pytest.fixture
def locally(request, tmp_path):
    """The same, of this host alone."""
    with launchers_of("local", request, tmp_path) as launcher:
        yield launcher


@pytest.fixture
def folder(tmp_path):
    return new_folder(tmp_path, "1")


def new_folder(scratch, name):
    path = scratch / "attempts" / name
    path.mkdir(parents=True)
    folder = AttemptFolder(path)
    folder.spec.write_text("{}")
    return folder


def processes_of(scratch):
    return [process.pid for process in psutil.process_iter() if belongs(process, scratch)]


def belongs(process, scratch):
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get(MARKER, "").startswith(str(scratch))
    except psutil.Error:
        return False


def until_it_is_known(running):
    """It may start some time after its order; a look tells."""
    within(90, lambda: running.poll() is None and running.pid)


def until_it_speaks(folder):
    within(90, lambda: folder.events.exists() and folder.events.stat().st_size > 0)


def test_a_started_trial_has_an_identity_and_runs_until_it_is_done(launching, folder):
    running = launching("ends_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    until_it_is_known(running)

    assert is_alive(host_name(), running.pid, running.started_at)
    assert running.poll() is None


def test_a_trial_that_ends_is_told_once_and_for_all(launching, folder):
    running = launching("completes").start(folder, SLOT, QUICK)

    supervision = within(90, running.poll)

    assert supervision.cause is Cause.EXITED
    assert (supervision.exit_status, supervision.signal) == (0, None)
    assert (supervision.pid, supervision.started_at) == (running.pid, running.started_at)
    assert running.poll() == supervision
    assert Supervision.read(folder.supervision) == supervision


def test_an_exit_status_and_a_signal_are_told_apart_and_a_crash_stays_alone(launching, tmp_path):
    exits = launching("exits_3_after_metrics").start(new_folder(tmp_path, "a"), SLOT, QUICK)
    killed = launching("kills_itself").start(new_folder(tmp_path, "b"), SLOT, QUICK)
    goes_on = launching("ends_when_asked").start(new_folder(tmp_path, "c"), SLOT, QUICK)

    assert within(90, exits.poll).exit_status == 3
    assert within(90, killed.poll).signal == signal.SIGKILL
    assert goes_on.poll() is None


def test_a_trial_is_given_its_threads_no_device_and_its_own_group_and_folder(launching, folder):
    slot = Slot(name="second", device=None, threads=2)
    running = launching("shows_its_surroundings").start(folder, slot, QUICK)

    within(90, running.poll)

    assert folder.stdout.read_text("utf-8") == f"'' 2\nTrue {folder.path}\n"


def test_a_trial_on_this_host_is_given_its_slots_device(locally, folder):
    slot = Slot(name="second", device="GPU-0a1b")
    running = locally("shows_its_surroundings").start(folder, slot, QUICK)

    within(90, running.poll)

    assert folder.stdout.read_text("utf-8").startswith("'GPU-0a1b' ")


def test_a_trial_has_ended_when_no_process_of_it_is_left(launching, folder, tmp_path):
    """So that nothing of it is in the way of the next one on its slot or its node."""
    running = launching("leaves_a_grandchild_behind").start(folder, SLOT, QUICK)

    supervision = within(90, running.poll)

    assert processes_of(tmp_path) == []
    assert supervision.leftovers == 1


def test_stop_lets_a_trial_end_in_order(launching, folder):
    running = launching("ends_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    running.stop(grace_seconds=20)
    supervision = within(10, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.exit_status == 0


def test_stop_kills_what_is_left_after_the_grace(launching, folder, tmp_path):
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    assert len(processes_of(tmp_path)) == 3

    running.stop(grace_seconds=0.5)
    supervision = within(10, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.signal == signal.SIGKILL
    assert processes_of(tmp_path) == []


def test_stop_waits_for_a_checkpoint_that_is_being_written(launching, folder):
    """Writing takes 2 s, leaving 0.5 s more; the grace is over by then."""
    running = launching("writes_a_checkpoint_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    running.stop(grace_seconds=0.5)
    supervision = within(15, running.poll)

    assert supervision.cause is Cause.STOPPED
    assert supervision.exit_status == 0


def test_stop_does_not_wait_for_ever_for_a_checkpoint(locally, folder):
    limits = TrialLimits(checkpoint_seconds=1.0)
    running = locally("writes_a_checkpoint_for_ever").start(folder, SLOT, limits)
    until_it_speaks(folder)

    began = time.monotonic()
    running.stop(grace_seconds=0.5)
    supervision = within(15, running.poll)

    assert supervision.signal == signal.SIGKILL
    assert time.monotonic() - began >= 1.5


def test_kill_does_not_wait_for_a_checkpoint(locally, folder):
    running = locally("writes_a_checkpoint_for_ever").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    running.stop(grace_seconds=600)

    running.kill()

    assert within(10, running.poll).signal == signal.SIGKILL


def test_kill_does_not_wait_for_the_grace_of_a_stop(launching, folder, tmp_path):
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    running.stop(grace_seconds=600)

    running.kill()
    supervision = within(10, running.poll)

    assert supervision.cause in {Cause.STOPPED, Cause.KILLED}
    assert processes_of(tmp_path) == []


def test_killing_a_trial_that_has_ended_changes_nothing(locally, folder):
    running = locally("completes").start(folder, SLOT, QUICK)
    supervision = within(90, running.poll)

    running.kill()
    running.stop(grace_seconds=0)

    assert running.poll() == supervision


def test_limits_are_enforced_where_the_trial_runs(launching, folder):
    limits = TrialLimits(wall_clock_seconds=0.5, grace_seconds=0.3)
    running = launching("hangs_in_training").start(folder, SLOT, limits)

    assert within(90, running.poll).cause is Cause.WALL_CLOCK


@pytest.mark.parametrize(
    "behaviour", ["kills_itself", "segfaults", "exits_0_without_result", "completes"]
)
def test_a_slot_can_be_used_again_after_every_end(locally, tmp_path, behaviour):
    launcher = locally(behaviour)
    within(90, launcher.start(new_folder(tmp_path, "a"), SLOT, QUICK).poll)

    again = launcher.start(new_folder(tmp_path, "b"), SLOT, QUICK)

    assert within(90, again.poll).pid == again.pid


def test_slots_run_side_by_side(launching, tmp_path):
    launcher = launching("ends_when_asked")
    one = launcher.start(new_folder(tmp_path, "a"), SLOT, QUICK)
    two = launcher.start(new_folder(tmp_path, "b"), Slot(name="second", device=None), QUICK)
    until_it_speaks(AttemptFolder(tmp_path / "attempts" / "a"))
    until_it_speaks(AttemptFolder(tmp_path / "attempts" / "b"))

    until_it_is_known(one)
    until_it_is_known(two)
    assert one.pid != two.pid
    assert (one.poll(), two.poll()) == (None, None)


def test_closing_leaves_no_process(launching, folder, tmp_path):
    launcher = launching("defies_signal_15_with_grandchildren")
    launcher.start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    launcher.close()

    assert processes_of(tmp_path) == []


def test_a_lost_node_is_a_lost_worker_and_none_of_its_processes_is_left(
    launching, folder, tmp_path
):
    running = launching("defies_signal_15_with_grandchildren").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    launching.lose(folder)
    supervision = within(60, running.poll)

    assert processes_of(tmp_path) == []
    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert supervision.detail
    assert Supervision.read(folder.supervision) == supervision
    outcome = judge(listen([]), supervision, planned_target_tokens=10)
    assert outcome.reason is Reason.WORKER_LOST


def test_the_end_of_the_process_on_the_node_is_a_lost_worker(submitting, folder, tmp_path):
    """What it watched has no supervisor any more, and ends by itself."""
    running = submitting("watches_its_parent").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    psutil.Process(Heartbeat.read(folder.heartbeat).supervisor_pid).kill()
    supervision = within(60, running.poll)

    assert supervision.cause is Cause.SUPERVISOR_LOST
    assert processes_of(tmp_path) == []


def test_a_trial_of_this_host_is_not_taken_up_by_another_launcher(locally, folder):
    locally("ends_when_asked").start(folder, SLOT, QUICK)

    assert locally("ends_when_asked").attach(folder, SLOT, QUICK) is None


def test_another_launcher_takes_up_a_running_job_and_ends_it_in_order(submitting, folder):
    submitting("ends_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)

    taken_up = submitting("ends_when_asked").attach(folder, SLOT, QUICK)
    assert taken_up.poll() is None
    assert is_alive(host_name(), taken_up.pid, taken_up.started_at)
    taken_up.stop(grace_seconds=20)

    assert within(20, taken_up.poll).cause is Cause.STOPPED


def test_a_job_whose_id_was_never_written_is_found_by_its_name(submitting, folder):
    submitting("ends_when_asked").start(folder, SLOT, QUICK)
    until_it_speaks(folder)
    folder.job.unlink()

    taken_up = submitting("ends_when_asked").attach(folder, SLOT, QUICK)
    assert taken_up.poll() is None
    taken_up.kill()

    assert within(20, taken_up.poll).cause is Cause.KILLED


def test_a_job_that_ended_meanwhile_is_taken_up_with_its_end(submitting, folder):
    ended = within(90, submitting("completes").start(folder, SLOT, QUICK).poll)

    assert submitting("completes").attach(folder, SLOT, QUICK).poll() == ended


def test_an_attempt_that_was_never_submitted_is_lost_and_cannot_start_late(
    submitting, folder, tmp_path
):
    submitting("completes").start(new_folder(tmp_path, "other"), SLOT, QUICK)
    (tmp_path / "attempts" / "other" / "order.json").rename(folder.order)

    taken_up = submitting("completes").attach(folder, SLOT, QUICK)

    assert within(20, taken_up.poll).cause is Cause.SUPERVISOR_LOST
    assert not take(folder, by="a job that was on its way")


def test_an_attempt_without_an_order_is_nothing_to_take_up(submitting, folder):
    assert submitting("completes").attach(folder, SLOT, QUICK) is None


def test_a_job_waits_until_there_is_room_and_shares_no_device(crowded, tmp_path):
    launcher = crowded("ends_when_asked")
    folders = [new_folder(tmp_path, name) for name in ("a", "b", "c")]
    running = {folder: launcher.start(folder, SLOT, QUICK) for folder in folders}
    within(90, lambda: len(speaking(folders)) == 2)

    time.sleep(1)
    first, second = speaking(folders)
    assert {device_of(first), device_of(second)} == crowded.devices
    running[first].kill()

    within(90, running[first].poll)
    within(90, lambda: len(speaking(folders)) == 3)


def speaking(folders):
    return [folder for folder in folders if folder.heartbeat.exists() and folder.events.exists()]


def device_of(folder):
    return psutil.Process(Heartbeat.read(folder.heartbeat).pid).environ()[VARIABLE]
