"""Optuna's command line and its dashboard look at a running study, and neither feels the other."""

import contextlib
import json
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from waiting import within

from sweeper.sweep.stop_request import StopRequest

pytestmark = [pytest.mark.slow, pytest.mark.every_database]

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def url(request, monkeypatch):
    """The study's `run.storage`."""
    if request.param == "sqlite":
        yield "sqlite"
        return
    server = request.getfixturevalue("postgres")
    monkeypatch.setenv("STUDY_PASSWORD", server.PASSWORD)
    yield f"postgresql+psycopg://{server.USER}:${{STUDY_PASSWORD}}@{server.place}"
    server.execute('DROP SCHEMA "sweeper_small" CASCADE')


@pytest.fixture
def study(small, tmp_path, url):
    """Four cells of which none was begun; both records are there."""
    made = small(tmp_path, storage=url, seeds="[0, 1]")
    stop = StopRequest()
    stop.ask()
    made.run(stop=stop)
    return made


@pytest.fixture
def optuna():
    """Runs a command of Optuna on a study, and returns what it prints as JSON."""

    def run(study, *words):
        done = subprocess.run(
            [PROGRAMS / "optuna", *words, "--storage", study.url, "--format", "json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def dashboard():
    """Starts a dashboard on a study, and returns what asks it."""
    with contextlib.ExitStack() as stack:

        def start(study):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            process = subprocess.Popen(
                [PROGRAMS / "optuna-dashboard", study.url, "--port", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)

            def ask(path):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as page:
                    return json.load(page)

            within(60, lambda: answers(ask))
            return ask

        yield start


def answers(ask):
    with contextlib.suppress(urllib.error.URLError):
        ask("/api/studies")
        return True
    return False


def everything(study):
    """Returns every table of the study's database, ours and Optuna's, with all rows."""
    if study.url.startswith("sqlite"):
        connection = sqlite3.connect(study.folder.database)
        named = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        connection = psycopg.connect(study.url.replace("+psycopg", ""))
        named = (
            "SELECT relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = current_schema()::regnamespace"
        )
    with contextlib.closing(connection):
        names = [name for (name,) in connection.execute(named)]
        return {n: sorted(connection.execute(f"SELECT * FROM {n}"), key=repr) for n in names}


def best_on(ask):
    """The best value that the dashboard shows; it keeps what it has read for two seconds."""
    best, *_ = within(30, lambda: ask("/api/studies/1?after=0")["best_trials"])
    return best["values"]


def test_a_running_study_is_looked_at_while_its_trials_start_and_end(
    study, optuna, dashboard, recorder, trials, optuna_trials
):
    ask, observer = dashboard(study), recorder()
    study.behave({"half/1": ["stop"]})
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(study.run, observer=observer)
        pages = []
        while not run.done():
            pages.append(ask("/api/studies/1?after=0"))
            time.sleep(0.1)
            if len(pages) == 3:
                listed = optuna(study, "trials", "--study-name", "small")

    assert run.result().status == 0
    assert observer.messages == []
    assert len(pages) >= 3
    assert {len(page["trials"]) for page in pages} == {4}
    assert len(listed) == 4
    assert best_on(ask) == [2.5]
    assert optuna(study, "best-trial", "--study-name", "small")["value"] == 2.5
    assert [trial.state.name for trial in optuna_trials(study).values()].count("COMPLETE") == 3
    assert {row["outcome"] for row in trials(study).values()} == {"completed", "stopped"}


def test_looking_changes_nothing_waits_for_no_writer_and_lets_no_writer_wait(
    study, optuna, dashboard, url
):
    """While a transaction has written, and is not at its end."""
    before = everything(study)
    if url == "sqlite":
        writer = sqlite3.connect(study.folder.database, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
    else:
        writer = psycopg.connect(study.url.replace("+psycopg", ""))
    with contextlib.closing(writer):
        writer.execute("UPDATE sweeper_cell SET detail = 'x'")
        writer.execute("UPDATE trials SET state = 'RUNNING'")

        assert [each["name"] for each in optuna(study, "studies")] == ["small"]
        assert len(optuna(study, "trials", "--study-name", "small")) == 4
        assert len(dashboard(study)("/api/studies/1?after=0")["trials"]) == 4

        writer.execute("ROLLBACK")
    assert everything(study) == before
