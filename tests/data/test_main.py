"""The child process: what it writes, says and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sweeper.data.manifest import Manifest
from sweeper.data.options import DataOptions, Source
from sweeper.data.request import ModelSource, PrepareRequest
from sweeper.errors import DataError, Fault, from_plain

pytestmark = pytest.mark.slow

Child = Callable[..., CompletedProcess[str]]
Write = Callable[..., str]


def pair(number: int) -> dict[str, str]:
    return {"prompt": f"prompt {number}", "answer": f"answer {number} \U0001f600"}


@pytest.fixture
def child(
    run_child: Child, model_of: Callable[..., str], tmp_path: Path
) -> Callable[..., CompletedProcess[str]]:
    """Returns a runner of the preparing child for a train and a validation file."""

    def run(train: str, validation: str, **environment: str) -> CompletedProcess[str]:
        request = PrepareRequest(
            model=ModelSource(path=model_of()),
            data=DataOptions(
                train=Source(path=train), validation=Source(path=validation), max_length=64
            ),
        )
        (tmp_path / "asked.json").write_text(request.to_json())
        arguments = ("-m", "sweeper.data", str(tmp_path / "asked.json"), str(tmp_path / "out"))
        return run_child(*arguments, **environment)

    return run


def test_the_child_prepares_in_any_locale_and_keeps_standard_output_clean(
    child: Child, write_jsonl: Write, tmp_path: Path
) -> None:
    train = write_jsonl("train.jsonl", pair(1), pair(2))
    done = child(train, write_jsonl("v.jsonl", pair(3)), LC_ALL="C", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "")
    assert "read train: 2, validation: 1" in done.stderr
    assert Manifest.read(tmp_path / "out").splits["train"].records == 2


def test_what_the_user_can_mend_is_json_on_standard_output_with_status_two(
    child: Child, write_jsonl: Write, tmp_path: Path
) -> None:
    turns = [{"role": "user", "content": "q"}, {"role": "b\U0001f916t", "content": "a"}]
    train = write_jsonl("train.jsonl", {"messages": turns}, {"messages": turns})
    validation = str(tmp_path / "missing.jsonl")
    done = child(train, validation, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    error = from_plain(json.loads(done.stdout))
    assert isinstance(error, DataError)
    role, missing = error.faults
    assert role.what == "unknown role `b\U0001f916t`, in 2 records"
    assert role.got == "record 1 (line 1), turn 2; record 2 (line 2), turn 2"
    assert missing == Fault(
        what="the file does not exist",
        where=validation,
        hint="The folder holds: asked.json, train.jsonl",
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_our_own_failure_is_a_traceback_with_status_one(run_child: Child, tmp_path: Path) -> None:
    done = run_child("-m", "sweeper.data", str(tmp_path / "nothing.json"), str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "FileNotFoundError" in done.stderr
