"""A study of two arms and two seeds on a real database, and child processes on a gate."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pytest
import trial_records

from sweeper.records import (
    Artifact,
    CheckpointMade,
    Event,
    Notice,
    Outcome,
    Phase,
    PhaseBegun,
    Reason,
    Record,
    Resumed,
    Started,
    Stop,
)
from sweeper.store.claims import Claim, Owner
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore

CHILDREN = Path(__file__).parent / "children"
BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class PlainCell:
    """A cell as a plan has it."""

    id: str
    arm: str
    seed: int
    value: float | str
    round: int = 0


STUDY = RecordedStudy(
    name="rates",
    fingerprint="f" * 64,
    protocol={"training": {"learning_rate": 0.0002}, "seeds": [0, 1]},
    study_yaml="name: rates\n",
    factor_key="training.learning_rate",
    arms={"baseline": 0.0002, "double": 0.0004},
    seeds=(0, 1),
    budget_target_tokens=100,
)

CELLS = (
    PlainCell("baseline/0", "baseline", 0, 0.0002),
    PlainCell("double/0", "double", 0, 0.0004),
    PlainCell("baseline/1", "baseline", 1, 0.0002),
    PlainCell("double/1", "double", 1, 0.0004),
)

STARTED = Started(
    initial_digest="a" * 64,
    trainable_parameters=1234,
    adapted_modules=("q_proj", "v_proj"),
    environment={"torch": "2.13.0", "threads": "1"},
)


@pytest.fixture
def study() -> RecordedStudy:
    return STUDY


@pytest.fixture
def cells() -> tuple[PlainCell, ...]:
    return CELLS


@pytest.fixture
def make_cell() -> type[PlainCell]:
    return PlainCell


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


@pytest.fixture
def url(request: pytest.FixtureRequest, database: Path) -> str:
    """An SQLite file; in a test marked `every_database` also a schema on a PostgreSQL server."""
    if getattr(request, "param", "sqlite") == "postgresql":
        fresh: str = request.getfixturevalue("postgres").new_schema_url()
        return fresh
    return f"sqlite:///{database}"


def _plan(url: str) -> None:
    with StudyStore.create(url) as store:
        store.record_study(STUDY)
        store.add_cells(CELLS)


@pytest.fixture(scope="session")
def planned_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the study and its cells; to be copied."""
    file = tmp_path_factory.mktemp("planned") / "study.db"
    _plan(f"sqlite:///{file}")
    assert [each.name for each in file.parent.iterdir()] == [file.name], "all is in the one file"
    return file


@pytest.fixture
def store(url: str, database: Path, planned_database: Path) -> Iterator[StudyStore]:
    if url.startswith("sqlite"):
        shutil.copyfile(planned_database, database)
    else:
        _plan(url)
    with StudyStore.open(url) as store:
        yield store


@pytest.fixture
def owner() -> Owner:
    return Owner(worker="w1", host="here", pid=4711, started_at="1700000000.25")


@pytest.fixture
def other_owner() -> Owner:
    return Owner(worker="w2", host="there", pid=99, started_at="1700000001.5")


@pytest.fixture
def numbered() -> Callable[..., tuple[Event, ...]]:
    """Returns the records as events numbered from `first`, one second apart."""

    def number(*records: Record, first: int = 1) -> tuple[Event, ...]:
        return tuple(
            Event(sequence=sequence, at=BEGAN + timedelta(seconds=sequence), record=record)
            for sequence, record in enumerate(records, start=first)
        )

    return number


@pytest.fixture
def update() -> Callable[..., Record]:
    return trial_records.update


@pytest.fixture
def evaluation() -> Callable[..., Record]:
    return trial_records.evaluation


@pytest.fixture
def started() -> Started:
    return STARTED


@pytest.fixture
def stop() -> Stop:
    return Stop(
        reason=Reason.NONFINITE_LOSS,
        detail="window 2 had a loss of nan",
        window=2,
        updates=1,
        target_tokens_read=20,
        last_finite_loss=2.5,
    )


@pytest.fixture
def notice() -> Notice:
    return Notice(message="padding is 40 %")


@pytest.fixture
def asides(started: Started, stop: Stop, notice: Notice, artifact: Artifact) -> tuple[Record, ...]:
    """Records that are neither updates nor evaluations."""
    return started, PhaseBegun(phase=Phase.TRAINING), notice, stop, artifact


