"""A password is in no file, table, message, command line or trial's environment, nor a piece of it.

The pieces are those that URLs, percent encoding and base64 make of it.
"""

from __future__ import annotations

import base64
import os
import time
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from sweeper.cli.main import main

pytestmark = pytest.mark.slow  # a real study, though of trials without torch

PASSWORD = "p@ss:w/rd%1"
FORMS = (
    PASSWORD,
    quote(PASSWORD, safe=""),
    quote(PASSWORD),
    quote(quote(PASSWORD, safe=""), safe=""),
    base64.b64encode(PASSWORD.encode()).decode(),
    PASSWORD.encode().hex(),
    "ss:w/rd",
    "w/rd%1",
    "w%2Frd",
)


def found_in(text: bytes) -> list[str]:
    return [form for form in FORMS if form.encode() in text]


@pytest.fixture
def storage(postgres, monkeypatch):
    """The `run.storage` of a study of a role with that password."""
    postgres.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
    postgres.execute("GRANT CREATE ON DATABASE postgres TO keeper")
    monkeypatch.setenv("STUDY_PASSWORD", PASSWORD)
    yield f"postgresql+psycopg://keeper:${{STUDY_PASSWORD}}@{postgres.place}"
    postgres.execute("DROP OWNED BY keeper CASCADE")
    postgres.execute("DROP ROLE keeper")


def other_processes(place, coordinator):
    """The supervisors and trials of the study, with command line and environment."""
    found = {}
    for process in psutil.Process(coordinator.pid).children(recursive=True):
        with_it = [
            Path(f"/proc/{process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")
        ]
        found[process.pid] = b"\0".join(with_it)
    return found


def rows_of(postgres, schema):
    tables = postgres.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'"
    )
    return {
        name: postgres.execute(f'SELECT t::text FROM "{schema}"."{name}" t') for (name,) in tables
    }


@pytest.fixture
def sweeper(capfd):
    """Runs a command line; returns its exit status, and all that it printed."""

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return end.value.code or 0, "".join(capfd.readouterr())

    return run


def test_a_password_is_nowhere(small, tmp_path, storage, postgres, coordinator, sweeper):
    study = small(tmp_path, storage=storage)
    study.behave({"baseline/0": ["unhurried"], "half/0": ["late_error"]})
    process = coordinator(study)
    events = study.folder.attempt(arm="baseline", seed=0, number=1) / "events.jsonl"
    while not events.exists() or b'"update"' not in events.read_bytes():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert found_in(Path(f"/proc/{process.pid}/environ").read_bytes()), "the coordinator has it"
    others = other_processes(tmp_path, process)
    _, said = process.communicate(timeout=60)

    assert len(others) >= 2, "a supervisor and its trial"
    assert [found_in(text) for text in others.values()] == [[]] * len(others)
    assert not any(b"STUDY_PASSWORD" in text for text in others.values())
    tables = rows_of(postgres, "sweeper_small")
    assert tables["sweeper_trials"]
    assert tables["trials"], "Optuna's"
    assert found_in(repr(tables).encode()) == []
    commands = [
        sweeper("status", study.folder.path),
        sweeper("show", study.folder.path, "half/0"),
        sweeper("rebuild", study.folder.path),
        sweeper("rebuild", study.folder.path, "--replace"),
        sweeper("--debug", "retry", study.folder.path, "baseline/0"),
    ]
    postgres.execute("ALTER ROLE keeper PASSWORD 'another'")
    commands.append(sweeper("--debug", "status", study.folder.path))
    assert [status for status, _ in commands] == [0, 0, 2, 0, 2, 2]
    printed = "".join([said, *(text for _, text in commands)]).encode()
    assert found_in(printed) == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 10
    assert [file for file in files if found_in(file.read_bytes())] == []
    assert os.environ["STUDY_PASSWORD"] == PASSWORD
