"""Where a study stands, told from its database alone."""

import os

from sweeper.report.standing import Ending, Mark, standing


def test_cells_are_counted_by_how_they_ended_or_where_they_are(begun):
    found = standing(begun.file)

    assert list(found.counts.items()) == [
        ("completed", 2),
        ("stopped", 1),
        ("lost", 1),
        ("failed", 1),
        ("running", 1),
        ("waiting", 3),
    ]
    assert found.folder == str(begun.folder.path)
    assert (found.name, found.budget_target_tokens, found.fingerprint) == ("rates", 30, "f" * 64)
    assert not found.is_finished


def test_every_trial_that_did_not_complete_is_told_with_its_reason(begun):
    assert standing(begun.file).endings == [
        Ending(
            trial="double/0",
            outcome="stopped",
            reason="nonfinite_loss",
            detail="the loss of window 2 was nan",
        ),
        Ending(
            trial="baseline/1",
            outcome="failed",
            reason="code_error",
            detail="RuntimeError: no [kernel]",
        ),
        Ending(
            trial="half/1",
            outcome="lost",
            reason="killed",
            detail="killed by SIGKILL, which sweeper did not send",
        ),
    ]


def test_a_running_trial_shows_how_far_it_is_and_whose_it_is(begun):
    (running,) = standing(begun.file).running

    assert (running.trial, running.slot, running.attempt) == ("double/1", "cpu:1", 1)
    assert (running.target_tokens_read, running.loss) == (10, 2.375)
    assert (running.host, running.pid) == (os.uname().nodename, os.getpid())
    assert running.owner_is_alive


def test_a_trial_that_went_on_elsewhere_is_marked(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.go_on_elsewhere(store, "baseline/0")

    assert standing(recorded.file).resumed_elsewhere == [
        Mark(
            trial="baseline/0",
            attempt=2,
            after_window=1,
            differences=("it ran on cpu and goes on on cuda",),
        )
    ]


def test_a_trial_that_went_on_as_it_had_begun_has_no_mark(begun):
    assert standing(begun.file).resumed_elsewhere == []


def test_a_study_is_attended_while_an_owner_lives(begun):
    assert standing(begun.file).is_attended


def test_a_study_whose_owner_died_is_not_attended(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.dead_owner(), "cpu:0")

    found = standing(recorded.file)

    assert [trial.owner_is_alive for trial in found.running] == [False]
    assert not found.is_attended


def test_a_study_owned_on_another_host_may_be_attended(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.distant_owner(), "cpu:0")

    found = standing(recorded.file)

    assert [trial.owner_is_alive for trial in found.running] == [None]
    assert found.is_attended


def test_a_study_whose_owner_on_another_host_is_silent_is_not_attended(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.distant_owner(), "cpu:0", lease_seconds=-1.0)

    found = standing(recorded.file)

    assert [trial.silent_since is None for trial in found.running] == [False]
    assert not found.is_attended


def test_an_owner_of_this_host_that_lives_is_never_said_to_be_silent_for_good(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.living_owner(), "cpu:0", lease_seconds=-1.0)

    assert standing(recorded.file).is_attended


def test_a_trial_without_a_window_has_read_nothing_yet(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.claim(studies.living_owner(), "cpu:0")

    (running,) = standing(recorded.file).running

    assert (running.target_tokens_read, running.loss) == (0, None)


def test_a_study_that_is_done_is_finished_and_says_why(finished):
    found = standing(finished.file)

    assert found.is_finished
    assert found.counts == {"completed": 6, "stopped": 3}
    assert (found.ended_why, found.running) == ("every cell has ended", [])


def test_cells_that_an_early_end_left_out_are_nothing_left_to_run(studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.close_not_run("baseline_failed: baseline/0 was stopped")

    found = standing(recorded.file)

    assert found.counts == {"not_run": 9}
    assert found.is_finished
    assert found.ended_why == "baseline_failed: baseline/0 was stopped"
