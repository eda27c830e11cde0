"""Which jobs are taken up, on how many lanes, and when that is refused."""

from __future__ import annotations

import pytest

from sweeper.errors import PlanError, StudyConflict
from sweeper.store.claims import Claim, Owner
from sweeper.store.recovery import LiveAttempt
from sweeper.study.folder import StudyFolder
from sweeper.study.run_options import DaskLauncher, RunOptions, SlurmLauncher
from sweeper.sweep.adopting import adopt_leftovers
from sweeper.sweep.engine_jobs import Job, Jobs, lanes, refuse_workers, still_running
from sweeper.sweep.finishing import Terms
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.handover import NodeOrder, SubmittedJob, write_job, write_order
from sweeper.workers.launchers.local import LocalLauncher
from sweeper.workers.limits import TrialLimits

TERMS = Terms(budget_target_tokens=100, max_resumes=3)
DEAD = Owner(worker="local", host="gone", pid=1, started_at="1.0")
CLAIM = Claim(
    cell="half/0",
    arm="half",
    seed=0,
    attempt=1,
    fencing_number=1,
    owner=DEAD,
    slot="slurm 1",
    folder="trials/half-0/attempts/1",
)


@pytest.mark.parametrize(("jobs", "count"), [(None, 6), (4, 4), (9, 6)])
def test_there_is_a_lane_for_each_job_that_may_be_handed_over_at_once(jobs, count):
    run = RunOptions(launcher=SlurmLauncher(kind="slurm", jobs=jobs))

    made = lanes(run, cells=6)

    assert [lane.name for lane in made] == [f"slurm {place}" for place in range(1, count + 1)]
    assert all(lane.engine and lane.device is None for lane in made)


def test_workers_do_not_share_an_engines_study():
    with pytest.raises(PlanError, match="this study hands them to an engine"):
        refuse_workers(RunOptions(launcher=DaskLauncher(kind="dask")))

    refuse_workers(RunOptions())


def test_jobs_are_taken_up_in_their_order_and_once():
    jobs = Jobs()
    first, second = Job(claim=CLAIM, running=None), Job(claim=CLAIM, running=None)
    jobs.add([first, second])

    assert [jobs.next(), jobs.next(), jobs.next()] == [first, second, None]


@pytest.fixture
def handed_over(tmp_path):
    """The folder of a study with an attempt that was handed to Slurm as job 17."""
    attempt = AttemptFolder(tmp_path / CLAIM.folder)
    attempt.path.mkdir(parents=True)
    order = NodeOrder(argv=("true",), environment={}, limits=TrialLimits())
    write_order(attempt, order)
    write_job(attempt, SubmittedJob(engine="slurm", id="17", name="sweeper-x"))
    return StudyFolder(tmp_path)


def live(claim):
    return LiveAttempt(
        claim=claim,
        claimed_at=None,
        lease_expires_at=None,
        overdue=True,
        supervisor=None,
        child=None,
    )


class Attaching(LocalLauncher):
    """Takes up every attempt that it is shown."""

    def attach(self, folder, slot, limits):
        return folder.path


def test_a_job_that_may_still_run_is_taken_up(handed_over, tmp_path):
    (job,) = still_running([live(CLAIM)], handed_over, Attaching(logs=tmp_path))

    assert (job.claim, job.running) == (CLAIM, tmp_path / CLAIM.folder)


def test_a_job_of_another_launcher_is_refused_by_its_name(handed_over, tmp_path):
    with pytest.raises(StudyConflict, match="job 17 of slurm") as caught:
        still_running([live(CLAIM)], handed_over, LocalLauncher(logs=tmp_path))

    assert caught.value.faults[0].where == "run.launcher"


def test_an_attempt_that_no_engine_has_is_nothing_to_take_up(tmp_path):
    assert still_running([live(CLAIM)], StudyFolder(tmp_path), LocalLauncher(logs=tmp_path)) == ()


class Recorded:
    """A record with one overdue attempt of a host that is gone, which may not be ended."""

    def live_attempts(self, *, grace_seconds=0.0):
        return [live(CLAIM)]


def test_a_dead_coordinators_job_is_left_to_the_run_of_the_study(handed_over, recorder):
    left = adopt_leftovers(Recorded(), handed_over, DEAD, terms=TERMS, observer=recorder())

    assert [attempt.claim for attempt in left] == [CLAIM]
