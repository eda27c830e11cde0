"""Eight processes claim 120 cells at once, again and again: is each cell claimed exactly once?

    python scripts/claims_race.py --rounds 20
    python scripts/claims_race.py --rounds 1 --cells 12 --databases sqlite --skip stock

Four ways of claiming, each on SQLite and on PostgreSQL (a server of its own, started here):

    ours        `StudyStore.claim`, as fast as the processes can
    barrier     the same, but all processes have seen the free cell before one of them takes it
    unguarded   like barrier, without the condition that the cell has no owner and without the
                unique index of fencing numbers: has to fail
    stock       `study.ask()` on a stock Optuna study with as many queued trials: has to fail on
                SQLite, where Optuna hands trials out twice

The last two are run fewer times, see --spoiled-rounds. Exit status 0: the first two gave every cell
to one process in every round, and what has to fail did. 1: not so.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import UniqueConstraint, true

from sweeper.store.claims import IS_FREE, Owner, Wanted, next_free, take
from sweeper.store.engine import open_engine
from sweeper.store.planning import RecordedStudy
from sweeper.store.store import StudyStore
from sweeper.store.tables import ATTEMPT
from sweeper.study.folder import sqlite_url

WAYS = ("ours", "barrier", "unguarded", "stock")
SPOILED = frozenset({"unguarded", "stock"})
DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as a plan has it."""

    id: str
    arm: str
    seed: int
    value: float
    round: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What came of one race.

    Attributes:
        claims: Cells that a process was given, once for each.
        seconds: From the first claim to the last, starting the processes left out.
    """

    claims: Counter[str]
    seconds: float

    def twice(self) -> int:
        """Returns how many cells were given to more than one process."""
        return sum(count > 1 for count in self.claims.values())


def main() -> int:
    """Runs the races and prints a line for each way and database."""
    if sys.argv[1:2] == ["claim"]:
        for asked in sys.stdin:
            claim_until_none_is_left(*asked.split())
            say("done")
        return 0
    choices = parse()
    verdicts = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-")))
        folder.chmod(0o755)
        urls = {name: stack.enter_context(databases(name, folder)) for name in choices.databases}
        claimers = stack.enter_context(claimers_ready(choices.claimers))
        print("way        database     rounds  claims  cells twice  cells missed  claims/s")
        for way in (way for way in WAYS if way not in choices.skip):
            for name in choices.databases:
                count = choices.spoiled_rounds if way in SPOILED else choices.rounds
                races = [race(claimers, way, next(urls[name]), choices) for _ in range(count)]
                verdicts.append(report(way, name, races, choices.cells))
    return 0 if all(verdicts) else 1


def parse() -> argparse.Namespace:
    """Returns what was chosen on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--spoiled-rounds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=120)
    parser.add_argument("--claimers", type=int, default=8)
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=DATABASES)
    parser.add_argument("--skip", nargs="+", choices=WAYS, default=())
    return parser.parse_args()


@contextlib.contextmanager
def databases(name: str, folder: Path) -> Iterator[Iterator[str]]:
    """Yields URLs of databases that are not there yet, one after another."""
    if name == "sqlite":
        yield (sqlite_url(folder / f"{number}.db") for number in range(10**6))
        return
    from chaos_server import Server  # noqa: PLC0415  # only where one is asked for

    server = Server(folder / "postgres")
    server.start()
    try:
        yield (f"{server.url}?options={schema(number)}" for number in range(10**6))
    finally:
        server.stop()


def schema(number: int) -> str:
    """Returns the session's option that names a schema, encoded for a URL."""
    return quote(f'-csearch_path="sweeper_race-{number}"', safe="")


