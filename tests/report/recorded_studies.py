"""Studies put on record by hand, as a coordinator would: a study file and its database, no torch.

`begin` writes a study of three rates and three seeds in which everything happens once;
`finish` brings the rest of its cells to an end.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sweeper.records import (
    Artifact,
    CheckpointMade,
    Evaluation,
    Event,
    Ledger,
    Notice,
    Outcome,
    Phase,
    PhaseBegun,
    Reason,
    Record,
    Resumed,
    Skip,
    Started,
    Stop,
    Update,
)
from sweeper.store.claims import Claim, Owner
from sweeper.store.endings import Cost
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.study.fingerprint import declared
from sweeper.study.folder import StudyFolder
from sweeper.study.loading import load_study
from sweeper.workers.liveness import birth

BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BUDGET = 30
RATES = {"half": 0.0001, "baseline": 0.0002, "double": 0.0004}
REPEAT = "baseline/0~repeat"

STUDY_FILE = """\
name: rates
question: {kind: rate_too_high, text: Is the rate too high?}
justification: Nobody has looked.
compare: {key: training.learning_rate, multiply: {half: 0.5, baseline: 1, double: 2}}
seeds: [0, 1, 2]
budget: {target_tokens: 30}
model: {path: models/base}
tune: lora
data:
  train: {path: train.jsonl}
  validation: {path: validation.jsonl}
  retention: {path: retention.jsonl, format: text}
  max_length: 64
training: {learning_rate: 2e-4, schedule: {kind: constant}, records_per_update: 2}
selection: {smallest_difference: 0.25, retention_margin: 0.5}
run: {micro_batch: 1, max_resumes: 0}
"""

ENVIRONMENT = {"device": "cpu", "precision": "float32", "threads": "1"}
RESUMED = Resumed(
    after_window=1,
    checkpoint="/runs/rates/trials/baseline-0/attempts/1/checkpoints/00000001",
    sha256="c" * 64,
)
SECONDS = {"loading": 2.5, "training": 8.25, "evaluating": 1.0}
LEDGER = Ledger(
    planned={"windows": 3, "target_tokens": 30},
    realized={"windows": 3, "target_tokens": 30, "updates": 3},
    difference=None,
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "loop.py", line 7\nRuntimeError: no [kernel]'
)


@dataclass(frozen=True)
class PlannedCell:
    """A cell as a plan has it."""

    id: str
    arm: str
    seed: int
    value: float
    round: int = 0


@dataclass(frozen=True)
class Recorded:
    """A study file whose study is on record."""

    file: Path
    folder: StudyFolder

    def open(self) -> StudyStore:
        return StudyStore.open(self.folder.database_url)


def write_file(place: Path) -> Path:
    """Writes the study file alone."""
    file = place / "study.yaml"
    file.write_text(STUDY_FILE, encoding="utf-8")
    return file


def made_once(make: Callable[[Path], Recorded]) -> Callable[[Path], Recorded]:
    """Returns what puts the same study on record, from the second time on by copying its files."""
    files: dict[Path, bytes] = {}

    @functools.wraps(make)
    def copied(place: Path) -> Recorded:
        if not files:
            made = make(place)
            written = [made.file, *(each for each in made.folder.path.rglob("*") if each.is_file())]
            files.update({each.relative_to(place): each.read_bytes() for each in written})
            return made
        for name, content in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        file = place / "study.yaml"
        return Recorded(file, StudyFolder.beside(file, "rates"))

    return copied


@made_once
def found(place: Path) -> Recorded:
    """Records the study with its nine cells, none of them begun."""
    file = write_file(place)
    folder = StudyFolder.beside(file, "rates")
    folder.path.mkdir(parents=True)
    folder.recorded_study.write_text(STUDY_FILE, encoding="utf-8")
    study = RecordedStudy(
        name="rates",
        fingerprint="f" * 64,
        protocol=declared(load_study(file).study),
        study_yaml=STUDY_FILE,
        factor_key="training.learning_rate",
        arms=RATES,
        seeds=(0, 1, 2),
        budget_target_tokens=BUDGET,
    )
    cells = [
        PlannedCell(f"{arm}/{seed}", arm, seed, RATES[arm])
        for seed in (0, 1, 2)
        for arm in ("baseline", "half", "double")
    ]
    with StudyStore.create(folder.database_url) as store:
        store.record_study(study)
        store.add_cells(cells)
        store.link_optuna({cell.id: number for number, cell in enumerate(cells)})
    return Recorded(file, folder)


def begin(place: Path) -> Recorded:
    """Records a study in mid-run: of nine cells two completed, one stopped, one failed, one lost.

    One is running, by this process; three wait. The first cell lost its first attempt after its
    first window, and went on from there.
    """
    recorded = found(place)
    with recorded.open() as store:
        _preempt(store, "baseline/0", initial_loss=2.5)
        complete(store, "baseline/0", losses=(2.5, 2.0, 1.5), is_resumed=True)
        complete(store, "half/0", losses=(2.5, 2.25, 1.75))
        _stop(store, "double/0")
        fail(store, "baseline/1")
        _lose(store, "half/1")
        _run(store, "double/1")
    return recorded


@made_once
def finish(place: Path) -> Recorded:
    """Records a study that is done: `half` worse, `double` stopped, in every seed."""
    recorded = found(place)
    with recorded.open() as store:
        for seed, shift in ((0, 0.0), (1, 0.0625), (2, 0.125)):
            end = 1.5 + shift
            complete(store, f"baseline/{seed}", losses=(2.5, 2.0, end))
            complete(
                store,
                f"half/{seed}",
                losses=(2.5, 2.25, end + 0.5 + shift / 8),
                retention_loss=3.0625 + shift / 4,
            )
            _stop(store, f"double/{seed}")
        store.end_study("every cell has ended")
    return recorded


def add_repeat(recorded: Recorded) -> None:
    """Adds the cell that runs the baseline of the first seed once more."""
    with recorded.open() as store:
        store.add_cells([PlannedCell(REPEAT, "baseline~repeat", 0, RATES["baseline"])])
        store.link_optuna({REPEAT: 9})


def complete(
    store: StudyStore,
    cell: str,
    *,
    losses: tuple[float, float, float],
    retention_loss: float = 3.0625,
    is_resumed: bool = False,
) -> None:
    """Completes the cell: three windows of ten targets; validation loss first, later and last."""
    claim = _claim(store, cell)
    first, later, last = losses
    report(
        store,
        claim,
        started(cell),
        *([RESUMED] if is_resumed else _first_window(first)),
        update(2, loss=later),
        Notice(message="padding is 40 % of what was computed"),
        update(3, loss=last, clipped=True),
        evaluation(1, loss=last),
        evaluation(1, split="retention", loss=retention_loss),
        LEDGER,
        Artifact(kind="adapter", path="adapter", sha256="b" * 64),
        PhaseBegun(phase=Phase.ENDING, seconds=SECONDS),
    )
    store.finish(
        claim,
        Outcome(
            reason=Reason.BUDGET_REACHED,
            detail="read 30 of 30 target tokens",
            evidence={"cause": "exited", "exit_status": "0"},
        ),
        max_resumes=0,
        cost=Cost(wall_seconds=12.5, peak_memory_bytes=2**20, exit_status=0),
    )


def _first_window(initial_loss: float) -> list[Record]:
    return [
        evaluation(0, loss=initial_loss),
        evaluation(0, split="retention", loss=3.0),
        update(1, loss=initial_loss + 0.125),
    ]


def report(store: StudyStore, claim: Claim, *facts: Record) -> None:
    """Puts facts on record as the attempt's events, a second apart."""
    store.ingest(
        claim,
        [
            Event(sequence=number, at=BEGAN + timedelta(seconds=number), record=fact)
            for number, fact in enumerate(facts, start=1)
        ],
    )


