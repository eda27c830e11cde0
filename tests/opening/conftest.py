"""A study that was run for real, on a tiny model, with a frozen choice; a copy of it per test."""

import contextlib
import dataclasses
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import laboratories
import pytest

from sweeper.report.comparison import evidence
from sweeper.report.recorded import recorded_settings, run_folder, study_to_run
from sweeper.selection.frozen import Frozen, FrozenCheckpoint, Role
from sweeper.store.store import StudyStore
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import StudyFile
from sweeper.study.recorded import recorded_url
from sweeper.sweep.freezing import Wish, choice_of

TESTS = Path(__file__).parents[1]


def load(name: str, script: Path):
    """Returns a module of the tests that is not on the path."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, script)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


DATA = load("opening_data", TESTS / "data" / "conftest.py")


HOOK = """\
import os, sys

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith("test.jsonl"):
        with open({chain!r}) as chain:
            intents = sum('"type":"test_intent"' in line for line in chain)
        module = [word for word in sys.orig_argv if word.startswith("sweeper")][:1] or ["?"]
        with open({readings!r}, "a") as readings:
            readings.write(f"{{module[0]}} after {{intents}} intents\\n")

sys.addaudithook(note)
"""


@dataclass(frozen=True)
class Bench:
    """A study with a frozen choice, in a folder of its own."""

    file: Path

    @property
    def study_file(self) -> StudyFile:
        return study_to_run(self.file)

    @property
    def folder(self) -> StudyFolder:
        return run_folder(self.file)

    @property
    def test(self) -> Path:
        return self.file.parent / "test.jsonl"

    @property
    def readings(self) -> Path:
        """A line for each time that the test file was opened while it was watched."""
        return self.file.parent / "readings.txt"

    def read(self) -> StudyStore:
        return StudyStore.read(recorded_url(self.folder, os.environ))

    def write(self) -> StudyStore:
        return StudyStore.open(recorded_url(self.folder, os.environ))

    def links(self):
        with self.read() as store:
            return store.chain.links()

    def facts(self, kind):
        """What the chain's entries of that kind say."""
        return [link.facts for link in self.links() if link.kind == kind]

    def open_until(self, kind):
        """Opens the test split in a process that is killed once the chain has such an entry.

        Returns when nothing of it is left: what it had started ends with it.
        """
        command = [sys.executable, "-m", "sweeper", "open-test", str(self.file), "--yes"]
        log = self.file.with_name("opening.log")
        with (
            log.open("w") as stream,
            subprocess.Popen(command, stdout=stream, stderr=stream) as process,
        ):
            while not self.facts(kind):
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            process.kill()
        place = self.file.parent
        laboratory = laboratories.Laboratory(place, self.file, place, place)
        laboratory.wait_for(lambda: not laboratory.processes())

    def freeze(self, **changes):
        """Freezes half, whatever the rule would choose; returns the digest of the entry."""
        with self.write() as store:
            choice = dataclasses.replace(choice_of_half(store, self.folder), **changes)
            return store.freeze(choice, "for a test").digest


def choice_of_half(store: StudyStore, folder: StudyFolder) -> Frozen:
    def read(of):
        return evidence(of, recorded_settings(folder))

    kept = choice_of(store, folder, read, wish=Wish(reason="for a test"))
    row = store.attempts("half/0")[-1]
    half = FrozenCheckpoint(
        role=Role.CHOSEN,
        arm="half",
        seed=0,
        path=str(row["adapter_path"]),
        sha256=str(row["adapter_sha256"]),
    )
    return dataclasses.replace(
        kept, arm="half", sentence="half is chosen.", checkpoints=(half, *kept.checkpoints)
    )


@pytest.fixture(scope="session")
def tiny_model(made_once):
    return made_once("tiny", laboratories.write_tiny_model)


@pytest.fixture(scope="session")
def finished(made_once, tiny_model):
    """The study, run without its test file; nothing is frozen. To be copied only."""

    def make(place):
        laboratory = laboratories.set_up(
            place,
            tiny_model,
            arms="{baseline: 1, half: 0.5}",
            seeds="[0]",
            budget=200,
            every=100,
            slots="[cpu]",
        )
        laboratory.here("check", str(laboratory.study))
        test = place / "test.jsonl"
        test.rename(place / "away.jsonl")
        laboratory.sweeper("run", str(laboratory.study))
        (place / "away.jsonl").rename(test)

    return made_once("finished", make)


@pytest.fixture(scope="session")
def frozen_study(tmp_path_factory, finished):
    bench = copied(finished, tmp_path_factory.mktemp("frozen"))
    bench.freeze()
    return bench


@pytest.fixture
def bench(frozen_study, tmp_path):
    """A copy of the study whose choice is frozen."""
    return copied(frozen_study.file.parent, tmp_path)


@pytest.fixture
def unfrozen(finished, tmp_path):
    """A copy of the study before anything was frozen."""
    return copied(finished, tmp_path)


def copied(study: Path, place: Path) -> Bench:
    shutil.copytree(study, place / "study")
    return Bench(place / "study" / "study.yaml")


@pytest.fixture(scope="session")
def copy_of():
    return copied


@pytest.fixture(scope="session")
def watching():
    """Has every process that is started meanwhile, and this one, note when it opens test.jsonl."""

    @contextlib.contextmanager
    def watched(bench):
        place = bench.file.parent / "site"
        place.mkdir()
        hook = HOOK.format(chain=str(bench.folder.chain), readings=str(bench.readings))
        (place / "sitecustomize.py").write_text(hook)
        open_here = []
        sys.addaudithook(
            lambda event, arguments: (
                event == "open" and arguments[0] == str(bench.test) and open_here.append(event)
            )
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(place))
            yield
        assert open_here == [], "the coordinator reads no record"

    return watched


@pytest.fixture(scope="session")
def make_model():
    """Writes a model folder with a byte tokenizer, see the tests of the data room."""
    return DATA.model_folder