@contextlib.contextmanager
def claimers_ready(count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts the processes that claim in every race, and sees to it that none has failed."""
    arguments = [sys.executable, __file__, "claim"]
    claimers = [
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    yield claimers
    for claimer in claimers:
        claimer.communicate()
        assert claimer.returncode == 0, "a claimer failed"


def race(
    claimers: list[subprocess.Popen[str]], way: str, url: str, choices: argparse.Namespace
) -> Round:
    """Makes the database, lets the processes loose on it, and returns what they claimed."""
    if way == "stock":
        queue_stock_trials(url, choices.cells)
    else:
        make_study(url, choices.cells, guarded=way != "unguarded")
    for claimer in claimers:
        tell(claimer, f"{way} {url} {choices.cells}")
    for claimer in claimers:
        said(claimer)
    began = time.monotonic()
    claims = conduct(claimers)
    return Round(claims=claims, seconds=time.monotonic() - began)


def conduct(claimers: list[subprocess.Popen[str]]) -> Counter[str]:
    """Lets all go on together whenever all that are left wait; returns what they claimed."""
    claims: Counter[str] = Counter()
    waiting = list(claimers)
    while waiting:
        for claimer in waiting:
            tell(claimer, "go")
        still = []
        for claimer in waiting:
            while (word := said(claimer)) not in {"done", "wait"}:
                claims[word] += 1
            if word == "wait":
                still.append(claimer)
        waiting = still
    return claims


def tell(claimer: subprocess.Popen[str], word: str) -> None:
    """Tells a claimer what it waits for."""
    assert claimer.stdin is not None
    claimer.stdin.write(f"{word}\n")
    claimer.stdin.flush()


def said(claimer: subprocess.Popen[str]) -> str:
    """Returns the claimer's next word."""
    assert claimer.stdout is not None
    word = claimer.stdout.readline().strip()
    assert word, "a claimer failed"
    return word


def make_study(url: str, cells: int, *, guarded: bool) -> None:
    """Makes a study of so many cells that wait; unguarded without the index of fencing numbers."""
    fences = [each for each in ATTEMPT.constraints if is_fence(each)]
    assert len(fences) == 1
    if not guarded:
        ATTEMPT.constraints.remove(fences[0])
    with StudyStore.create(url) as store:
        ATTEMPT.constraints.add(fences[0])
        study = RecordedStudy(
            name="race",
            fingerprint="0" * 64,
            protocol={},
            study_yaml="",
            factor_key="training.learning_rate",
            arms={"baseline": 0.1},
            seeds=tuple(range(cells)),
            budget_target_tokens=1,
        )
        store.record_study(study)
        store.add_cells(Cell(f"baseline/{seed}", "baseline", seed, 0.1) for seed in range(cells))


def is_fence(constraint: object) -> bool:
    """Says whether it is the unique index of a cell's fencing numbers."""
    return isinstance(constraint, UniqueConstraint) and {
        column.name for column in constraint.columns
    } == {"cell", "fencing_number"}


def queue_stock_trials(url: str, trials: int) -> None:
    """Queues so many trials as anyone would with Optuna alone."""
    import optuna  # noqa: PLC0415  # the other claimers do without

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if not url.startswith("sqlite"):
        StudyStore.create(url).close()  # makes the schema that the URL names
    study = optuna.create_study(storage=url, study_name="stock")
    for number in range(trials):
        study.enqueue_trial({"x": float(number)})


def claim_until_none_is_left(way: str, url: str, cells: str) -> None:
    """What a claimer does: waits for its start, then says each cell that it is given."""
    owner = Owner(worker=f"w{os.getpid()}", host="here", pid=os.getpid(), started_at="0.0")
    if way == "stock":
        ask_until_none_is_left(url, int(cells))
    elif way == "ours":
        with StudyStore.open(url) as store:
            wait()
            while (claimed := store.claim(owner, "cpu")) is not None:
                say(claimed.cell)
    else:
        claim_what_all_have_seen(url, owner, guarded=way == "barrier")


def claim_what_all_have_seen(url: str, owner: Owner, *, guarded: bool) -> None:
    """Sees the first free cell in one transaction and takes it in another, all at the same time."""
    engine = open_engine(url)
    wait()
    while True:
        with engine.begin() as connection:
            seen = next_free(connection, Wanted())
        if seen is None:
            break
        wait()
        with engine.begin() as connection:
            claimed = take(connection, seen, owner, "cpu", free=IS_FREE if guarded else true())
        if claimed is not None:
            say(claimed.cell)
        wait()
    engine.dispose()


def ask_until_none_is_left(url: str, trials: int) -> None:
    """Asks a stock study for trials; those that it makes up when the queue is empty don't count."""
    import optuna  # noqa: PLC0415  # the other claimers do without

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(storage=url, study_name="stock")
    wait()
    while (trial := study.ask()).number < trials:
        say(str(trial.number))


def say(word: str) -> None:
    """Says it to the one who conducts."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def wait() -> None:
    """Waits until all have come so far."""
    say("wait")
    sys.stdin.readline()


def report(way: str, database: str, races: list[Round], cells: int) -> bool:
    """Prints what came of the races; returns whether it is what has to be."""
    twice = sum(race.twice() for race in races)
    missed = sum(cells - len(race.claims) for race in races)
    claims = sum(race.claims.total() for race in races)
    rate = claims / sum(race.seconds for race in races)
    if way in {"ours", "barrier"}:
        is_right = twice == 0 and missed == 0
    else:
        is_right = twice > 0 or (way, database) == ("stock", "postgresql")
    print(
        f"{way:<11}{database:<13}{len(races):>6}{claims:>8}{twice:>13}{missed:>14}{rate:>10.0f}"
        f"{'' if is_right else '   <- not as it has to be'}",
        flush=True,
    )
    return is_right


if __name__ == "__main__":
    sys.exit(main())
