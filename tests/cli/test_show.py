"""`sweeper show`: what somebody needs who asks why a trial ended as it did."""

import json

import pytest


def show(sweeper, trial):
    return [line.rstrip() for line in sweeper("show", "study.yaml", trial).out.splitlines()]


def test_a_stopped_trial_says_how_and_at_what_loss_first(sweeper, begun):
    shown = show(sweeper, "double/0")

    assert shown[0] == "double/0 stopped (nonfinite_loss): the loss of window 2 was nan"
    assert "last_finite_loss        2.6250" in shown
    assert "validation_loss" not in " ".join(shown[:20])
    assert (
        "note                    stopped in window 2: nonfinite_loss: the loss of window 2 was nan"
        in shown
    )


def test_a_stopped_trial_shows_its_last_windows_with_the_one_that_was_skipped(sweeper, begun):
    shown = show(sweeper, "double/0")

    start = shown.index("Last 5 windows")
    assert shown[start + 1 :] == [
        "window    loss  learning_rate  target_tokens_read  gradient_norm  clipped  ran  skip",
        "     1  2.6250         0.0002                  10            0.1  no       yes  -",
        (
            "     2       -              -                  20              -  no       no"
            "   nonfinite_loss"
        ),
    ]


def test_a_failed_trial_shows_its_traceback_line_by_line_and_where_its_log_is(sweeper, begun):
    shown = show(sweeper, "baseline/1")

    folder = begun.folder.path / "trials" / "baseline-1" / "attempts" / "1"
    assert shown[0] == "baseline/1 failed (code_error): RuntimeError: no [kernel]"
    start = shown.index("Attempt 1 on cpu:0: failed (code_error)")
    assert shown[start + 1 : start + 3] == [
        f"folder                  {folder}",
        f"log                     {folder}/stderr.log",
    ]
    assert "environment             device cpu, precision float32, threads 1" in shown
    assert "exit_status             1" in shown
    assert shown[-6:] == [
        "error                   RuntimeError",
        "stderr_tail             loading",
        "                        \N{PILE OF POO} no [kernel]",
        "traceback               Traceback (most recent call last):",
        '                          File "loop.py", line 7',
        "                        RuntimeError: no [kernel]",
    ]


def test_a_lost_trial_shows_the_signal(sweeper, begun):
    shown = show(sweeper, "half/1")

    assert shown[0] == "half/1 lost (killed): killed by SIGKILL, which sweeper did not send"
    assert "signal                  SIGKILL" in shown


def test_every_attempt_of_a_trial_that_was_resumed_is_shown(sweeper, begun):
    shown = show(sweeper, "baseline/0")

    assert [line for line in shown if line.startswith("Attempt")] == [
        "Attempt 1 on cpu:0: lost (preempted)",
        "Attempt 2 on cpu:0: completed (budget_reached)",
    ]
    assert "note                    padding is 40 % of what was computed" in shown


def test_an_attempt_says_where_it_began_what_it_saved_and_its_seconds(sweeper, begun):
    shown = show(sweeper, "baseline/0")

    first, second = (shown.index(f"Attempt {number} on cpu:0: {end}") for number, end in ENDS)
    saved = begun.folder.path / "trials/baseline-0/attempts/1/checkpoints/00000001"
    assert "began                   with the first window" in shown[first:second]
    assert f"checkpoints             1, the newest after window 1: {saved}" in shown[first:second]
    assert "began                   after window 1 of attempt 1" in shown[second:]
    assert "seconds by phase        loading 2.5, training 8.2, evaluating 1.0" in shown[second:]


ENDS = ((1, "lost (preempted)"), (2, "completed (budget_reached)"))


def test_what_changed_since_a_checkpoint_is_shown(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        studies.go_on_elsewhere(store, "baseline/0")

    out = sweeper("show", recorded.file, "baseline/0").out

    assert "changed since           it ran on cpu and goes on on cuda" in out


def test_what_was_planned_stands_beside_what_was_read(sweeper, begun):
    shown = show(sweeper, "baseline/0")

    place = shown.index("Ledger")
    assert shown[place + 1 : place + 5] == [
        "               planned  realized",
        "windows              3         3",
        "target_tokens       30        30",
        "updates              -         3",
    ]


@pytest.mark.parametrize(
    ("trial", "heading"), [("double/1", "double/1 running"), ("double/2", "double/2 waiting")]
)
def test_an_open_trial_says_where_it_is(sweeper, begun, trial, heading):
    assert show(sweeper, trial)[0] == heading


def test_a_trial_that_was_not_run_says_why(sweeper, studies, tmp_path):
    recorded = studies.found(tmp_path)
    with recorded.open() as store:
        store.close_not_run("baseline_failed: baseline/0 was stopped")

    ran = sweeper("show", recorded.file, "double/0")

    assert ran.out.splitlines()[0] == ("double/0 not run: baseline_failed: baseline/0 was stopped")


@pytest.mark.parametrize(
    ("trial", "next_command"),
    [
        ("double/0", "sweeper updates study.yaml double/0"),
        ("baseline/1", "sweeper trials study.yaml"),
    ],
)
def test_windows_come_next_where_there_are_any(sweeper, begun, trial, next_command):
    assert sweeper("show", "study.yaml", trial).err == f"Next: {next_command}\n"


def test_a_path_is_not_broken_on_a_narrow_terminal(sweeper, begun, narrow):
    folder = begun.folder.path / "trials" / "double-0" / "attempts" / "1"

    assert f"{folder}/stderr.log" in sweeper("show", "study.yaml", "double/0").out


def test_json_holds_everything_with_evidence_as_an_object(sweeper, begun, studies):
    found = json.loads(sweeper("show", "study.yaml", "baseline/1", "--json").out)

    assert found["trial"]["reason"] == "code_error"
    assert found["attempts"][0]["evidence"]["traceback"] == studies.TRACEBACK
    assert (found["notes"], found["evaluations"], found["updates"]) == ([], [], [])
