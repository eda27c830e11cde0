"""Kills, freezes and starves a running study, and shows that it ends as if nobody had come by.

    python scripts/chaos.py                                 200 faults on SQLite
    python scripts/chaos.py --database postgresql           200 on a PostgreSQL server of its own
    python scripts/chaos.py --faults 20 --seed 7 --keep     a look; everything is left to be read
    python scripts/chaos.py --launcher '{kind: slurm}'      on an engine

A small study is run by `sweeper run` as a user would: first undisturbed, then again and again under
faults drawn at random, until there were enough. Whenever the coordinator has gone, the same command
is given again; a trial that a full disk ended is retried. After each study the record, the
attempts' folders and the processes of this host are asked: was every cell completed, once; did two
attempts of a cell ever have processes at the same time; is any process left; are all losses,
histories and weights those of the undisturbed study, bit for bit; is every fault explained by an
attempt that it ended, or by why it had no effect, and every end by a fault. Exit status 1 if not.

The run folders lie on a small file system of their own, which is filled now and then, where this
user may mount one. This process adopts whatever lost its parent below it, so that nothing escapes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from chaos_faults import (
    Attempt,
    Exit,
    Explanation,
    Fault,
    Kind,
    double_owners,
    explain,
    unexplained_ends,
    unexplained_exits,
)
from chaos_inflict import Disk, Inflictor, Scene, plain
from chaos_record import Recorded, differences, not_completed, read
from chaos_server import Server
from chaos_study import (
    REFERENCE,
    Bench,
    Coordinator,
    Sightings,
    Size,
    collect_orphans,
    leftovers,
    progress,
)
from sqlalchemy import create_engine, text

from sweeper.study.folder import StudyFolder
from sweeper.workers.process_tree import adopt_orphans

LOCAL = "{kind: local}"
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 10.0
"""For the last processes of a study that has ended."""
STUCK_SECONDS = 300.0
"""Without a fault or a window: nothing will come any more."""
DISK_MEBIBYTES = 192


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one disturbed study.

    Attributes:
        problems: What does not hold, by what was asked.
    """

    study: str
    seconds: float
    faults: tuple[Fault, ...]
    explanations: tuple[Explanation, ...]
    attempts: tuple[Attempt, ...]
    exits: tuple[Exit, ...]
    late_results: int
    problems: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Pace:
    """When the next fault is due: often as soon as the study has come further, sometimes before."""

    due: float = 0.0
    mark: int | None = None
    give_up: float = 0.0

    def is_due(self, now: float, come: int) -> bool:
        """Says whether it is, with the study having come so far."""
        further = self.mark is None or come != self.mark or now >= self.give_up
        return now >= self.due and further


