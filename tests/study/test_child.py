"""A child process and the three ways in which it answers; the children are real."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from sweeper.errors import DataError, Fault, SweeperError, UserError, as_plain
from sweeper.study.child import ChildCall, run_child


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(source: str, *arguments: str) -> ChildCall:
        (tmp_path / "answering.py").write_text(source)
        return ChildCall(
            module="answering",
            arguments=arguments,
            purpose="answering",
            log=tmp_path / "child.log",
        )

    return make


def test_progress_is_passed_on_and_kept(call, tmp_path) -> None:
    told: list[str] = []

    run_child(call("import sys; print('one\\ntwo', file=sys.stderr)"), told.append)

    assert told == ["one", "two"]
    assert (tmp_path / "child.log").read_text() == "one\ntwo\n"


def test_a_child_gets_variables_of_its_own_on_top_of_ours(call, monkeypatch) -> None:
    monkeypatch.setenv("OURS", "1")
    told: list[str] = []
    source = "import os, sys; print(os.environ['OURS'], os.environ['OWN'], file=sys.stderr)"

    run_child(dataclasses.replace(call(source), environment={"OWN": "2"}), told.append)

    assert told == ["1 2"]


def test_the_users_faults_come_back_as_the_error_they_were(call) -> None:
    fault = Fault(what="no answer", where="a.jsonl:3", got="null", expected="text", hint="Add it.")
    answer = json.dumps(as_plain(DataError(fault)))

    with pytest.raises(DataError) as caught:
        run_child(call(f"import sys; print({answer!r}); sys.exit(2)"), print)

    assert caught.value.faults == (fault,)


def test_a_fault_of_ours_names_the_log_and_spares_the_traceback(call, tmp_path) -> None:
    told: list[str] = []

    with pytest.raises(SweeperError) as caught:
        run_child(call("raise KeyError('lost')"), told.append)

    assert not isinstance(caught.value, UserError)
    assert str(caught.value) == (
        "python -m answering: answering failed (got exit status 1: KeyError: 'lost')."
        f" Its output is in {tmp_path / 'child.log'}."
    )
    assert told == []
    assert "Traceback" in (tmp_path / "child.log").read_text()


def test_a_killed_child_is_told_with_its_signal(call) -> None:
    source = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    with pytest.raises(SweeperError, match=r"answering failed \(got signal 9\)"):
        run_child(call(source), print)


@pytest.mark.parametrize("answer", ["", "print('usage: ...')", "print('{}')"])
def test_exit_status_2_without_faults_is_a_fault_of_ours(call, answer) -> None:
    with pytest.raises(SweeperError, match=r"answering failed \(got exit status 2\)"):
        run_child(call(f"{answer}\nimport sys; sys.exit(2)"), print)


def test_arguments_reach_the_child(call) -> None:
    told: list[str] = []
    source = "import sys; print(sys.argv[1:], file=sys.stderr)"

    run_child(call(source, "a b", "$HOME"), told.append)

    assert told == ["['a b', '$HOME']"]
