"""Studies whose record is on a database server, several beside each other."""

from __future__ import annotations

import threading

import optuna
import pytest

from sweeper.errors import StoreUnavailable, StudyConflict
from sweeper.store.store import StudyStore
from sweeper.sweep import slot_loop
from sweeper.sweep.stop_request import StopRequest

pytestmark = pytest.mark.costly


@pytest.fixture
def storage(postgres, monkeypatch):
    """The `run.storage` of a study on a server, with its password in the environment."""
    monkeypatch.setenv("STUDY_PASSWORD", postgres.PASSWORD)
    yield f"postgresql+psycopg://{postgres.USER}:${{STUDY_PASSWORD}}@{postgres.place}"
    for (schema,) in postgres.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sweeper\\_%'"
    ):
        postgres.execute(f'DROP SCHEMA "{schema}" CASCADE')


def test_a_study_on_a_server_ends_and_optuna_has_it_too(
    small, tmp_path, storage, trials, attempts, optuna_trials
):
    study = small(tmp_path, storage=storage)

    assert study.run(slots=2).status == 0

    assert {row["outcome"] for row in trials(study).values()} == {"completed"}
    assert len(attempts(study)) == 2
    mirrored = optuna_trials(study)
    assert {trial.state for trial in mirrored.values()} == {optuna.trial.TrialState.COMPLETE}
    assert {cell: trial.value for cell, trial in mirrored.items()} == {
        cell: row["validation_loss"] for cell, row in trials(study).items()
    }
    assert not study.folder.database.exists()


def test_the_same_command_again_does_nothing(small, tmp_path, storage):
    study = small(tmp_path, storage=storage)
    study.run()

    assert study.run().did_nothing


def test_the_password_is_in_no_file(small, tmp_path, storage, postgres):
    study = small(tmp_path, storage=storage)
    study.run()

    texts = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]

    assert any(b"${STUDY_PASSWORD}" in text for text in texts)
    assert not any(postgres.PASSWORD.encode() in text for text in texts)


def test_a_study_of_the_same_name_in_another_folder_is_refused(small, tmp_path, storage):
    small(tmp_path / "one", storage=storage).run()

    with pytest.raises(StudyConflict, match="began in another run folder"):
        small(tmp_path / "two", storage=storage).run()


def test_a_study_does_not_change_its_database(small, tmp_path, storage):
    study = small(tmp_path, storage=storage)
    study.run()
    text = (tmp_path / "small.yaml").read_text()
    (tmp_path / "small.yaml").write_text(text.replace(storage, "sqlite"))

    with pytest.raises(StudyConflict, match="has begun on another database") as caught:
        small(tmp_path).run()

    assert caught.value.faults[0].where == "run.storage"
    assert not study.folder.database.exists()


def test_attempts_that_the_database_does_not_know_are_not_run_again(
    small, tmp_path, storage, postgres
):
    study = small(tmp_path, storage=storage)
    study.run()
    postgres.execute('DROP SCHEMA "sweeper_small" CASCADE')

    with pytest.raises(StudyConflict, match="the database that knew them is gone"):
        study.run()


def test_a_discarded_study_leaves_nothing_on_the_server(small, tmp_path, storage, attempts):
    study = small(tmp_path, storage=storage)
    study.behave({"baseline/0": ["fail"], "half/0": ["fail"]})
    study.run()
    study.behave({})

    study.run(replace=True)

    assert [outcome for _, outcome, _ in attempts(study)] == ["completed", "completed"]


class Outage:
    """Stops a server once, at a call, and starts it again after a while."""

    def __init__(self, server, seconds):
        self._server = server
        self._return = threading.Timer(seconds, server.start)
        self.has_begun = False

    def begin(self):
        if not self.has_begun:
            self.has_begun = True
            self._server.stop()
            self._return.start()

    def end(self):
        if self.has_begun:
            self._return.join()


@pytest.fixture
def outage(postgres):
    """Four seconds: longer than the trials here take, and than all tries together."""
    made = Outage(postgres, 4.0)
    yield made
    made.end()


@pytest.fixture
def _brief_pauses(monkeypatch):
    monkeypatch.setattr(slot_loop, "PAUSES_SECONDS", (0.1, 0.2))


def has_all(study):
    """Whether every window and every evaluation of both trials is on record."""
    with StudyStore.read(study.url) as store:
        return [len(store.updates()), len(store.evaluations())] == [8, 4]


@pytest.mark.slow
@pytest.mark.usefixtures("_brief_pauses")
class TestServerThatIsAway:
    def test_a_result_waits_for_it_for_as_long_as_it_takes(
        self, small, tmp_path, storage, recorder, outage, attempts, optuna_trials
    ):
        """The trial's last events, its end and the next claim all come while it is away."""
        study = small(tmp_path, storage=storage)
        study.behave({"baseline/0": ["unhurried"]})
        observer = recorder(progress=outage.begin)

        assert study.run(observer=observer).status == 0

        assert observer.messages.count("the database cannot be used; trying again") > 2
        assert attempts(study) == [
            ("baseline/0", "completed", "budget_reached"),
            ("half/0", "completed", "budget_reached"),
        ]
        assert has_all(study)
        assert [trial.value for trial in optuna_trials(study).values()] == [2.5, 2.5]

    def test_whoever_asks_to_end_is_not_kept_waiting_and_loses_nothing(
        self, small, tmp_path, storage, recorder, outage, attempts
    ):
        study, stop = small(tmp_path, storage=storage), StopRequest()
        study.behave({"baseline/0": ["unhurried"]})

        def end_without_it():
            outage.begin()
            stop.ask()

        with pytest.raises(StoreUnavailable):
            study.run(observer=recorder(progress=end_without_it), stop=stop)
        outage.end()

        assert study.run().status == 0
        assert {trial for trial, outcome, _ in attempts(study) if outcome == "completed"} == {
            "baseline/0",
            "half/0",
        }
