"""`sweeper logs`: the log itself on standard output, where it is beside it."""

import pytest


@pytest.fixture
def logged(studies, tmp_path):
    """A study in mid-run whose first cell's attempts have logs."""
    recorded = studies.begin(tmp_path)
    for number in (1, 2):
        folder = recorded.folder.attempt(arm="baseline", seed=0, number=number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stderr.log").write_text(f"attempt {number} [bold]said[/bold]\n")
    return recorded


def test_the_latest_attempt_s_log_is_printed_as_it_is(sweeper, logged):
    ran = sweeper("logs", logged.file, "baseline/0")

    assert (ran.status, ran.out) == (0, "attempt 2 [bold]said[/bold]\n")
    where, next_command = ran.err.splitlines()
    assert where == (
        f"baseline/0, attempt 2: {logged.folder.path}/trials/baseline-0/attempts/2/stderr.log"
    )
    assert next_command == f"Next: sweeper show {logged.file} baseline/0"


@pytest.mark.parametrize("words", [["--attempt", "1"], ["--attempt", "1", "-f"]])
def test_an_earlier_attempt_is_printed_and_not_waited_for(sweeper, logged, words):
    assert sweeper("logs", logged.file, "baseline/0", *words).out.startswith("attempt 1 ")


def test_an_attempt_that_does_not_exist_is_a_mistake(sweeper, logged):
    ran = sweeper("logs", logged.file, "baseline/0", "--attempt", "7")

    assert (ran.status, ran.out) == (2, "")
    assert "it has no attempt 7 (expected 1, 2)" in ran.err
