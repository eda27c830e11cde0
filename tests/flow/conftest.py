"""Whole studies on a tiny real model: files, child processes and a database, nothing pretended."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import laboratories
import pytest

from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.study.preparing import prepare


@pytest.fixture(scope="session")
def tiny_model(made_once):
    """A random two-layer Llama with a byte-level tokenizer, as a checkpoint folder. Read only."""
    return made_once("tiny", laboratories.write_tiny_model)


@pytest.fixture(scope="session")
def data(made_once):
    """The folder with the records of every split. Read only."""
    return made_once("data", laboratories.write_data)


@pytest.fixture(scope="session")
def prepared(made_once, tiny_model, data):
    """Returns what preparing `data` leaves when the model is tuned this way. To be copied."""

    def of(tune):
        def make(place):
            study = laboratories.set_up(place, tiny_model, data=data, tune=tune)
            if tune != laboratories.LORA:  # the records are the same, the adapter is another
                shutil.copytree(of(laboratories.LORA), study.run_folder / "prepared")
            prepare(load_study(study.study), StudyFolder(study.run_folder))

        name = hashlib.sha256(tune.encode()).hexdigest()[:12]
        return made_once(f"prepared-{name}", make) / "runs" / "flow" / "prepared"

    return of


@pytest.fixture(scope="session")
def load_elsewhere():
    """Has a fresh process, which knows nothing of sweeper, load exports of a study.

    The function takes the study and pairs of an export and its base model, None for a model of its
    own; it returns their losses on the validation split, and the tokens of some words.
    """
    return _loaded_elsewhere


def _loaded_elsewhere(study, *models):
    import numpy as np

    from sweeper.data.prepared import PreparedSplit

    split = PreparedSplit.open(study.run_folder / "prepared", "validation")
    examples = [split.example(index) for index in range(len(split.digests))]
    records_ = [
        {"tokens": tokens.tolist(), "supervised": np.flatnonzero(supervised).tolist()}
        for tokens, supervised in examples
    ]
    plain = [(str(folder), None if base is None else str(base)) for folder, base in models]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("loaded_elsewhere.py"))],
        input=json.dumps({"models": plain, "records": records_}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def set_up(prepared, data):
    """The function that writes a study on `data` into a folder, prepared if its model is tuned so.

    With `own_data=True` the folder has records of its own, for tests that change them, and what
    the first command prepares is not there yet.
    """

    def written(folder, model, *, own_data=False, **settings):
        if own_data:
            return laboratories.set_up(folder, model, **settings)
        study = laboratories.set_up(folder, model, data=data, **settings)
        tune = settings.get("tune", laboratories.LORA)
        shutil.copytree(prepared(tune), study.run_folder / "prepared")
        return study

    return written


@pytest.fixture
def laboratory(tmp_path, tiny_model, set_up):
    """Returns a function that sets up a study in this test's own folder."""

    def in_own_folder(**settings):
        return set_up(tmp_path, tiny_model, **settings)

    return in_own_folder


@pytest.fixture
def like_undisturbed(laboratory):
    """Returns a function that sets the study of `undisturbed` up, in this test's own folder."""

    def in_own_folder(**changes):
        return laboratory(**laboratories.STANDARD | changes)

    return in_own_folder


@pytest.fixture
def on_postgres(postgres, monkeypatch):
    """Returns a function that has a study kept on PostgreSQL; nothing of it is left there."""
    monkeypatch.setenv("STUDY_PASSWORD", postgres.PASSWORD)
    url = f"postgresql+psycopg://{postgres.USER}:${{STUDY_PASSWORD}}@{postgres.place}"

    def kept(study):
        with study.study.open("a", encoding="utf-8") as file:
            file.write(f"  storage: {url}\n")
        return study

    yield kept
    postgres.execute('DROP SCHEMA IF EXISTS "sweeper_flow" CASCADE')


@pytest.fixture(scope="session")
def undisturbed(made_once, tiny_model, data, set_up):
    """A study of two arms and two seeds, run by two slots through the command line. Read only."""

    def make(place):
        study = set_up(place, tiny_model, **laboratories.STANDARD)
        study.sweeper("run", str(study.study))

    place = made_once("undisturbed", make)
    return laboratories.Laboratory(place, place / "study.yaml", tiny_model, data)
