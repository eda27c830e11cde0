"""Studies of a few cells whose trials are small scripts; see small_study.py and fake_trial.py."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

from sweeper.store.store import StudyStore
from sweeper.sweep.stop_request import StopRequest

SCRIPT = Path(__file__).with_name("small_study.py")


def _load():
    spec = importlib.util.spec_from_file_location("sweep_small_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SMALL = _load()


class Recorder:
    """Remembers what an observer is told; `on` maps a method's name to what to do then."""

    def __init__(self, **on):
        self.on = on
        self.started = []
        self.ended = []
        self.seen = []
        self.messages = []

    def _react(self, name):
        self.on.get(name, lambda: None)()

    def slot_started(self, *, slot, cell, attempt):
        self.started.append((cell, attempt))
        self._react("slot_started")

    def progress(self, progress):
        self.seen.append(progress)
        self._react("progress")

    def trial_ended(self, *, slot, cell, outcome):
        self.ended.append((cell, str(outcome.reason)))
        self._react("trial_ended")

    def message(self, text):
        self.messages.append(text)
        self._react("message")


@pytest.fixture
def recorder():
    return Recorder


@pytest.fixture
def small():
    """The class of small studies."""
    return SMALL.SmallStudy


@pytest.fixture
def study(tmp_path):
    """Two cells: baseline/0, half/0."""
    return SMALL.SmallStudy(tmp_path)


@pytest.fixture(scope="session")
def founded_place(tmp_path_factory):
    """A place with such a study on record, none of its cells begun; to be copied."""
    place = tmp_path_factory.mktemp("founded")
    stop = StopRequest()
    stop.ask()
    SMALL.SmallStudy(place).run(stop=stop)
    return place


@pytest.fixture
def founded(founded_place, tmp_path):
    """The study of `study`, on record, of which no cell was begun."""
    shutil.copytree(founded_place, tmp_path, dirs_exist_ok=True)
    return SMALL.SmallStudy(tmp_path)


@pytest.fixture
def store(founded):
    """The record of a study that has been founded and not run."""
    with StudyStore.open(founded.url) as store:
        yield store


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def coordinator():
    """Starts coordinator processes on a small study; what still runs at the end is killed."""
    started = []

    def start(study, *arguments):
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(study.place), *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=SCRIPT.parents[2],
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def trials():
    """Reads the trials of a small study by cell."""

    def read(study):
        with StudyStore.read(study.url) as store:
            return {row["trial"]: row for row in store.trials()}

    return read


@pytest.fixture
def attempts():
    """Reads outcome and reason of every attempt of a small study, in order."""

    def read(study):
        with StudyStore.read(study.url) as store:
            return [(row["trial"], row["outcome"], row["reason"]) for row in store.attempts()]

    return read


@pytest.fixture
def optuna_trials():
    """Reads a small study as any user of Optuna would: state, value, parameters, attributes."""

    def read(study):
        storage = optuna.storages.RDBStorage(study.url)
        loaded = optuna.load_study(study_name="small", storage=storage)
        found = {trial.user_attrs["cell"]: trial for trial in loaded.get_trials()}
        assert len(found) == len(loaded.get_trials()), "one trial a cell"
        storage.remove_session()
        storage.engine.dispose()
        return found

    return read


@pytest.fixture
def on_server(postgres, monkeypatch):
    """The `run.storage` of small studies on a server, with its password in the environment."""
    monkeypatch.setenv("STUDY_PASSWORD", postgres.PASSWORD)
    yield f"postgresql+psycopg://{postgres.USER}:${{STUDY_PASSWORD}}@{postgres.place}"
    for schema in small_schemas(postgres):
        postgres.execute(f'DROP SCHEMA "{schema}" CASCADE')


@pytest.fixture
def schemas(postgres):
    """Asks for the names of the schemas of small studies on the server."""
    return lambda: small_schemas(postgres)


def small_schemas(postgres):
    query = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sweeper\\_small%' ORDER BY 1"
    return [name for (name,) in postgres.execute(query)]
