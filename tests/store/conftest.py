"""A study of two arms and two seeds on a real database, and child processes on a gate."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
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
    Update,
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

UPDATE = Update(
    window=1,
    updates=1,
    first_record=0,
    records=2,
    record_digest="d1",
    target_tokens=10,
    target_tokens_read=10,
    target_tokens_applied=10,
    input_tokens=30,
    padding_tokens=4,
    learning_rate=0.0002,
    loss=2.5,
    gradient_norm=0.75,
    clipped=False,
    ran=True,
    skip=None,
    seconds=0.25,
    peak_memory_bytes=1024,
)

EVALUATION = Evaluation(
    split="validation",
    index=0,
    window=0,
    target_tokens_read=0,
    updates=0,
    loss=3.0,
    target_tokens=40,
    records=8,
    set_digest="v",
    dtype="float32",
    micro_batch=4,
    seconds=0.5,
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


@pytest.fixture
def store(url: str) -> Iterator[StudyStore]:
    with StudyStore.create(url) as store:
        store.record_study(STUDY)
        store.add_cells(CELLS)
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


def _varied(record: Record) -> Callable[..., Record]:
    return lambda **changes: dataclasses.replace(record, **changes)


@pytest.fixture
def update() -> Callable[..., Record]:
    return _varied(UPDATE)


@pytest.fixture
def evaluation() -> Callable[..., Record]:
    return _varied(EVALUATION)


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

    def __init__(self, script: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(CHILDREN / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, word: str) -> None:
        line = self.process.stdout.readline().strip()
        assert line == word, f"the child said {line!r}"

    def release(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def lines(self) -> list[str]:
        output, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return output.split()


@pytest.fixture
def start_children() -> Iterator[Callable[..., list[Child]]]:
    """Starts as many children as asked for, and returns them when all have said `ready`."""
    children: list[Child] = []

    def start(count: int, script: str, *arguments: str) -> list[Child]:
        started = [Child(script, *arguments) for _ in range(count)]
        children.extend(started)
        for child in started:
            child.wait_for("ready")
        return started

    yield start
    for child in children:
        child.process.kill()
        child.process.wait()
        child.process.stdin.close()
        child.process.stdout.close()


@pytest.fixture
def run_together() -> Callable[[list[Child]], list[str]]:
    """Releases children that are ready, all at once, and returns what they then wrote."""

    def run(children: list[Child]) -> list[str]:
        for child in children:
            child.release()
        return [line for child in children for line in child.lines()]

    return run