@dataclass(slots=True)
class Campaign:
    """Studies one after the other, until there were enough faults."""

    bench: Bench
    inflictor: Inflictor
    server: Server | None
    log: Path
    coordinator: Coordinator = field(init=False)
    sightings: Sightings = field(default_factory=Sightings)
    exits: list[Exit] = field(default_factory=list)

    def reference(self) -> Recorded:
        """Runs the study undisturbed; returns what it has left.

        Raises:
            RuntimeError: It does not end well by itself.
        """
        ended = self.bench.sweeper("run", str(self.bench.study))
        if ended.returncode != 0:
            raise RuntimeError(f"the undisturbed study failed: {ended.stdout}{ended.stderr}")
        return read(self.bench.run_folder(REFERENCE), self.bench.url(REFERENCE), {})

    def disturb(self, name: str, faults: int, reference: Recorded) -> Result:
        """Runs the study once more, under so many faults or as many as it lasts for."""
        began, known, exits = time.monotonic(), len(self.inflictor.faults), len(self.exits)
        self.sightings = Sightings()
        self.bench.take_prepared(name)
        trouble = self._run(name, faults)
        self.inflictor.tick(everything=True)
        left = self._leftovers(name)
        found = read(self.bench.run_folder(name), self.bench.url(name), self.sightings.spans)
        mine = tuple(self.inflictor.faults[known:])
        explanations = tuple(explain(fault, mine, found.attempts) for fault in mine)
        ends = tuple(self.exits[exits:])
        unexplained = [plain(e.fault) for e in explanations if e.text is None]
        problems: dict[str, Sequence[str]] = {
            "did not end": trouble,
            "lost trials": not_completed(found.attempts, sorted(reference.optuna)),
            "cells with two owners": double_owners(found.attempts),
            "leftover processes": left,
            "differences": differences(found, reference),
            "unexplained faults": [json.dumps(fault) for fault in unexplained],
            "unexplained ends": unexplained_ends(found.attempts, mine),
            "unexplained exits": unexplained_exits(ends, mine),
        }
        return Result(
            study=name,
            seconds=time.monotonic() - began,
            faults=mine,
            explanations=explanations,
            attempts=found.attempts,
            exits=ends,
            late_results=found.late_results,
            problems={asked: tuple(told) for asked, told in problems.items()},
        )

    def _run(self, name: str, faults: int) -> list[str]:
        """Runs the study to its end; returns what kept it from that."""
        self.coordinator = self._started(name)
        try:
            return self._watch(name, self.inflictor.count + faults)
        finally:
            self.inflictor.tick(everything=True)
            self.coordinator.kill()

    def _watch(self, name: str, enough: int) -> list[str]:
        pace, heard, far = Pace(due=time.monotonic() + 3.0), time.monotonic(), 0
        while (now := time.monotonic()) < heard + STUCK_SECONDS:
            time.sleep(LOOK_SECONDS)
            self.inflictor.tick()
            live = list(self.bench.live_attempts(name))
            self.sightings.look(live)
            come = progress(live)
            if come != far:
                far, heard = come, now
            if self._follow(name):
                return []
            if self.inflictor.count < enough and pace.is_due(now, come):
                scene = Scene(
                    study=name,
                    coordinator=self.coordinator,
                    live=live,
                    database=self._database(name),
                )
                if self.inflictor.inflict(scene):
                    heard, pace = now, self._pace(come)
        return [f"for {STUCK_SECONDS:g} s nothing came of it, see {self.log}"]

    def _follow(self, name: str) -> bool:
        """Gives the command again when the coordinator has gone; True when there is no need."""
        ended = self.coordinator.exit()
        if ended is None:
            self._collect(self.coordinator)
            return False
        self.exits.append(ended)
        if self._has_ended(name, ended):
            return True
        time.sleep(self.inflictor.draw.uniform(0.0, 1.0))
        self._collect(None)
        self.coordinator = self._started(name)
        return False

    def _pace(self, come: int) -> Pace:
        now, draw = time.monotonic(), self.inflictor.draw
        waits = draw.random() < 0.65
        return Pace(
            due=now + draw.uniform(0.2, 2.5), mark=come if waits else None, give_up=now + 40.0
        )

    def _started(self, name: str) -> Coordinator:
        return Coordinator(self.bench, name, self.log)

    def _database(self, name: str) -> Path | None:
        if self.server is not None:
            return None
        file = StudyFolder(self.bench.run_folder(name)).database
        return file if file.exists() else None

    def _collect(self, coordinator: Coordinator | None) -> None:
        mine = set() if coordinator is None else {coordinator.process.pid}
        collect_orphans(besides=mine | self._servers())

    def _servers(self) -> set[int]:
        return set() if self.server is None else {self.server.pid}

    def _has_ended(self, name: str, ended: Exit) -> bool:
        """Says whether nothing is left to be run; trials that a full disk ended are retried."""
        if ended.status not in {0, 3}:
            return False
        run_folder = self.bench.run_folder(name)
        full = [cell for cell, reason in self._unfinished(name) if reason == "disk"]
        for cell in full:
            self.bench.sweeper("retry", str(run_folder), cell)
        return not full

    def _unfinished(self, name: str) -> list[tuple[str, str]]:
        """Returns the cells that ended otherwise than completed, with the reason."""
        engine = create_engine(self.bench.url(name))
        query = "SELECT cell, reason FROM sweeper_cell WHERE outcome <> 'completed' ORDER BY cell"
        try:
            with engine.connect() as connection:
                return [(row.cell, row.reason) for row in connection.execute(text(query))]
        finally:
            engine.dispose()

    def _leftovers(self, name: str) -> list[str]:
        give_up = time.monotonic() + LEAVE_SECONDS
        while left := leftovers(self.bench.run_folder(name), besides=self._servers()):
            if time.monotonic() > give_up:
                break
            self._collect(None)
            time.sleep(0.2)
        return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Disturbs studies as the command line asks, and prints what came of it."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to clean up
    adopt_orphans()
    work = Path(tempfile.mkdtemp(prefix="chaos-")).resolve()
    work.chmod(0o755)  # the server's user enters it
    tell(f"in {work}")
    server = disk = None
    try:
        if asked.database == "postgresql":
            server = Server(work / "server")
            server.start()
        disk = _disk(work)
        results = _results(asked, work, server, disk)
        report(results, asked.json)
    finally:
        if server is not None:
            server.stop()
        if disk is not None and not asked.keep:
            disk.unmount()
        if not asked.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if any(told for result in results for told in result.problems.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=200, help="how many in all")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--seeds", type=int, default=2, help="of the study: 2 cells each")
    parser.add_argument("--target-tokens", type=int, default=8000, help="of a cell")
    parser.add_argument("--launcher", default=LOCAL, help="run.launcher of the study")
    parser.add_argument("--only", nargs="+", choices=[str(kind) for kind in Kind], metavar="KIND")
    parser.add_argument("--keep", action="store_true", help="leave all files where they are")
    parser.add_argument("--json", type=Path, help="write everything that was found there, too")
    return parser


