"""A study that is not done in time stops, resumable, and goes on with a later deadline."""

import sqlite3

import pytest

from sweeper.store.store import StudyStore
from sweeper.sweep.stop_request import StopRequest

pytestmark = pytest.mark.slow  # real studies, though of trials without torch

HOUR = 3600.0


class Clock:
    """Seconds that the test sets."""

    now = 100.0

    def __call__(self):
        return self.now

    def skip_an_hour(self):
        self.now += HOUR


def with_deadline(study, small, deadline):
    """The study as its file says now, whatever it said before."""
    lines = study.file.path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("run:")]
    run = f'run: {{micro_batch: 1, storage: "sqlite", deadline: {deadline}}}'
    study.file.path.write_text("\n".join([*kept, run, ""]))
    return small(study.place)


def began_an_hour_earlier(study):
    with sqlite3.connect(study.folder.database) as connection:
        connection.execute(
            "UPDATE sweeper_study SET created_at = "
            "strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '-1 hour')"
        )
    connection.close()


def test_a_deadline_stops_running_trials_and_a_later_one_lets_them_go_on(
    study, small, recorder, attempts
):
    late = with_deadline(study, small, "1h")
    late.behave({"baseline/0": ["slow", "complete"]})
    clock = Clock()

    end = late.run(stop=StopRequest(clock), observer=recorder(progress=clock.skip_an_hour))

    assert attempts(late) == [("baseline/0", "cancelled", "deadline")]
    assert (end.counts, end.is_late, end.status) == ({"waiting": 2}, True, 3)

    began_an_hour_earlier(late)
    again = late.run()

    assert (again.is_late, again.status, len(attempts(late))) == (True, 3, 1)

    end = with_deadline(late, small, "2h").run()

    assert (end.counts, end.is_late, end.status) == ({"completed": 2}, False, 0)
    with StudyStore.read(late.url) as store:
        begun = {start.cell: start.resumed_after_window for start in store.starts()}
    assert begun == {"baseline/0": 1, "half/0": 0}


def test_a_study_that_was_done_in_time_is_not_late(study, small):
    timely = with_deadline(study, small, "1h")
    timely.run()
    began_an_hour_earlier(timely)

    assert not timely.run().is_late