def started(cell: str, *, environment: dict[str, str] = ENVIRONMENT) -> Started:
    """What a trial says at its start; seeds differ in their tensors, arms in their rate."""
    arm, _, seed = cell.partition("/")
    return Started(
        initial_digest=f"tensors of seed {seed.removesuffix('~repeat')}",
        trainable_parameters=1234,
        adapted_modules=("q_proj", "v_proj"),
        environment=environment,
        configuration={"training.learning_rate": repr(RATES[arm]), "tune": '"lora"'},
    )


def update(window: int, **changes: object) -> Update:
    """A window of two records and ten targets that ended in an update."""
    usual = Update(
        window=window,
        updates=window,
        first_record=2 * (window - 1),
        records=2,
        record_digest=f"records up to {window}",
        target_tokens=10,
        target_tokens_read=10 * window,
        target_tokens_applied=10 * window,
        input_tokens=25,
        padding_tokens=3,
        learning_rate=0.0002,
        loss=2.0,
        gradient_norm=0.1,
        clipped=False,
        ran=True,
        skip=None,
        seconds=0.25,
        peak_memory_bytes=2**20,
    )
    return dataclasses.replace(usual, **changes)


def evaluation(index: int, **changes: object) -> Evaluation:
    """An evaluation before the first window (index 0) or after the last."""
    usual = Evaluation(
        split="validation",
        index=index,
        window=3 * index,
        target_tokens_read=BUDGET * index,
        updates=3 * index,
        loss=2.5,
        target_tokens=40,
        records=8,
        set_digest="held-out set",
        dtype="float32",
        micro_batch=4,
        seconds=0.5,
    )
    return dataclasses.replace(usual, **changes)


