"""What a warm start saves: trials forked from their slot's template, against cold ones.

    python scripts/bench_start.py                5 rounds, some minutes
    python scripts/bench_start.py --rounds 2     a look

A small study on the base model of the quickstart runs on one slot, its trials warm and cold by
turns: from the claim of a trial (in the database) to the end of its first window (in its events).
Then its first attempt is started anew, by turns warm and cold, twice in every round:

- to ready: its prepared data are away, so it complains as soon as it has loaded its libraries and
  begins its work; that word is the moment. The CPU time is that of the whole process.
- to its first window, and the CPU time of the whole attempt.

A figure is the median over rounds of the ratio of two starts of the same round, with its least and
its greatest, so that other load on the machine meets both. The CPU time of a warm start includes
what it costs its template to fork. Loading the template is paid once per slot and told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil

import sweeper
from sweeper.records import Event, Outcome, Update, decode
from sweeper.study.loading import load_study
from sweeper.study.spec import TrialSpec
from sweeper.sweep.running import RunChoices, run_study
from sweeper.trial.folder import AttemptFolder
from sweeper.workers.environment import trial_environment
from sweeper.workers.launcher import Running
from sweeper.workers.launchers.local import TRIAL_COMMAND, LocalLauncher
from sweeper.workers.limits import TrialLimits
from sweeper.workers.process_tree import adopt_orphans
from sweeper.workers.slots import Slot
from sweeper.workers.warm_start import WarmStart
from sweeper.workers.watched_trial import Order, WatchedTrial, start_cold

MODEL = Path(__file__).resolve().parents[1] / "studies/models/primer-1m"
SLOT = Slot(name="cpu 1", device=None)
AIM = 0.05

STUDY = """\
name: start
question: {{kind: rate_too_high, text: Is the rate too large?}}
justification: A benchmark.
compare: {{key: training.learning_rate, multiply: {{baseline: 1, double: 2}}}}
seeds: {seeds}
budget: {{target_tokens: 200}}
model: {{path: {model}}}
tune: lora
lora: {{rank: 4, alpha: 8, targets: all-linear}}
data:
  train: {{path: train.jsonl}}
  validation: {{path: validation.jsonl}}
  test: {{path: test.jsonl}}
  max_length: 64
  max_epochs: 4
