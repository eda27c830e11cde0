"""The study that scripts/chaos.py disturbs: its files, its coordinator, and who runs below it.

One study file is run under many names. It is small but real: a committed base model of a million
parameters, two arms and two seeds, dropout, and a checkpoint after every second window.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
from chaos_faults import Exit, Process, Span
from sqlalchemy import create_engine, text

from sweeper.study.folder import StudyFolder
from sweeper.study.storage import database_url
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.heartbeat import Heartbeat
from sweeper.workers.liveness import started_at

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "studies/models/primer-1m"
REFERENCE = "undisturbed"
WORDS = ("red", "blue", "green", "seven", "nine", "house", "river", "stone", "cloud", "bread")
LAST_BYTES = 1500

STUDY = """\
name: undisturbed
question: {{kind: rate_too_high, text: Is the rate too large?}}
justification: Made to be disturbed.
compare: {{key: training.learning_rate, multiply: {{baseline: 1, double: 2}}}}
seeds: {seeds}
budget: {{target_tokens: {budget}}}
model: {{path: {model}}}
tune: lora
lora: {{rank: 2, alpha: 4, dropout: 0.1, targets: all-linear}}
data:
  train: {{path: train.jsonl}}
  validation: {{path: validation.jsonl}}
  max_length: 64
  max_epochs: 1000
training:
  learning_rate: 1e-3
  schedule: {{kind: cosine, warmup: {{fraction: 0.1}}}}
  records_per_update: 2
