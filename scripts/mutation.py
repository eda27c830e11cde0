"""Puts ten classic faults into copies of the loop and shows that the tests catch every one.

    python scripts/mutation.py               all of them, some minutes
    python scripts/mutation.py --only rng    those whose name contains it
    python scripts/mutation.py --list        what they are

A fault is a few exact replacements in the sources. Each is put into a copy of the tree, and the
modules of tests that it concerns are run there until one test fails; before that, the same modules
have to pass on the unchanged copy. Exit 0: all caught. 1: one was not. 2: a replacement does not
fit the sources any more, or the tests fail without any fault; then nothing has been shown.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("sweeper", "tests", "pyproject.toml")

LOOP = "sweeper/training/loop.py"
SCALING = "sweeper/training/scaling.py"
SCHEDULE = "sweeper/training/schedule.py"
SNAPSHOT = "sweeper/training/snapshot.py"
BATCH = "sweeper/training/batch.py"

WINDOWS = (
    "tests/training/test_loop.py",
    "tests/training/test_reference_loop.py",
    "tests/training/test_public_bugs.py",
)
RATES = (
    "tests/training/test_schedule.py",
    "tests/training/test_loop.py",
    "tests/training/test_parity.py",
)
SCALER = ("tests/training/test_scaling.py",)
RESUME = ("tests/training/test_resume.py",)
BATCHES = ("tests/training/test_batch.py", "tests/training/test_loss.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One replacement; `old` stands in the file exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One classic mistake.

    Attributes:
        tests: The modules that have to catch it.
    """

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


class Unfit(Exception):
    """A replacement does not fit the sources, or the tests fail without any fault."""


_CALL = "_compute_gradients(tried, objective, state, ranks, probe)"
_PARAMETERS = "tried: Tried, objective: Objective, state: State, ranks: Ranks, probe: Probe\n"
_DIVISOR = "loss_sum / tried.window.target_tokens"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="mean of means",
        edits=(
            Edit(
                file=LOOP,
                old=_DIVISOR,
                new="loss_sum / (tried.batches[place].target_tokens * len(tried.batches))",
            ),
        ),
        tests=WINDOWS,
    ),
    Fault(
        name="clip before unscale",
        edits=(
            Edit(file=LOOP, old="    state.scaler.unscale_(state.optimizer)\n", new=""),
            Edit(
                file=LOOP,
                old="        scaler.step(state.optimizer)\n",
                new="        scaler.unscale_(state.optimizer)\n"
                "        scaler.step(state.optimizer)\n",
            ),
            Edit(
                file=LOOP,
                old="        tried.tensors = anatomy(tensors)\n",
                new="        scaler.unscale_(state.optimizer)\n"
                "        tried.tensors = anatomy(tensors)\n",
            ),
        ),
        tests=SCALER,
    ),
    Fault(
        name="clip per micro-batch",
        edits=(
            Edit(
                file=LOOP,
                old=_CALL,
                new=_CALL.replace("probe)", "probe, course.options.clip_norm)"),
            ),
            Edit(
                file=LOOP,
                old=_PARAMETERS,
                new=_PARAMETERS.replace("Probe\n", "Probe, clip_norm: float | None\n"),
            ),
            Edit(
                file=LOOP,
                old="        sums[place] = loss_sum.detach()\n",
                new="        sums[place] = loss_sum.detach()\n"
                "        clip_gradients(state.tensors, gradient_norm(state.tensors), clip_norm)\n",
            ),
        ),
        tests=WINDOWS,
    ),
    Fault(
        name="rate off by one",
        edits=(
            Edit(
                file=SCHEDULE,
                old="    if count <= warmup:\n",
                new="    count -= 1\n    if count < warmup:\n",
            ),
        ),
        tests=RATES,
    ),
    Fault(
        name="scheduler on skipped windows",
        edits=(
            Edit(file=LOOP, old="updates=before.updates + 1,", new="updates=before.windows + 1,"),
        ),
        tests=RATES,
    ),
    Fault(
        name="scaler not updated",
        edits=(
            Edit(
                file=SCALING,
                old="    scaler.update()\n",
                new="    if ran:\n        scaler.update()\n",
            ),
        ),
        tests=SCALER,
    ),
    Fault(
        name="partial window / full A",
        edits=(
            Edit(
                file=LOOP,
                old="    for window in windows:\n",
                new="    full = 0\n    for window in windows:\n",
            ),
            Edit(
                file=LOOP,
                old=f"            {_CALL}\n",
                new="            full = max(full, len(tried.batches))\n"
                f"            {_CALL.replace('probe)', 'probe, full)')}\n",
            ),
            Edit(
                file=LOOP, old=_PARAMETERS, new=_PARAMETERS.replace("Probe\n", "Probe, full: int\n")
            ),
            Edit(file=LOOP, old=_DIVISOR, new=f"{_DIVISOR} * (len(tried.batches) / full)"),
        ),
        tests=WINDOWS,
    ),
    Fault(
        name="RNG not restored",
        edits=(
            Edit(
                file=SNAPSHOT,
                old="        set_random_states(states[ranks.rank], device)",
                new="        assert states[ranks.rank]",
            ),
        ),
        tests=RESUME,
    ),
    Fault(
        name="optimizer not restored",
        edits=(
            Edit(file=SNAPSHOT, old="    _load_optimizer(snapshot, state.optimizer)\n", new=""),
        ),
        tests=RESUME,
    ),
    Fault(
        name="pad id masked",
        edits=(
            Edit(
                file=BATCH,
                old="supervised[row, :length] = example.supervised\n",
                new="supervised[row, :length] = example.supervised"
                " & (example.token_ids != pad_token_id)\n",
            ),
        ),
        tests=BATCHES,
    ),
)


