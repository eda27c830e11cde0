"""kill -9 of anything, in mid-run: nothing is lost, nothing is left, and the end is the same."""

import itertools
import json
import signal
from datetime import datetime

import psutil
import pytest

import sweeper
from sweeper.records import Update, decode

pytestmark = pytest.mark.slow

CELLS = ("baseline/0", "double/0")


@pytest.fixture(scope="module")
def expected(undisturbed):
    """The losses of the same cells when nobody disturbs them."""
    found = losses(undisturbed)
    return {cell: found[cell] for cell in CELLS}


def losses(laboratory):
    frame = sweeper.updates(laboratory.study)
    return {trial: rows["loss"].tolist() for trial, rows in frame.groupby("trial")}


def updates_of(folder):
    """Updates that the attempt in this folder has reported so far."""
    file = folder / "events.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    whole = [line for line in lines if line.endswith("}")]
    return sum(isinstance(decode(line).record, Update) for line in whole)


def in_mid_training(laboratory):
    """An attempt's child that has trained a few windows and is frozen there, or None."""
    for folder in sorted(laboratory.run_folder.glob("trials/*/attempts/*")):
        if (folder / "supervision.json").exists() or not 1 <= updates_of(folder) <= 30:
            continue
        for process in laboratory.processes():
            if str(folder) in " ".join(process.cmdline()) and "sweeper.trial" in process.cmdline():
                process.send_signal(signal.SIGSTOP)
                return process
    return None


def victim(laboratory, whom, run, *, frozen):
    child = laboratory.wait_for(lambda: in_mid_training(laboratory))
    processes = {
        "trial": child,
        "supervisor": child.parent(),
        "coordinator": psutil.Process(run.pid),
    }
    if not frozen:
        child.resume()
    return processes[whom]


def lifetimes(laboratory, cell):
    """From first to last sign of life of each attempt, by its own files, not the database's."""
    folder = laboratory.run_folder / "trials" / cell.replace("/", "-") / "attempts"
    for attempt in sorted(folder.iterdir(), key=lambda path: int(path.name)):
        lines = (attempt / "events.jsonl").read_text().splitlines()
        signs = [decode(line).at for line in lines if line.endswith("}")]
        if (attempt / "supervision.json").exists():
            seen = json.loads((attempt / "supervision.json").read_text())
            signs += [datetime.fromisoformat(seen[key]) for key in ("began_at", "ended_at")]
        yield min(signs), max(signs)


def overlap(spans):
    return any(begun < ended for (_, ended), (begun, _) in itertools.pairwise(spans))


@pytest.mark.parametrize(("second", "overlaps"), [((2, 3), False), ((1, 3), True)])
def test_two_lifetimes_overlap_when_one_begins_before_the_other_has_ended(second, overlaps):
    assert overlap([(0, 2), second]) is overlaps


@pytest.mark.parametrize(
    ("whom", "frozen", "slots"),
    [
        ("trial", True, 1),
        ("supervisor", True, 2),
        ("supervisor", False, 1),
        ("coordinator", True, 2),
        ("coordinator", False, 1),
    ],
)
def test_after_kill_minus_9_of_the(whom, frozen, slots, like_undisturbed, expected):
    """The study ends like an undisturbed one, and the killed attempt is on record.

    A frozen trial cannot notice that it is alone; one that runs on does so by itself.
    """
    study = like_undisturbed(seeds="[0]", slots=f"[{', '.join(['cpu'] * slots)}]")
    run = study.start("run", str(study.study))

    victim(study, whom, run, frozen=frozen).kill()

    if whom == "coordinator":
        run.wait(timeout=60)
        study.wait_for(lambda: not study.processes(), seconds=10)
        study.sweeper("run", str(study.study))
    else:
        assert run.wait(timeout=200) == 0, study.log.read_text()
    lost = sweeper.attempts(study.study).query("outcome == 'lost'")
    assert lost["reason"].tolist() == [{"trial": "killed"}.get(whom, "worker_lost")]
    assert sweeper.trials(study.study)["outcome"].tolist() == ["completed", "completed"]
    assert losses(study) == expected
    for cell in CELLS:
        assert not overlap(list(lifetimes(study, cell)))
    study.wait_for(lambda: not study.processes(), seconds=10)


def test_ctrl_c_ends_resumable_and_the_same_command_goes_on(like_undisturbed, expected):
    study = like_undisturbed(seeds="[0]", slots="[cpu]")
    run = study.start("run", str(study.study))
    child = study.wait_for(lambda: in_mid_training(study))

    run.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGCONT)

    assert run.wait(timeout=60) == 130
    study.wait_for(lambda: not study.processes(), seconds=10)
    assert (
        "waiting" in json.loads(study.here("status", str(study.study), "--json").stdout)["counts"]
    )
    study.sweeper("run", str(study.study))
    assert losses(study) == expected
