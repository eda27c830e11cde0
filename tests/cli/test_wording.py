"""Sentences and lists that several commands print."""

from sweeper.cli.wording import counted, ending


def test_counts_are_listed_in_words():
    assert counted({"completed": 4, "not_run": 1}) == "4 completed, 1 not run"


def test_an_ending_has_outcome_reason_and_detail():
    assert ending("double/0", "stopped", "diverged", "7.5 against 5.5") == (
        "double/0 stopped (diverged): 7.5 against 5.5"
    )


def test_an_ending_without_detail_needs_no_colon():
    assert ending("double/0", "lost", "killed", "") == "double/0 lost (killed)"