evaluation: {{every: {{target_tokens: {every}}}}}
run:
  micro_batch: 2
  slots: {slots}
  storage: {storage}
  launcher: {launcher}
  checkpoint: {{every: {{windows: 2}}}}
  max_resumes: 1000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the study is: two arms, so many seeds, so many target tokens for each cell."""

    seeds: int
    target_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """An attempt whose child lives, as its heartbeat names it."""

    cell: str
    number: int
    folder: AttemptFolder
    child: Process
    supervisor: Process | None


class Bench:
    """A folder with the study file and its data.

    Args:
        folder: Where they and the run folders go.
        storage: As `run.storage` has it.
        launcher: As `run.launcher` has it.
    """

    def __init__(self, folder: Path, *, storage: str, launcher: str, size: Size) -> None:
        self.folder = folder
        self.storage = storage
        self.study = folder / "study.yaml"
        for name, first, count in (("train", 0, 160), ("validation", 1000, 8)):
            rows = (json.dumps(record(number)) for number in range(first, first + count))
            (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        self.study.write_text(
            STUDY.format(
                seeds=list(range(size.seeds)),
                budget=size.target_tokens,
                every=max(size.target_tokens // 4, 1),
                model=MODEL,
                slots="[cpu, cpu]" if launcher == "{kind: local}" else "auto",
                storage=storage,
                launcher=launcher,
            ),
            encoding="utf-8",
        )

    def run_folder(self, name: str) -> Path:
        """Returns the run folder of the study when it is run under this name."""
        return self.folder / "runs" / name

    def url(self, name: str) -> str:
        """Returns the URL of its database."""
        return database_url(self.storage, StudyFolder(self.run_folder(name)), os.environ)

    def take_prepared(self, name: str) -> None:
        """Spares the study the preparation: it is that of the undisturbed one."""
        source = StudyFolder(self.run_folder(REFERENCE)).prepared
        shutil.copytree(source, StudyFolder(self.run_folder(name)).prepared)

    def discard(self, name: str) -> None:
        """Removes the run folder of a study that nobody needs any more, and its schema."""
        shutil.rmtree(self.run_folder(name))
        engine = create_engine(self.url(name))
        if engine.dialect.name == "postgresql":
            with engine.begin() as connection:
                connection.execute(text(f'DROP SCHEMA "sweeper_{name}" CASCADE'))
        engine.dispose()

    def sweeper(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one command on the study and waits for it."""
        return subprocess.run(
            [sys.executable, "-m", "sweeper", *arguments],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def live_attempts(self, name: str) -> Iterator[LiveAttempt]:
        """Yields the attempts whose child lives now."""
        for path in self.run_folder(name).glob("trials/*/attempts/*"):
            folder = AttemptFolder(path)
            with contextlib.suppress(ValueError, OSError):
                beat = Heartbeat.read(folder.heartbeat)
                if beat is None or beat.started_at is None:
                    continue
                child = Process(pid=beat.pid, started_at=beat.started_at)
                if lives(child):
                    yield LiveAttempt(
                        cell="/".join(path.parts[-3].rsplit("-", 1)),
                        number=int(path.name),
                        folder=folder,
                        child=child,
                        supervisor=_supervisor(beat),
                    )


def record(number: int) -> dict[str, str]:
    """Returns a record; those of other numbers have other prompts."""
    answer = (WORDS[(number + step) % len(WORDS)] for step in range(number % 3 + 1))
    prompt = f"What follows {number} {WORDS[number % len(WORDS)]}?"
    return {"prompt": prompt, "answer": " ".join(answer)}


def environment() -> dict[str, str]:
    """Returns the environment of the study's commands: one thread each, and nothing downloaded."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }


def process_of(pid: int) -> Process | None:
    """Returns the living process of this id; zombies are dead."""
    try:
        found = psutil.Process(pid)
        if found.status() in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
            return None
        return Process(pid=pid, started_at=started_at(pid) or 0.0)
    except psutil.NoSuchProcess:
        return None


def lives(process: Process) -> bool:
    """Says whether it still runs, or is stopped."""
    return process.is_same(process_of(process.pid))


def send(process: Process, number: signal.Signals) -> bool:
    """Sends it a signal; False when it had gone."""
    try:
        if lives(process):
            os.kill(process.pid, number)
            return True
    except ProcessLookupError:
        pass
    return False


def _supervisor(beat: Heartbeat) -> Process | None:
    if beat.supervisor_started_at is None:
        return None
    return Process(pid=beat.supervisor_pid, started_at=beat.supervisor_started_at)


class Coordinator:
    """`sweeper run STUDY --as NAME` as a process of its own, in a session of its own.

    Args:
        log: What it writes for people goes there; not on a disk that may be full.
    """

    def __init__(self, bench: Bench, name: str, log: Path) -> None:
        self._name = name
        self._log = log
        self._written = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "sweeper", "run", str(bench.study), "--as", name],
                cwd=bench.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        known = process_of(self._popen.pid)
        self.process = known or Process(pid=self._popen.pid, started_at=0.0)

    def interrupt(self) -> bool:
        """Does what Ctrl-C in its terminal does; False when it had gone."""
        try:
            os.killpg(self.process.pid, signal.SIGINT)
        except ProcessLookupError:
            return False
        return self._popen.poll() is None

    def kill(self) -> None:
        """Ends it at once, and waits until it has gone."""
        self._popen.kill()
        self._popen.wait()

    def exit(self) -> Exit | None:
        """Returns how it ended, once it did."""
        status = self._popen.poll()
        if status is None:
            return None
        with self._log.open("rb") as stream:
            stream.seek(self._written)
            words = stream.read()[-LAST_BYTES:].decode("utf-8", errors="replace")
        return Exit(
            study=self._name,
            process=self.process,
            status=status,
            at=datetime.now(UTC),
            last_words=" | ".join(words.splitlines()[-4:]),
        )


class Sightings:
    """When a process of each attempt was seen, whatever the attempt's own files say."""

    def __init__(self) -> None:
        self.spans: dict[tuple[str, int], Span] = {}
        self._children: dict[tuple[str, int], Process] = {}

    def look(self, live: list[LiveAttempt]) -> None:
        """Takes note of who lives now: the attempts given, and earlier ones that live on."""
        self._children |= {(attempt.cell, attempt.number): attempt.child for attempt in live}
        now = datetime.now(UTC)
        for place, child in list(self._children.items()):
            if lives(child):
                begin = self.spans[place].begin if place in self.spans else now
                self.spans[place] = Span(begin=begin, end=now)
            else:
                del self._children[place]


def progress(live: list[LiveAttempt]) -> int:
    """Returns a number that grows whenever a window of an attempt is on its file."""
    return sum(_bytes_of_updates(attempt.folder) for attempt in live)


def _bytes_of_updates(folder: AttemptFolder) -> int:
    try:
        with folder.events.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 4096))
            return size if b'"record": "update"' in stream.read() else 0
    except OSError:
        return 0


def leftovers(run_folder: Path, *, besides: set[int]) -> list[str]:
    """Returns a description of every process that the study has left behind.

    Whatever ran below us and lost its parent has become our own child, see `adopt_orphans`; what
    escaped that still has the run folder in its environment, its command line or as its own.

    Args:
        besides: Processes that belong to nobody's study, with all their descendants.
    """
    mine = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for pid in besides & mine.keys():
        for process in [mine[pid], *mine[pid].children(recursive=True)]:
            mine.pop(process.pid, None)
    for process in psutil.process_iter():
        if process.pid != os.getpid() and _names(process, str(run_folder)):
            mine[process.pid] = process
    return [told for process in mine.values() if (told := _told(process)) is not None]


def _names(process: psutil.Process, folder: str) -> bool:
    try:
        words = [*process.cmdline(), *process.environ().values(), process.cwd()]
    except (psutil.Error, OSError):
        return False
    return any(folder in word for word in words)


def _told(process: psutil.Process) -> str | None:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"process {process.pid} is left: {' '.join(process.cmdline())[-200:]}"
    except psutil.NoSuchProcess:
        return None


def collect_orphans(*, besides: set[int]) -> None:
    """Takes the exit status of adopted processes that ended; a shell or init would do it."""
    for child in psutil.Process().children():
        with contextlib.suppress(ChildProcessError, psutil.Error):
            if child.pid not in besides and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
