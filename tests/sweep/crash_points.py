"""Kills a study's coordinator at every COMMIT of ours and of Optuna's, and runs the study again.

    python tests/sweep/crash_points.py FOLDER [--storage URL] [--launcher local] [--side-by-side 2]

A study of two cells, one completed and one stopped, is run undisturbed. Then, for every COMMIT of a
transaction that wrote something, it is run anew in a folder of its own by a process that is killed
by signal 9 right before that COMMIT, or right after it, and run to its end by another one. Both
records must be what they are without: cells, final attempts, and Optuna's trials with states,
values, parameters, attributes and intermediate values. Ends with one line of JSON: how many
commits there are, how many points were tried, and which differed.

With `--storage`, the URL of a PostgreSQL server, every study has a database of its own there.
`--launcher instant` carries out trials within the coordinator, in no time; `local` starts the
supervisor and child processes of real studies, which end with the coordinator.
"""

import argparse
import importlib.util
import json
import logging
import os
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import optuna
import psycopg
import sqlalchemy
from sqlalchemy.engine.default import DefaultDialect

from sweeper.store.store import StudyStore
from sweeper.sweep import slot_loop
from sweeper.workers.liveness import started_at
from sweeper.workers.supervision import Cause, Supervision

HERE = Path(__file__).parent
SIDES = ("before", "after")
CLOCKS = frozenset({"wall_seconds", "peak_memory_bytes"})
OF_THE_ATTEMPT = frozenset({"attempts", "adapter_path", "best_path"})
"""Columns of a trial that say how many attempts it took; they may differ."""


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SMALL, FAKE = load("small_study"), load("fake_trial")


class Instant:
    """Carries out an attempt within this process, whole, before `start` returns."""

    def __init__(self, act=None):
        """`act` is what a trial does; without it one of the cells is stopped."""
        self._act = act or _stop_one

    def start(self, folder, slot, limits):
        began = datetime.now(UTC)
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        mine = signal.getsignal(signal.SIGTERM)
        trial = FAKE.FakeTrial(folder.path)
        signal.signal(signal.SIGTERM, mine)
        status = self._act(trial)
        trial.events.close()
        pid = os.getpid()
        supervision = Supervision(
            cause=Cause.EXITED,
            pid=pid,
            started_at=started_at(pid),
            exit_status=status,
            signal=None,
            wall_seconds=0.5,
            peak_memory_bytes=1,
            supervisor_pid=pid,
            supervisor_started_at=started_at(pid),
            began_at=began,
            ended_at=datetime.now(UTC),
        )
        supervision.write(folder.supervision)
        return Ended(supervision)

    def attach(self, folder, slot, limits):
        return None

    def close(self):
        pass


def _stop_one(trial):
    return trial.stop() if trial.spec["cell"] == "half/0" else trial.complete()


class Ended:
    """An attempt that has ended."""

    pid = None
    started_at = None

    def __init__(self, supervision):
        self._supervision = supervision

    def poll(self):
        return self._supervision

    def stop(self, *, grace_seconds):
        pass

    def renew(self, *, seconds):
        pass

    def kill(self):
        pass


class Place:
    """A folder and a database for one run of the study and what follows it."""

    def __init__(self, folder, storage, launcher):
        self.folder = folder
        self._storage = storage
        self._launcher = launcher

    def make_database(self):
        if self._storage is None:
            return "sqlite"
        with psycopg.connect(self._storage.replace("+psycopg", ""), autocommit=True) as server:
            server.execute(f'CREATE DATABASE "{self.name}"')
        return self.url

    @property
    def name(self):
        return f"crash_{self.folder.name}"

    @property
    def url(self):
        return f"{self._storage.rpartition('/')[0]}/{self.name}"

    def study(self):
        storage = "sqlite"
        if self._storage is not None:
            os.environ["CRASH_URL"] = self.url
            storage = "${CRASH_URL}"
        return SMALL.SmallStudy(self.folder, storage=storage)

    def run(self):
        slot_loop.LOOK_SECONDS = 0.02
        study = self.study()
        study.behave({"half/0": ["stop"]})
        if self._launcher == "instant":
            SMALL.LocalLauncher = lambda **_options: Instant()
        return study.run().status

    def drop_database(self):
        if self._storage is not None:
            with psycopg.connect(self._storage.replace("+psycopg", ""), autocommit=True) as server:
                server.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')


def at_commit(number, side, action):
    """Calls `action` right before, or after, the given COMMIT that follows upon a write."""
    state = {"commits": 0, "has_written": False}
    commit = DefaultDialect.do_commit

    def executed(_connection, _cursor, statement, *_):
        words = ("SELECT", "BEGIN", "PRAGMA", "WITH", "SET", "SHOW")
        state["has_written"] |= not statement.lstrip().upper().startswith(words)

    def counted(dialect, connection):
        counts, state["has_written"] = state["has_written"], False
        state["commits"] += counts
        is_it = counts and state["commits"] == number
        if is_it and side == "before":
            action()
        commit(dialect, connection)
        if is_it and side == "after":
            action()

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "after_cursor_execute", executed)
    DefaultDialect.do_commit = counted
    return state


