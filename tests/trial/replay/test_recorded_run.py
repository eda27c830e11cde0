"""What is on record of an attempt, with what it took over from those before it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sweeper.errors import RunFolderError
from sweeper.records import Event, Outcome, Reason, Resumed, Stop, encode
from sweeper.trial.replay.recorded_run import read_run

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def write(folder, *records, cut=""):
    lines = [
        encode(Event(sequence=number, at=NOW, record=record)) + "\n"
        for number, record in enumerate(records, start=1)
    ]
    folder.events.write_text("".join(lines) + cut, encoding="utf-8")


@pytest.fixture
def two(bench, attempt, made):
    """Attempt 2 went on after window 2 of attempt 1, which had read four windows."""
    first, second = attempt(bench.spec()), attempt(bench.spec(attempt=2))
    write(
        first,
        made.evaluation(0, 0, 5.0),
        *(made.update(window, loss=1.0) for window in (1, 2, 3, 4)),
        made.evaluation(1, 2, 4.0),
        made.evaluation(2, 4, 3.0),
    )
    checkpoint = str(first.path / "checkpoints" / "00000002")
    write(
        second,
        Resumed(after_window=2, checkpoint=checkpoint, sha256="ab"),
        made.update(3, loss=2.0),
        made.evaluation(1, 2, 4.5),
    )
    return first, second


def test_windows_after_the_checkpoint_are_those_of_the_attempt_that_went_on(two):
    run = read_run(two[1])

    assert {window: u.loss for window, u in run.updates.items()} == {1: 1.0, 2: 1.0, 3: 2.0}
    assert run.last_window == 3


def test_evaluations_likewise_and_one_that_was_made_again_counts_as_made_last(two):
    run = read_run(two[1])

    losses = {index: e.loss for (_, index), e in run.evaluations.items()}
    assert losses == {0: 5.0, 1: 4.5}


def test_the_earlier_attempt_has_its_own_history(two):
    run = read_run(two[0])

    assert sorted(run.updates) == [1, 2, 3, 4]
    assert run.folders == (two[0],)


def test_folders_are_found_beside_each_other_when_all_was_moved(two, tmp_path):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for folder in two:
        folder.path.rename(moved / folder.path.name)

    run = read_run(type(two[1])(moved / two[1].path.name))

    assert [folder.path.parent for folder in run.folders] == [moved, moved]
    assert run.updates[1].loss == 1.0


def test_a_stop_is_the_anomaly_with_its_own_window(bench, attempt, made):
    folder = attempt(bench.spec())
    stop = Stop(
        reason=Reason.DIVERGED,
        detail="It went up.",
        window=1,
        updates=1,
        target_tokens_read=10,
        last_finite_loss=2.0,
    )
    write(folder, made.update(1), stop, Outcome(reason=Reason.DIVERGED, detail="It went up."))

    anomaly = read_run(folder).anomaly

    assert (anomaly.reason, anomaly.window) == (Reason.DIVERGED, 1)


@pytest.mark.parametrize(
    ("reason", "is_anomaly"),
    [
        ("code_error", True),
        ("budget_reached", False),
        ("preempted", False),
        ("device_memory", False),
        ("device_error", False),
    ],
)
def test_only_what_the_trial_did_itself_is_an_anomaly(bench, attempt, made, reason, is_anomaly):
    folder = attempt(bench.spec())
    write(folder, made.update(1), Outcome(reason=Reason(reason), detail=""))

    assert (read_run(folder).anomaly is not None) is is_anomaly


def test_a_line_that_a_kill_has_cut_does_not_count(bench, attempt, made):
    folder = attempt(bench.spec())
    write(folder, made.update(1), cut='{"sequence": 2, "at"')

    assert sorted(read_run(folder).updates) == [1]


def test_an_attempt_that_wrote_nothing_has_no_window(bench, attempt):
    assert read_run(attempt(bench.spec())).last_window == 0


def test_a_folder_without_an_attempt_is_refused(attempt, bench):
    folder = attempt(bench.spec())
    folder.spec.unlink()

    with pytest.raises(RunFolderError, match="the record of the attempt cannot be read"):
        read_run(folder)


def test_damaged_events_are_refused(bench, attempt, made):
    folder = attempt(bench.spec())
    write(folder, made.update(1))
    folder.events.write_text("no event\n" + folder.events.read_text("utf-8"), encoding="utf-8")

    with pytest.raises(RunFolderError, match="the record of the attempt cannot be read"):
        read_run(folder)