@pytest.fixture
def artifact() -> Artifact:
    return Artifact(kind="adapter", path="adapter", sha256="b" * 64)


@pytest.fixture
def completed() -> Outcome:
    return Outcome(
        reason=Reason.BUDGET_REACHED, detail="read 100 of 100 target tokens", evidence={"x": "1"}
    )


@pytest.fixture
def ended() -> Callable[[Reason], Outcome]:
    return lambda reason: Outcome(reason=reason, detail=f"ended: {reason.value}")


@pytest.fixture
def checkpoint() -> Callable[[int], CheckpointMade]:
    """Returns the record of a checkpoint after that window."""
    return lambda window: CheckpointMade(
        window=window, path=f"checkpoints/{window:08d}", sha256="c" * 64, size_bytes=1
    )


@pytest.fixture
def resumed() -> Callable[..., Resumed]:
    """Returns the record of going on after that window of an attempt."""

    def resume(after_window: int, *, attempt: int, differences: tuple[str, ...] = ()) -> Resumed:
        folder = f"/runs/rates/trials/double-0/attempts/{attempt}"
        return Resumed(
            after_window=after_window,
            checkpoint=f"{folder}/checkpoints/{after_window:08d}",
            sha256="c" * 64,
            differences=differences,
        )

    return resume


@pytest.fixture
def attempt(
    store: StudyStore,
    owner: Owner,
    numbered: Callable[..., tuple[Event, ...]],
    ended: Callable[[Reason], Outcome],
) -> Callable[..., Claim]:
    """Runs an attempt that reports the records and ends for the reason, or not at all."""

    def run(
        cell: str, *records: Record, reason: Reason | None = Reason.KILLED, max_resumes: int = 9
    ) -> Claim:
        claim = store.claim(owner, "cpu0", cell=cell)
        assert claim is not None
        store.ingest(claim, numbered(*records))
        if reason is not None:
            assert store.finish(claim, ended(reason), max_resumes=max_resumes)
        return claim

    return run


class Child:
    """A child process that says `ready`, waits for `release`, then writes its answer."""

    def __init__(self, process: subprocess.Popen[str], writing: IO[str], reading: IO[str]) -> None:
        self.process = process
        self.stdin = writing
        self.stdout = reading

    def wait_for(self, word: str) -> None:
        line = self.stdout.readline().strip()
        assert line == word, f"the child said {line!r}"

    def release(self) -> None:
        self.stdin.write("go\n")
        self.stdin.flush()

    def kill(self) -> None:
        """Kills it with all its forks."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def lines(self) -> list[str]:
        output = self.stdout.read()
        assert self.process.wait(timeout=120) == 0
        return output.split()


def _forks(count: int, script: str, url: str, *arguments: str) -> list[Child]:
    """Starts children that share a process which imported what they need, and forked."""
    inward, outward = ([os.pipe() for _ in range(count)] for _ in range(2))
    theirs = [(read, write) for (read, _), (_, write) in zip(inward, outward, strict=True)]
    process = subprocess.Popen(
        [
            *(sys.executable, str(CHILDREN / "forked.py"), str(CHILDREN / script), url),
            *(":".join(f"{read},{write}" for read, write in theirs), *arguments),
        ],
        pass_fds=[each for pair in theirs for each in pair],
        process_group=0,
        text=True,
    )
    for each in (each for pair in theirs for each in pair):
        os.close(each)
    return [
        Child(process, os.fdopen(write, "w"), os.fdopen(read))
        for (_, write), (read, _) in zip(inward, outward, strict=True)
    ]


@pytest.fixture
def start_children() -> Iterator[Callable[..., list[Child]]]:
    """Starts as many children as asked for, and returns them when all have said `ready`."""
    children: list[Child] = []

    def start(count: int, script: str, *arguments: str) -> list[Child]:
        started = _forks(count, script, *arguments)
        children.extend(started)
        for child in started:
            child.wait_for("ready")
        return started

    yield start
    for child in children:
        child.kill()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        child.stdout.close()


@pytest.fixture
def run_together() -> Callable[[list[Child]], list[str]]:
    """Releases children that are ready, all at once, and returns what they then wrote."""

    def run(children: list[Child]) -> list[str]:
        for child in children:
            child.release()
        return [line for child in children for line in child.lines()]

    return run
