"""What a page that is passed on leaves out, and what it leaves."""

import pytest

from sweeper.records import OutcomeKind
from sweeper.report.discretion import discretion

QUIET = discretion(with_paths=False, hosts=["node-7", None, "localhost"])
OPEN = discretion(with_paths=True, hosts=["node-7"])


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("cannot open /home/eve/data.jsonl", "cannot open [path left out]"),
        ("in /home/eve/data.jsonl.", "in [path left out]."),
        ("('/srv/a b', 2)", "('[path left out] b', 2)"),
        ("~/models/base is gone", "[path left out] is gone"),
        ("sqlite:////data/runs/study.db: locked", "[path left out]: locked"),
        ("file:///etc/passwd", "[path left out]"),
        (r"C:\Users\eve\x.txt failed", "[path left out] failed"),
    ],
)
def test_a_path_is_left_out(said, shown):
    assert QUIET.prose(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "3/3 seeds, 5 nats/token",
        "models/primer-1m",
        "HuggingFaceTB/SmolLM2-135M",
        "https://arxiv.org/abs/2309.14322",
        "</style> and </script>",
        "lower and/or higher",
        "stopped 1 / 2",
        "double/2",
    ],
)
def test_what_is_no_path_stays(said):
    assert QUIET.prose(said) == said


def test_a_host_is_left_out_of_what_trials_said_as_a_word_of_its_own():
    assert QUIET.foreign("worker on node-7 of node-71 at localhost") == (
        "worker on [host left out] of node-71 at localhost"
    )
    assert QUIET.prose("is node-7 too slow?") == "is node-7 too slow?"


def test_the_words_of_an_error_are_left_out_and_those_of_other_ends_are_not():
    assert QUIET.detail("KeyError: 'a record'", OutcomeKind.FAILED) == ""
    assert QUIET.detail("3600 s of 3600 s", OutcomeKind.LIMITED) == "3600 s of 3600 s"
    assert OPEN.detail("KeyError: 'a record'", OutcomeKind.FAILED) == "KeyError: 'a record'"


def test_everything_is_shown_when_it_is_asked_for():
    assert OPEN.foreign("worker on node-7 in /srv/x") == "worker on node-7 in /srv/x"