training: {{learning_rate: 1e-3, records_per_update: 4, schedule: {{kind: constant}}}}
evaluation: {{every: {{target_tokens: 200}}}}
run: {{micro_batch: 4, slots: [cpu]}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start: wall-clock seconds to the moment in question, CPU seconds of the process."""

    wall_seconds: float
    cpu_seconds: float


class InTurns:
    """Implements `launcher.Launcher`: warm and cold by turns, each kind once with each arm."""

    def __init__(self, logs: Path) -> None:
        self._warm = LocalLauncher(logs=logs / "warm", tell=tell)
        self._cold = LocalLauncher(logs=logs / "cold", warm=False)
        self.is_warm: list[bool] = []

    def start(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> Running:
        """See `launcher.Launcher.start`."""
        number = len(self.is_warm)
        self.is_warm.append((number + number // 2) % 2 == 0)
        return (self._warm if self.is_warm[-1] else self._cold).start(folder, slot, limits)

    def attach(self, folder: AttemptFolder, slot: Slot, limits: TrialLimits) -> None:
        """See `launcher.Launcher.attach`."""

    def close(self) -> None:
        """See `launcher.Launcher.close`."""
        self._warm.close()
        self._cold.close()


def tell(text: str) -> None:
    """Shows why a start that should be warm is not."""
    print(f"NOT WARM: {text}", file=sys.stderr, flush=True)


def run_in_turns(scratch: Path, *, rounds: int) -> tuple[list[float], list[float], AttemptFolder]:
    """Runs the study; returns seconds from claim to first window, warm and cold, and an attempt.

    The first warm trial, which waits for its template, and the cold one beside it are left out.
    """
    for number, name in enumerate(("train", "validation", "test")):
        rows = [
            {"prompt": f"What follows {n} in list {number}?", "answer": f"{n + 1} and {n + 2}"}
            for n in range(60 if name == "train" else 8)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (scratch / f"{name}.jsonl").write_text(text, encoding="utf-8")
    file = scratch / "study.yaml"
    file.write_text(STUDY.format(seeds=list(range(rounds + 1)), model=MODEL), encoding="utf-8")
    launcher = InTurns(scratch / "logs")
    run_study(load_study(file), choices=RunChoices(launcher=launcher, slots=(SLOT,)))
    attempts = sweeper.attempts(file).sort_values("claimed_at")
    taken: dict[bool, list[float]] = {True: [], False: []}
    for warm, claimed_at, path in zip(
        launcher.is_warm, attempts["claimed_at"], attempts["folder"], strict=True
    ):
        folder = AttemptFolder(scratch / "runs" / "start" / path)
        moment = moment_of(folder, Update)
        taken[warm].append((moment - datetime.fromisoformat(str(claimed_at))).total_seconds())
    first = AttemptFolder(scratch / "runs" / "start" / attempts["folder"].iloc[0])
    return taken[True][1:], taken[False][1:], first


def events_of(folder: AttemptFolder) -> list[Event]:
    """Returns what the attempt said."""
    return [decode(line) for line in folder.events.read_text("utf-8").splitlines()]


def moment_of(folder: AttemptFolder, kind: type) -> datetime:
    """Returns when the first record of that kind was said."""
    return next(event.at for event in events_of(folder) if isinstance(event.record, kind))


class Starter:
    """Does what a supervisor does, in this process, so that the kernel counts for us.

    Attributes:
        loading: What the template took.
    """

    def __init__(self, scratch: Path, like: AttemptFolder) -> None:
        self._scratch = scratch
        self._spec = TrialSpec.read(like.spec)
        self._number = 0
        self._warm_start = WarmStart()
        before, began = self._cpu_seconds(), time.monotonic()
        self._warm_start.prepare(self._order(self._spec))
        while self._warm_start.is_loading:
            self._warm_start.look()
            time.sleep(0.01)
        if self._warm_start.notices:
            raise SystemExit(" ".join(self._warm_start.notices))
        self.loading = Start(
            wall_seconds=time.monotonic() - began, cpu_seconds=self._cpu_seconds() - before
        )

    def to_ready(self, *, warm: bool) -> Start:
        """Starts an attempt without data."""
        return self._run(self._spec.model_copy(update={"prepared": "/nowhere"}), Outcome, warm)

    def to_first_window(self, *, warm: bool) -> Start:
        """Starts an attempt as it is."""
        return self._run(self._spec, Update, warm)

    def close(self) -> None:
        """Ends the template."""
        self._warm_start.close()

    def _run(self, spec: TrialSpec, kind: type, warm: bool) -> Start:
        order = self._order(spec)
        before = self._cpu_seconds()
        began = time.time()
        trial = WatchedTrial(
            order,
            start=self._warm_start.start if warm else start_cold,
            besides=self._warm_start.processes,
        )
        while trial.look() is None:
            time.sleep(0.01)
        if self._warm_start.notices:
            raise SystemExit(" ".join(self._warm_start.notices))
        return Start(
            wall_seconds=moment_of(order.folder, kind).timestamp() - began,
            cpu_seconds=self._cpu_seconds() - before,
        )

    def _order(self, spec: TrialSpec) -> Order:
        self._number += 1
        folder = AttemptFolder(self._scratch / "anew" / str(self._number))
        folder.path.mkdir(parents=True)
        folder.spec.write_text(spec.to_json(), encoding="utf-8")
        return Order(
            folder=folder,
            argv=(*TRIAL_COMMAND, str(folder.path)),
            environment=trial_environment(folder, SLOT),
            limits=TrialLimits(),
        )

    def _cpu_seconds(self) -> float:
        """Returns the CPU time of the template and of the trials that have ended."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = [process.cpu_times() for process in self._warm_start.processes()]
        template = sum(t.user + t.system + t.children_user + t.children_system for t in times)
        return used.ru_utime + used.ru_stime + template


def print_ratio(name: str, warm: Sequence[float], cold: Sequence[float], aim: float | None) -> None:
    """Prints one line of the table."""
    ratios = [w / c for w, c in zip(warm, cold, strict=True)]
    cells = (statistics.median(ratios), min(ratios), max(ratios))
    seconds = (statistics.median(warm), statistics.median(cold))
    wanted = "" if aim is None else f"{aim:.2f}"
    print(
        f"{name:32}"
        + "".join(f"{cell:10.3f}" for cell in cells)
        + f"{wanted:>8}"
        + "".join(f"{cell:12.3f}" for cell in seconds)
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ["HF_HUB_OFFLINE"] = "1"
    if not MODEL.is_dir():
        raise SystemExit(f"{MODEL} is not in this checkout")
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        warm_claims, cold_claims, like = run_in_turns(scratch, rounds=rounds)
        starter = Starter(scratch, like)
        pairs: dict[str, list[tuple[Start, Start]]] = {"ready": [], "first window": []}
        for number in range(rounds):
            for name, run in (
                ("ready", starter.to_ready),
                ("first window", starter.to_first_window),
            ):
                first = run(warm=number % 2 == 0)
                second = run(warm=number % 2 == 1)
                pairs[name].append((first, second) if number % 2 == 0 else (second, first))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        starter.close()
    heads = ("median", "least", "greatest", "aim", "warm, s", "cold, s")
    widths = (10, 10, 10, 8, 12, 12)
    row = "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    print(f"{'warm / cold':32}{row}")
    for name, found in pairs.items():
        for unit in ("wall_seconds", "cpu_seconds"):
            warm, cold = ([getattr(pair[side], unit) for pair in found] for side in (0, 1))
            aim = AIM if name == "ready" else None
            print_ratio(f"start to {name}, {unit.partition('_')[0]}", warm, cold, aim)
    print_ratio("claim to first window, wall", warm_claims, cold_claims, None)
    loading = starter.loading
    took = f"{loading.wall_seconds:.1f} s wall, {loading.cpu_seconds:.1f} s CPU"
    print(
        f"the template loaded in {took}; {psutil.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