def _preempt(store: StudyStore, cell: str, *, initial_loss: float) -> None:
    """Takes the trial's machine back after its first window."""
    claim = _claim(store, cell)
    checkpoint = CheckpointMade(
        window=1, path="checkpoints/00000001", sha256="c" * 64, size_bytes=2048
    )
    report(store, claim, started(cell), *_first_window(initial_loss), checkpoint)
    outcome = Outcome(reason=Reason.PREEMPTED, detail="the coordinator asked for the end")
    store.finish(claim, outcome, max_resumes=0, cost=Cost(wall_seconds=2.0))


def go_on_elsewhere(store: StudyStore, cell: str) -> None:
    """Takes the trial's machine back after its first window; it goes on on a GPU, and runs."""
    _preempt(store, cell, initial_loss=2.5)
    claim = _claim(store, cell, owner=living_owner())
    resumed = dataclasses.replace(RESUMED, differences=("it ran on cpu and goes on on cuda",))
    report(store, claim, started(cell, environment=ENVIRONMENT | {"device": "H200"}), resumed)


def _stop(store: StudyStore, cell: str, *, initial_loss: float = 2.5) -> None:
    """Stops the trial in its second window, whose loss is not finite."""
    claim = _claim(store, cell)
    detail = "the loss of window 2 was nan"
    stop = Stop(
        reason=Reason.NONFINITE_LOSS,
        detail=detail,
        window=2,
        updates=1,
        target_tokens_read=20,
        last_finite_loss=initial_loss + 0.125,
    )
    skipped = update(
        2,
        updates=1,
        target_tokens_applied=10,
        learning_rate=None,
        loss=float("nan"),
        gradient_norm=None,
        ran=False,
        skip=Skip.NONFINITE_LOSS,
    )
    report(
        store,
        claim,
        started(cell),
        evaluation(0, loss=initial_loss),
        evaluation(0, split="retention", loss=3.0),
        update(1, loss=initial_loss + 0.125),
        skipped,
        stop,
    )
    outcome = Outcome(
        reason=Reason.NONFINITE_LOSS,
        detail=detail,
        evidence={"last_finite_loss": repr(initial_loss + 0.125)},
    )
    store.finish(claim, outcome, max_resumes=0, cost=Cost(wall_seconds=1.0, exit_status=0))


def fail(store: StudyStore, cell: str) -> None:
    """Fails the trial before its first window, with a traceback on record."""
    claim = _claim(store, cell)
    report(store, claim, started(cell))
    outcome = Outcome(
        reason=Reason.CODE_ERROR,
        detail="RuntimeError: no [kernel]",
        evidence={
            "error": "RuntimeError",
            "traceback": TRACEBACK,
            "stderr_tail": "loading\n\N{PILE OF POO} no [kernel]\n",
        },
    )
    store.finish(claim, outcome, max_resumes=0, cost=Cost(wall_seconds=0.5, exit_status=1))


def _lose(store: StudyStore, cell: str) -> None:
    """Loses the trial before it said a word."""
    claim = _claim(store, cell)
    outcome = Outcome(
        reason=Reason.KILLED,
        detail="killed by SIGKILL, which sweeper did not send",
        evidence={"signal": "SIGKILL"},
    )
    store.finish(claim, outcome, max_resumes=0, cost=Cost(exit_status=-9))


def _run(store: StudyStore, cell: str) -> None:
    """Leaves the trial running, by this process, after its first window."""
    claim = _claim(store, cell, owner=living_owner(), slot="cpu:1")
    report(store, claim, started(cell), evaluation(0), update(1, loss=2.375))


def living_owner() -> Owner:
    """This process, which lives."""
    born = birth(os.getpid())
    assert born is not None
    return _owner(pid=os.getpid(), started_at=born)


def dead_owner() -> Owner:
    """A process that bore this one's number before it, and is gone."""
    return _owner(pid=os.getpid())


def distant_owner() -> Owner:
    """A process of another host, of which nothing can be told from here."""
    return _owner(pid=4711, host="far")


def _owner(
    *, pid: int, started_at: str = "1700000000.25", host: str = os.uname().nodename
) -> Owner:
    return Owner(worker="local", host=host, pid=pid, started_at=started_at)


def _claim(
    store: StudyStore, cell: str, *, owner: Owner | None = None, slot: str = "cpu:0"
) -> Claim:
    claim = store.claim(owner or dead_owner(), slot, cell=cell)
    assert claim is not None
    return claim
