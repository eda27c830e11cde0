"""What the loop costs: against a bare loop, against transformers' Trainer and against TRL.

    python scripts/bench_loop.py                 some minutes on a CPU; on a GPU the same
    python scripts/bench_loop.py --quick         a look, in one round
    python scripts/bench_loop.py --json FILE     every lap, besides the table

All contenders train the same adapter on the same records with the same optimizer; each lap begins
with a fresh model. Laps take turns, and a figure is the median over rounds of the ratio of two laps
of the same round, with its least and its greatest, so that other load on the machine meets both;
"of least" is the ratio of their least laps, which other load has touched least.

What differs by a few hundredths is measured in one process, where all get the same memory to work
in; what is measured against other trainers, in a process each, so that its memory is its own: the
peak beyond its imports, on a GPU that of the device. The yardstick is CPU time on a CPU (one
thread, no waiting) and wall-clock time on a GPU; both are kept. "The same twice" is the loop
against itself: as far as it is from 1, so much is noise. TRL is optional: pip install
'sweeper[bench]'.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench_setup import BATCHES, SIZES, Setup

SCRIPTS = Path(__file__).resolve().parent
MEBIBYTE = 2**20

TOGETHER = (
    "ours",
    "bare loop",
    "ours, not deterministic",
    "ours again",
    "ours, no clipping",
    "bare loop, no clipping",
)
APART = ("ours", "ours, not deterministic", "Trainer", "TRL")
IN_A_LOOK = ("ours", "bare loop", "ours, not deterministic", "Trainer", "TRL")

Lap = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One ratio of times: of a contender, over another, and what it should be at most."""

    name: str
    of: str
    over: str
    aim: float | None = None


COST_QUESTIONS = (
    Question(name="records, checks", of="ours", over="bare loop", aim=1.02),
    Question(
        name="records, norms, checks",
        of="ours, no clipping",
        over="bare loop, no clipping",
        aim=1.02,
    ),
    Question(name="deterministic algorithms", of="ours", over="ours, not deterministic"),
    Question(name="the same twice (noise)", of="ours again", over="ours"),
)
TRAINER_QUESTIONS = (
    Question(name="against the Trainer", of="ours", over="Trainer"),
    Question(name="against TRL", of="ours", over="TRL", aim=1.05),
    Question(name="not deterministic, against TRL", of="ours, not deterministic", over="TRL"),
)


class Bench:
    """A child process that runs laps of contenders by name.

    Attributes:
        facts: The tokens of a lap, and what memory the process held before its first.
    """

    def __init__(self, setup: Setup, names: Sequence[str]) -> None:
        described = json.dumps(dataclasses.asdict(setup))
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPTS / "bench_contenders.py"), described, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(setup),
            text=True,
        )
        self.facts = self._answer()

    def run(self, name: str) -> Lap:
        """Returns one lap of the contender."""
        stdin = _stream(self._process.stdin)
        stdin.write(f"{name}\n")
        stdin.flush()
        return self._answer()

    def stop(self) -> None:
        """Ends the child."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> Lap:
        line = _stream(self._process.stdout).readline()
        if not line:
            raise SystemExit(f"a contender ended with {self._process.wait()}; see above")
        answer: Lap = json.loads(line)
        return answer


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def environment(setup: Setup) -> dict[str, str]:
    """Returns what a trial's process has in its environment; this checkout comes first."""
    threads = str(setup.threads)
    paths = (str(SCRIPTS.parent), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "PASSIVE",
        "GOMP_SPINCOUNT": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }


def run_rounds(benches: Mapping[str, Bench], rounds: int) -> dict[str, list[Lap]]:
    """Runs a lap of each contender in every round; each round begins with another one."""
    names = list(benches)
    laps: dict[str, list[Lap]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            laps[name].append(benches[name].run(name))
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return laps


def measure_together(names: Sequence[str], setup: Setup, rounds: int) -> dict[str, list[Lap]]:
    """Runs all contenders in one process."""
    bench = Bench(setup, names)
    try:
        return run_rounds(dict.fromkeys(names, bench), rounds)
    finally:
        bench.stop()


def measure_apart(
    names: Sequence[str], setup: Setup, rounds: int
) -> tuple[dict[str, list[Lap]], dict[str, Lap]]:
    """Runs each contender in a process of its own; returns the processes' facts as well."""
    benches: dict[str, Bench] = {}
    try:
        for name in names:
            benches[name] = Bench(setup, [name])
        return run_rounds(benches, rounds), {name: benches[name].facts for name in names}
    finally:
        for bench in benches.values():
            bench.stop()


def print_ratios(
    questions: Sequence[Question], laps: Mapping[str, list[Lap]], yardstick: str
) -> None:
    """Prints the ratio of times for each question whose contenders were measured."""
    heads = ("median", "least", "greatest", "of least", "aim")
    print("\n" + f"{'ratio of times':34}" + "".join(f"{head:>10}" for head in heads))
    for question in questions:
        if question.of not in laps or question.over not in laps:
            continue
        of, over = ([lap[yardstick] for lap in laps[n]] for n in (question.of, question.over))
        rounds = [ours / theirs for ours, theirs in zip(of, over, strict=True)]
        cells = (statistics.median(rounds), min(rounds), max(rounds), min(of) / min(over))
        aim = f"{question.aim:.2f}" if question.aim else ""
        print(f"{question.name:34}" + "".join(f"{cell:10.3f}" for cell in cells) + f"{aim:>10}")


def print_bits(laps: Mapping[str, list[Lap]]) -> None:
    """Says whether the loop and the bare one have come to the same weights."""
    for of, over in (("ours", "bare loop"), ("ours, no clipping", "bare loop, no clipping")):
        if of in laps and over in laps:
            weights = {lap["weights"] for name in (of, over) for lap in laps[name]}
            verdict = "yes, every bit" if len(weights) == 1 else "NO"
            print(f"{of} ends with the weights of {over}: {verdict}")


def print_contenders(
    laps: Mapping[str, list[Lap]], facts: Mapping[str, Lap], yardstick: str
) -> None:
    """Prints speed and memory of those that had a process of their own."""
    unit = yardstick.replace("_", " ").removesuffix("s")
    print(f"\n{'contender':26}{'tokens per ' + unit:>24}{'memory, MiB':>14}{'ours':>7}  mean loss")
    own = {name: own_memory_bytes(laps[name], facts[name]) for name in laps}
    for name in laps:
        speed = facts[name]["tokens"] / statistics.median(lap[yardstick] for lap in laps[name])
        share = f"{own['ours'] / own[name]:.2f}" if "ours" in own else ""
        mebibytes, loss = own[name] / MEBIBYTE, laps[name][-1]["loss"]
        print(f"{name:26}{speed:24,.0f}{mebibytes:14,.0f}{share:>7}  {loss:.6f}")


def own_memory_bytes(laps: Sequence[Lap], facts: Lap) -> int:
    """Returns the peak beyond what the process held before its first lap."""
    peak: int = max(lap["peak_memory_bytes"] for lap in laps) - facts["memory_bytes_before"]
    return peak


def measure_checkpoints(setup: Setup, count: int) -> list[Lap]:
    """Returns what checkpoints of primer-1m took; nothing where the model is not there."""
    if not (SCRIPTS.parent / "studies/models/primer-1m").is_dir():
        print("checkpoints: not measured, studies/models/primer-1m is not in this checkout")
        return []
    ended = subprocess.run(
        [sys.executable, str(SCRIPTS / "bench_checkpoints.py"), tempfile.gettempdir(), str(count)],
        stdout=subprocess.PIPE,
        env=environment(setup),
        text=True,
        check=True,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def print_checkpoints(found: Sequence[Lap]) -> None:
    """Prints median, least and greatest, and the size."""
    for kind in found:
        wall = [1000 * seconds for seconds in kind["wall_seconds"]]
        cpu = [1000 * seconds for seconds in kind["cpu_seconds"]]
        print(
            f"checkpoint of primer-1m, tune {kind['tune']}: {statistics.median(wall):.1f} ms"
            f" [{min(wall):.1f}, {max(wall):.1f}] wall, {statistics.median(cpu):.1f} ms CPU,"
            f" {kind['size_bytes']:,} bytes"
        )


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round of few contenders")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every lap to FILE")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: a GPU if there is one")
    parser.add_argument("--size", choices=list(SIZES), help="default: small, on a GPU large")
    parser.add_argument("--packed", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--attention", default="sdpa", help="for all contenders")
    parser.add_argument("--rounds", type=int, help="default: 15, on a GPU 5")
    parser.add_argument("--windows", type=int, default=10, help="timed per lap; at least 8")
    parser.add_argument("--only", nargs="+", choices=[*TOGETHER, *APART[2:]], metavar="NAME")
    return parser.parse_args()


def setup_from(arguments: argparse.Namespace) -> Setup:
    """Returns what the arguments ask for, with defaults that depend on the device."""
    device = arguments.device or ("cuda" if has_gpu() else "cpu")
    is_cuda = device == "cuda"
    micro_batch, micro_batches = BATCHES[device]
    return Setup(
        device=device,
        **SIZES[arguments.size or ("large" if is_cuda else "small")],
        attention=arguments.attention,
        packed=is_cuda if arguments.packed is None else arguments.packed,
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        windows=max(arguments.windows, 8),
    )


def has_gpu() -> bool:
    """Tells whether torch finds a GPU; asked in a child, so that this process stays light."""
    code = "import torch; print(torch.cuda.is_available())"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True"


def chosen(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns the contenders for one process, and those for a process each."""
    wanted = arguments.only or (IN_A_LOOK if arguments.quick else (*TOGETHER, *APART))
    together = [name for name in TOGETHER if name in wanted]
    apart = [name for name in APART if name in wanted]
    if "TRL" in apart and importlib.util.find_spec("trl") is None:
        print("TRL: not measured, trl is not installed (pip install 'sweeper[bench]')")
        apart.remove("TRL")
    return together, apart


def main() -> int:
    """Measures and prints; returns the exit status."""
    arguments = parse_arguments()
    setup = setup_from(arguments)
    together, apart = chosen(arguments)
    is_cuda = setup.device == "cuda"
    yardstick = "wall_seconds" if is_cuda else "cpu_seconds"
    rounds = 1 if arguments.quick else arguments.rounds or (5 if is_cuda else 15)
    print(f"{platform.machine()}, {os.cpu_count()} cores; {setup}; {rounds} rounds by {yardstick}")
    costs: dict[str, list[Lap]] = {}
    others: dict[str, list[Lap]] = {}
    facts: dict[str, Lap] = {}
    if together:
        costs = measure_together(together, setup, rounds)
        print_ratios(COST_QUESTIONS, costs, yardstick)
        print_bits(costs)
    if apart:
        others, facts = measure_apart(apart, setup, rounds)
        print_ratios(TRAINER_QUESTIONS, others, yardstick)
        print_contenders(others, facts, yardstick)
    checkpoints = measure_checkpoints(setup, count=3 if arguments.quick else 15)
    print_checkpoints(checkpoints)
    if arguments.json is not None:
        content = {
            "setup": dataclasses.asdict(setup),
            "yardstick": yardstick,
            "together": costs,
            "apart": others,
            "processes": facts,
            "checkpoints": checkpoints,
        }
        arguments.json.write_text(json.dumps(content, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