def mutate(root: Path, fault: Fault) -> dict[str, str]:
    """Returns the files that the fault changes, as they are with it, by path.

    Raises:
        Unfit: A replacement does not apply exactly once.
    """
    texts: dict[str, str] = {}
    for edit in fault.edits:
        text = texts.get(edit.file) or (root / edit.file).read_text("utf-8")
        found = text.count(edit.old)
        if found != 1:
            raise Unfit(
                f"{fault.name}: in {edit.file} this stands {found} times, not once:\n{edit.old}"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def copy_tree(target: Path) -> None:
    """Copies what the tests need."""
    ignored = shutil.ignore_patterns("__pycache__", "runs", ".*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy2(source, target / name)


def run_tests(tree: Path, modules: Sequence[str]) -> tuple[bool, str]:
    """Runs the modules in the tree until a test fails.

    Returns:
        Whether a test failed, and which; the output's end where there is no failing test to name.

    Raises:
        Unfit: A module is missing, or no test was run.
    """
    for module in modules:
        if not (tree / module).is_file():
            raise Unfit(f"there is no {module}")
    options = ["-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--no-header"]
    ended = _python(tree, ["-m", "pytest", *options, *modules])
    if ended.returncode == 0:
        return False, ""
    if ended.returncode != 1:
        raise Unfit(f"pytest ended with {ended.returncode}:\n{ended.stdout[-2000:]}")
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", ended.stdout, re.MULTILINE)
    return True, named.group(1) if named else ended.stdout[-500:]


def check_tree(tree: Path) -> None:
    """Makes sure that a Python started in the tree imports the tree's sweeper and no other.

    Raises:
        Unfit: It imports another one.
    """
    found = _python(tree, ["-c", "import sweeper; print(sweeper.__file__)"]).stdout.strip()
    if Path(found).resolve().parent != (tree / "sweeper").resolve():
        raise Unfit(f"a copy of the tree would be tested with {found}")


def _python(tree: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def prove(faults: Sequence[Fault], tree: Path) -> list[Fault]:
    """Puts each fault into the tree in turn, prints what came of it, and returns the uncaught.

    Raises:
        Unfit: See the head of this file.
    """
    mutated = {fault.name: mutate(tree, fault) for fault in faults}
    check_tree(tree)
    modules = list(dict.fromkeys(module for fault in faults for module in fault.tests))
    failed, test = run_tests(tree, modules)
    if failed:
        raise Unfit(f"without any fault this fails: {test}")
    print(f"without a fault: {len(modules)} modules pass", flush=True)
    uncaught = []
    for fault in faults:
        began = time.monotonic()
        failed, test = _tried(tree, fault, mutated[fault.name])
        verdict = f"caught by {test}" if failed else "NOT CAUGHT"
        print(f"{fault.name}: {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
        if not failed:
            uncaught.append(fault)
    return uncaught


def _tried(tree: Path, fault: Fault, texts: dict[str, str]) -> tuple[bool, str]:
    originals = {file: (tree / file).read_text("utf-8") for file in texts}
    for file, text in texts.items():
        (tree / file).write_text(text, "utf-8")
    try:
        return run_tests(tree, fault.tests)
    finally:
        for file, text in originals.items():
            (tree / file).write_text(text, "utf-8")


def main() -> int:
    """Reads the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--list", action="store_true", help="say what the faults are, and end")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if arguments.only.lower() in fault.name.lower()]
    if arguments.list:
        print("\n".join(f"{fault.name}: {', '.join(fault.tests)}" for fault in faults))
        return 0
    try:
        with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
            copy_tree(Path(folder))
            uncaught = prove(faults, Path(folder))
    except Unfit as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(faults) - len(uncaught)} of {len(faults)} faults are caught")
    return 1 if uncaught else 0


if __name__ == "__main__":
    sys.exit(main())
