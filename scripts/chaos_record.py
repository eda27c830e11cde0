"""What a study that scripts/chaos.py disturbed has left, and where that differs from the reference.

Everything is read from the database's tables and from the attempts' folders, past the commands that
show them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import optuna
from chaos_faults import COMPLETED, Attempt, Process, Span
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from sqlalchemy import Connection, create_engine, text

from sweeper.records import Evaluation, Update, decode
from sweeper.trial.folder import AttemptFolder

VALIDATION = "validation"
MOST_DIFFERENCES = 20
"""That are told of one study."""

_SUPERVISOR = re.compile(r"supervisor \(process (\d+)\)")

Fact = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """What was computed, to the bit, and nothing that was timed.

    Attributes:
        facts: Text that tells every bit apart, of each window and evaluation of each cell, as the
            attempts' own files have it.
        history: The same facts as the database's views have them.
        endpoints: What the database says of each cell: outcome, losses, tokens.
        weights: SHA-256 of the weights that each cell ended with.
    """

    facts: dict[Fact, str]
    history: dict[Fact, str]
    endpoints: dict[str, str]
    weights: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """All that a study has left.

    Attributes:
        contradictions: Facts that two attempts of one cell computed to different values, attempts
            without a row or a folder, and the like.
        optuna: Of each cell, the state, value and reports of its latest Optuna trial.
        late_results: How many results were stored apart.
    """

    computed: Computed
    attempts: tuple[Attempt, ...]
    contradictions: tuple[str, ...]
    optuna: dict[str, str]
    late_results: int


def read(run_folder: Path, url: str, sightings: Mapping[tuple[str, int], Span]) -> Recorded:
    """Returns what the study has left.

    Args:
        run_folder: Of the study.
        url: Of its database.
        sightings: When processes of an attempt were seen by somebody else, by cell and number.
    """
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            rows = _rows(connection, "sweeper_attempts")
            trials = _rows(connection, "sweeper_trials")
            history = _history(connection)
            late = _rows(connection, "sweeper_late_result")
    finally:
        engine.dispose()
    folders = {_place(row): run_folder / str(row["folder"]) for row in rows}
    facts, contradictions = _facts(folders)
    return Recorded(
        computed=Computed(
            facts=facts,
            history=history,
            endpoints={str(row["trial"]): _endpoint(row) for row in trials},
            weights={str(row["trial"]): _weights(run_folder, row) for row in trials},
        ),
        attempts=tuple(_attempt(run_folder, row, sightings) for row in rows),
        contradictions=(*contradictions, *_strays(run_folder, set(folders.values()))),
        optuna=_optuna(url, run_folder.name),
        late_results=len(late),
    )


def differences(found: Recorded, reference: Recorded) -> list[str]:
    """Returns a sentence for everything in which the study did not end as the undisturbed one."""
    mine, theirs = found.computed, reference.computed
    told = [
        *found.contradictions,
        *_unlike("the record of", mine.endpoints, theirs.endpoints),
        *_unlike("the weights of", mine.weights, theirs.weights),
        *_unlike("Optuna's trial of", found.optuna, reference.optuna),
        *_unlike("in the attempts' files,", mine.facts, theirs.facts),
        *_unlike("in the database,", mine.history, theirs.history),
    ]
    more = len(told) - MOST_DIFFERENCES
    return told if more <= 0 else [*told[:MOST_DIFFERENCES], f"and {more} more differences"]


def _unlike(what: str, mine: Mapping[object, str], theirs: Mapping[object, str]) -> Iterator[str]:
    for key in sorted(mine.keys() | theirs.keys(), key=repr):
        if mine.get(key) != theirs.get(key):
            name = " ".join(map(str, key)) if isinstance(key, tuple) else key
            yield f"{what} {name}: {mine.get(key, 'nothing')}; undisturbed {theirs.get(key)}"


def _rows(connection: Connection, table: str) -> list[dict[str, object]]:
    return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]  # noqa: S608


def _history(connection: Connection) -> dict[Fact, str]:
    """Returns the history that the views show; a window that is there twice makes it unlike any."""
    facts: dict[Fact, str] = {}
    counts: Counter[Fact] = Counter()
    for row in _rows(connection, "sweeper_updates"):
        key: Fact = (row["trial"], "window", row["window"])
        names = ("loss", "gradient_norm", "learning_rate", "record_digest", "target_tokens_read")
        facts[key] = repr([row[name] for name in names])
        counts[key] += 1
    for row in _rows(connection, "sweeper_evaluations"):
        key = (row["trial"], row["split"], row["grid_index"])
        names = ("window", "loss", "target_tokens", "set_digest")
        facts[key] = repr([row[name] for name in names])
        counts[key] += 1
    return facts | {key: f"{n} times in one history" for key, n in counts.items() if n > 1}


def _endpoint(row: Mapping[str, object]) -> str:
    names = (
        "outcome",
        "initial_loss",
        "first_window_loss",
        "validation_loss",
        "last_finite_loss",
        "target_tokens_read",
        "target_tokens_applied",
        "windows",
        "updates",
        "initial_digest",
        "record_digest",
    )
    return repr([row[name] for name in names])


def _weights(run_folder: Path, trial: Mapping[str, object]) -> str:
    if trial["adapter_path"] is None:
        return "no weights"
    files = sorted((run_folder / str(trial["adapter_path"])).glob("*.safetensors"))
    return " ".join(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)


def _facts(folders: Mapping[tuple[str, int], Path]) -> tuple[dict[Fact, str], list[str]]:
    """Returns what the attempts computed, and where two of one cell differ in the same fact."""
    facts: dict[Fact, str] = {}
    contradictions: list[str] = []
    for (cell, number), folder in folders.items():
        for key, value in facts_of(cell, AttemptFolder(folder)):
            if facts.setdefault(key, value) != value:
                contradictions.append(f"{cell} #{number} computed {key[1:]} anew: {value}")
    return facts, contradictions


def facts_of(cell: str, folder: AttemptFolder) -> Iterator[tuple[Fact, str]]:
    """Yields what the attempt computed; a kill may have cut its last line."""
    text_ = folder.events.read_text("utf-8") if folder.events.exists() else ""
    *lines, _cut = text_.split("\n")
    for line in lines:
        match decode(line).record:
            case Update() as update:
                plain = dataclasses.replace(update, seconds=0.0, peak_memory_bytes=0)
                yield (cell, "window", update.window), repr(plain)
            case Evaluation() as evaluation:
                place = (cell, evaluation.split, evaluation.index)
                yield place, repr(dataclasses.replace(evaluation, seconds=0.0))


def _strays(run_folder: Path, known: set[Path]) -> list[str]:
    found = run_folder.glob("trials/*/attempts/*")
    return [f"{path}: no attempt on record has this folder" for path in found if path not in known]


def _place(row: Mapping[str, object]) -> tuple[str, int]:
    return str(row["trial"]), int(str(row["attempt"]))


def _attempt(
    run_folder: Path, row: Mapping[str, object], sightings: Mapping[tuple[str, int], Span]
) -> Attempt:
    place = _place(row)
    folder = AttemptFolder(run_folder / str(row["folder"]))
    coordinator = _process(row, "pid", "process_started_at")
    assert coordinator is not None, "every attempt has an owner"
    ended = row["ended_at"]
    return Attempt(
        cell=place[0],
        number=place[1],
        claimed_at=datetime.fromisoformat(str(row["claimed_at"])),
        ended_at=None if ended is None else datetime.fromisoformat(str(ended)),
        life=life_of(folder, sightings.get(place)),
        outcome=_word(row["outcome"]),
        reason=_word(row["reason"]),
        coordinator=coordinator,
        supervisor=_process(row, "supervisor_pid", "supervisor_started_at"),
        named_supervisor=_named_supervisor(str(row["detail"])),
        child=_process(row, "child_pid", "child_started_at"),
        is_job=(folder.path / "job.json").exists(),
    )


def life_of(folder: AttemptFolder, seen: Span | None) -> Span | None:
    """Returns when processes of the attempt lived, by its files and by who saw them."""
    signs = [] if seen is None else [seen.begin, seen.end]
    for file, names in (
        (folder.supervision, ("began_at", "ended_at")),
        (folder.heartbeat, ("began_at", "at")),
    ):
        if file.exists():
            plain = json.loads(file.read_text("utf-8"))
            signs += [datetime.fromisoformat(plain[name]) for name in names]
    if folder.events.exists():
        *lines, _cut = folder.events.read_text("utf-8").split("\n")
        signs += [decode(line).at for line in lines]
    return Span(begin=min(signs), end=max(signs)) if signs else None


def _process(row: Mapping[str, object], pid: str, began: str) -> Process | None:
    if row[pid] is None or row[began] is None:
        return None
    return Process(pid=int(str(row[pid])), started_at=float(str(row[began]).partition("@")[0]))


def _named_supervisor(detail: str) -> int | None:
    found = _SUPERVISOR.search(detail)
    return None if found is None else int(found[1])


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _optuna(url: str, name: str) -> dict[str, str]:
    """Returns each cell's latest Optuna trial; an earlier one that is not told is named too."""
    storage = RDBStorage(url)
    try:
        trials = optuna.load_study(study_name=name, storage=storage).get_trials(deepcopy=False)
    finally:
        storage.remove_session()
        storage.engine.dispose()
    latest: dict[str, str] = {}
    untold: Counter[str] = Counter()
    for trial in trials:
        cell = trial.user_attrs["cell"]
        if cell in latest and not latest[cell].startswith(TrialState.FAIL.name):
            untold[cell] += 1
        reports = sorted(trial.intermediate_values.items())
        latest[cell] = f"{trial.state.name} {trial.values} {trial.params} {reports}"
    return latest | {cell: f"{count} trials too many" for cell, count in untold.items()}


def not_completed(attempts: Sequence[Attempt], cells: Sequence[str]) -> list[str]:
    """Returns a sentence for each cell that has not come to its end, or came to it twice."""
    ends = Counter(attempt.cell for attempt in attempts if attempt.outcome == COMPLETED)
    return [
        f"{cell} was completed {ends[cell]} times, not once" for cell in cells if ends[cell] != 1
    ]