def _disk(work: Path) -> Disk | None:
    try:
        return Disk(work / "disk", mebibytes=DISK_MEBIBYTES)
    except PermissionError as error:
        tell(f"no disk is filled: {error}")
        return None


def _results(
    asked: argparse.Namespace, work: Path, server: Server | None, disk: Disk | None
) -> list[Result]:
    folder = work / "bench" if disk is None else disk.folder
    folder.mkdir(exist_ok=True)
    size = Size(seeds=asked.seeds, target_tokens=asked.target_tokens)
    storage = "sqlite" if server is None else server.url
    campaign = Campaign(
        bench=Bench(folder, storage=storage, launcher=asked.launcher, size=size),
        inflictor=Inflictor(
            seed=asked.seed,
            log=work / "faults.jsonl",
            server=server,
            disk=disk,
            kinds=frozenset(map(Kind, asked.only)) if asked.only else frozenset(Kind),
        ),
        server=server,
        log=work / "coordinator.log",
    )
    reference = campaign.reference()
    results: list[Result] = []
    while (left := asked.faults - sum(len(result.faults) for result in results)) > 0:
        name = f"chaos-{len(results) + 1}"
        results.append(campaign.disturb(name, left, reference))
        tell(_line(results[-1]))
        if not asked.keep:
            campaign.bench.discard(name)
    return results


def _line(result: Result) -> str:
    told = [f"  {asked}: {one}" for asked, many in result.problems.items() for one in many]
    count = len(result.faults)
    head = (
        f"{result.study}: {count} faults, {len(result.attempts)} attempts, {result.seconds:.0f} s"
    )
    return "\n".join([head, *told])


def report(results: Sequence[Result], file: Path | None) -> None:
    """Prints what came of the faults by kind, and what does not hold."""
    explanations = [one for result in results for one in result.explanations]
    form = "{:20}{:>7}{:>16}{:>11}{:>13}"
    print(form.format("fault", "times", "ended attempts", "no effect", "unexplained"))
    for kind in Kind:
        mine = [one for one in explanations if one.fault.kind is kind]
        if mine:
            came = Counter(_column(one) for one in mine)
            print(form.format(kind, len(mine), came["ended"], came["none"], came["?"]))
    came = Counter(_column(one) for one in explanations)
    print(form.format("all", len(explanations), came["ended"], came["none"], came["?"]))
    seconds = sum(result.seconds for result in results)
    attempts = sum(len(result.attempts) for result in results)
    print(
        f"{len(results)} studies, {attempts} attempts, {timedelta(seconds=round(seconds))}, "
        f"{60 * len(explanations) / seconds:.1f} faults a minute"
    )
    for asked in results[0].problems if results else ():
        print(f"{asked}: {sum(len(result.problems[asked]) for result in results)}")
    if file is not None:
        file.write_text(json.dumps([_plain(result) for result in results], indent=1), "utf-8")


def _column(explanation: Explanation) -> str:
    if explanation.text is None:
        return "?"
    return "none" if explanation.text.startswith("no effect") else "ended"


def _plain(result: Result) -> dict[str, object]:
    return {
        "study": result.study,
        "seconds": result.seconds,
        "late_results": result.late_results,
        "problems": result.problems,
        "faults": [
            plain(one.fault) | {"came_of_it": one.text, "attempts": one.attempts}
            for one in result.explanations
        ],
        "attempts": [
            {
                "name": attempt.name,
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "claimed_at": attempt.claimed_at.isoformat(),
                "ended_at": attempt.ended_at and attempt.ended_at.isoformat(),
            }
            for attempt in result.attempts
        ],
        "exits": [
            {"pid": one.process.pid, "status": one.status, "at": one.at.isoformat()}
            for one in result.exits
        ],
    }


def tell(what: str) -> None:
    """Says how far it is."""
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
