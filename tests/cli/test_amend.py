"""`sweeper amend`: what is raised, and what goes on because of it."""

import pytest


@pytest.fixture
def recorded(studies, tmp_path):
    return studies.begin(tmp_path)


def test_a_raised_limit_is_told_and_the_way_on_named(sweeper, recorded):
    ran = sweeper("amend", recorded.file, "--limit", "hang=20m")

    assert ran.status == 0
    assert ran.out.splitlines() == [
        "run.limits.hang is 20m from now on.",
        "Trials that go on: none, for none had ended by it",
    ]
    assert ran.err.splitlines()[-1] == f"Next: sweeper run {recorded.file}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit", "hang"], "a limit is written with its name, each once"),
        (["--limit", "hang=20m", "--limit", "hang=30m"], "each once"),
        (["--limit", "hangs=20m"], "there is no such limit"),
        (["--limit", "hang=5m"], "can only be raised"),
        ([], "Missing option '--limit'"),
    ],
)
def test_what_is_no_raise_is_a_mistake(sweeper, recorded, words, message):
    ran = sweeper("amend", recorded.file, *words)

    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