def in_a_process(action, log):
    """Runs the action in a forked process and returns how it ended, as `os.waitpid` gives it."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            # Nothing of what it says is for this process's readers.
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            status = action()
        except BaseException:  # noqa: BLE001  # the process ends with it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitpid(child, 0)[1]


def kill_myself():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def facts(place):
    """Returns what both records say, without clocks and ids."""
    study = place.study()
    with StudyStore.read(study.url) as store:
        trials = [
            {name: value for name, value in row.items() if name not in CLOCKS | OF_THE_ATTEMPT}
            for row in store.trials()
        ]
        final = [(row["trial"], row["outcome"]) for row in store.attempts()]
        ended = [each for each in final if each[1] != "lost"]
        windows = [(row["trial"], row["window"], row["loss"]) for row in store.updates()]
        why, late = store.study().ended_why, len(store.late_results())
    storage = optuna.storages.RDBStorage(study.url)
    told = [
        {
            "number": trial.number,
            "state": trial.state.name,
            "values": trial.values,
            "params": trial.params,
            "distributions": {k: repr(v) for k, v in trial.distributions.items()},
            "user_attrs": without_clocks(trial.user_attrs),
            "system_attrs": trial.system_attrs,
            "intermediate_values": trial.intermediate_values,
            "has_times": trial.datetime_start is not None and trial.datetime_complete is not None,
        }
        for trial in optuna.load_study(study_name="small", storage=storage).get_trials()
    ]
    storage.remove_session()
    storage.engine.dispose()
    return {
        "trials": trials,
        "ended": ended,
        "windows": windows,
        "why": why,
        "late": late,
        "optuna": told,
    }


def without_clocks(attributes):
    """Leaves out what a killed coordinator changes: a trial may have ended in spite of it."""
    evidence = {k: v for k, v in attributes["evidence"].items() if k not in CLOCKS | {"cause"}}
    return attributes | {"evidence": evidence}


def undisturbed(place):
    """Runs the study once; returns its facts and how many commits it made."""
    place.make_database()
    file = place.folder.with_suffix(".commits")

    def run():
        state = at_commit(0, "before", lambda: None)
        status = place.run()
        file.write_text(str(state["commits"]))
        return status

    assert in_a_process(run, place.folder.with_suffix(".log")) == 0, "the undisturbed run failed"
    return facts(place), int(file.read_text())


def try_point(place, number, side, expected):
    """Returns what differs after a kill at this point and another run; None if nothing does."""
    place.make_database()
    log = place.folder.with_suffix(".log")

    def disturbed():
        at_commit(number, side, kill_myself)
        return place.run()

    ended = in_a_process(disturbed, log)
    if ended != signal.SIGKILL:
        return f"it was not killed, but ended with {ended}: {log.read_text()[-2000:]}"
    ended = in_a_process(place.run, log)
    if ended != 0:
        return f"the second run ended with {ended}: {log.read_text()[-2000:]}"
    found = facts(place)
    different = [
        f"{name}: {found[name]!r} instead of {expected[name]!r}"
        for name in expected
        if found[name] != expected[name]
    ]
    place.drop_database()
    return "; ".join(different) or None


def main():
    logging.getLogger("optuna").setLevel(logging.WARNING)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--storage")
    parser.add_argument("--launcher", choices=["instant", "local"], default="instant")
    parser.add_argument("--side-by-side", type=int, default=2)
    parser.add_argument("--sides", choices=SIDES, nargs="+", default=SIDES)
    choices = parser.parse_args()
    choices.folder.mkdir(parents=True, exist_ok=True)

    def place(name):
        return Place(choices.folder / name, choices.storage, choices.launcher)

    expected, commits = undisturbed(place("undisturbed"))
    points = [(number, side) for number in range(1, commits + 1) for side in choices.sides]

    def some(first):
        for number, side in points[first :: choices.side_by_side]:
            trouble = try_point(place(f"{number}-{side}"), number, side, expected)
            with (choices.folder / f"results-{first}.jsonl").open("a") as results:
                results.write(json.dumps([number, side, trouble]) + "\n")
        return 0

    workers = []
    for first in range(choices.side_by_side):
        if (worker := os.fork()) == 0:
            os._exit(some(first))
        workers.append(worker)
    ends = [os.waitpid(worker, 0)[1] for worker in workers]
    tried = [
        json.loads(line)
        for file in choices.folder.glob("results-*.jsonl")
        for line in file.read_text().splitlines()
    ]
    wrong = [each for each in sorted(tried) if each[2] is not None]
    summary = {"commits": commits, "tried": len(tried), "wrong": wrong}
    sys.stdout.write(json.dumps(summary) + "\n")
    return 1 if wrong or len(tried) < len(points) or any(ends) else 0


if __name__ == "__main__":
    sys.exit(main())
