"""A database made anew while others may be running the study: refused, or they are fenced off."""

import pytest

from sweeper.errors import StudyBusy
from sweeper.records import Outcome, Reason
from sweeper.store.claims import Owner
from sweeper.store.store import StudyStore
from sweeper.sweep.coordinator import only_coordinator
from sweeper.sweep.observer import SilentObserver
from sweeper.sweep.rebuilding import Restoring, rebuild
from sweeper.sweep.verdicts import leave_claim
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.liveness import host_name

pytestmark = pytest.mark.slow  # Optuna's tables take a second

ELSEWHERE = Owner(worker="worker", host="another-host", pid=1, started_at="1.0")
GONE = Owner(worker="worker", host=host_name(), pid=2**22 + 1, started_at="1.0")
READ_ALL = Outcome(reason=Reason.BUDGET_REACHED, detail="read it all")


def anew(study, *, replace=False):
    return rebuild(study.folder, replace=replace, observer=SilentObserver())


def lose(study):
    for file in study.folder.path.glob("study.db*"):
        file.unlink()


def claim(study, owner, **lease):
    with StudyStore.open(study.url) as store:
        return store.claim(owner, "cpu 1", **lease)


def attempts(study):
    with StudyStore.read(study.url) as store:
        return [(row["trial"], row["host"], row["reason"]) for row in store.attempts()]


def test_a_study_that_is_run_is_not_rebuilt(founded):

    with only_coordinator(founded.folder), pytest.raises(StudyBusy, match="already being run"):
        anew(founded, replace=True)


def test_a_whole_database_by_which_another_host_may_train_is_not_replaced(founded):
    claim(founded, ELSEWHERE)

    with pytest.raises(StudyBusy, match="process 1 on another-host"):
        anew(founded, replace=True)

    assert attempts(founded) == [("baseline/0", "another-host", None)]


def test_nor_is_one_by_which_somebody_has_begun_while_its_successor_was_built(founded, monkeypatch):
    the_end = Restoring.the_end

    def claimed_meanwhile(restoring):
        claim(founded, ELSEWHERE)
        the_end(restoring)

    monkeypatch.setattr(Restoring, "the_end", claimed_meanwhile)

    with pytest.raises(StudyBusy, match="process 1 on another-host"):
        anew(founded, replace=True)

    assert attempts(founded) == [("baseline/0", "another-host", None)]
    assert not list(founded.folder.path.glob("*~rebuilt*"))


@pytest.mark.parametrize(
    ("owner", "lease_seconds"), [(GONE, 300.0), (ELSEWHERE, -3600.0)], ids=["dead", "overdue"]
)
def test_what_nobody_runs_any_more_is_no_reason_to_keep_it(founded, owner, lease_seconds):
    claim(founded, owner, lease_seconds=lease_seconds)

    assert anew(founded, replace=True).aside is not None

    assert attempts(founded) == [], "its folder had nothing of the attempt"


def test_an_owner_by_the_lost_database_is_none_by_the_one_made_anew(founded):
    """Both have the first attempt at the same cell, of which the other one's disk knows nothing."""
    theirs = claim(founded, ELSEWHERE)
    lose(founded)
    anew(founded)
    ours = claim(founded, GONE)

    assert (ours.cell, ours.attempt) == (theirs.cell, theirs.attempt) == ("baseline/0", 1)
    with StudyStore.open(founded.url) as store:
        assert not store.renew(theirs)
        assert not store.finish(theirs, READ_ALL, max_resumes=1)
        assert store.renew(ours)
        assert [row["reason"] for row in store.attempts()] == [None]


def test_fencing_numbers_grow_from_one_database_to_the_next(founded):
    """Also where the folder knows of none of the owners that the one before has had."""
    numbers = [claim(founded, GONE).fencing_number]
    for _ in range(2):
        anew(founded, replace=True)
        numbers.append(claim(founded, GONE).fencing_number)

    assert numbers == [1, 1_000_001, 2_000_001]


def test_whoever_still_runs_a_trial_of_which_the_folder_knows_keeps_it(founded):
    """Its owner, on another host, writes into the same run folder, and lives."""
    theirs = claim(founded, ELSEWHERE)
    (founded.folder.path / theirs.folder).mkdir(parents=True)
    leave_claim(AttemptFolder(founded.folder.path / theirs.folder), theirs)
    lose(founded)

    anew(founded)

    with StudyStore.open(founded.url) as store:
        assert store.renew(theirs)
