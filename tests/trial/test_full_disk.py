"""A disk without space: a small file system in memory, where this user may mount one."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from sweeper.records import CheckpointMade, Reason, decode
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.training.checkpoint import read_checkpoint
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import run

KIBIBYTE = 1024


@pytest.fixture
def small_disk(tmp_path):
    """Mounts 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount") or "mount"
    argv = [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    made = subprocess.run(argv, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system may be mounted here: {made.stderr.strip()}")
    yield place
    subprocess.run([shutil.which("umount") or "umount", "-l", str(place)], check=True)


@pytest.fixture
def crowded(small_disk, bench):
    """Makes an attempt's folder on the small disk that leaves so many bytes free.

    A file takes up whole pages of 4 KiB. What the attempt reports takes three, and the losses of
    records take one for each of two splits at the start, and two more at the end.
    """

    def make(*, free_bytes, **changes):
        folder = AttemptFolder(small_disk / "attempt")
        folder.path.mkdir()
        folder.spec.write_text(bench.spec(budget=60, **changes).to_json(), encoding="utf-8")
        filler = small_disk / "filler"
        filler.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - free_bytes))
        return folder

    return make


def test_without_room_for_a_single_fact_the_exit_status_says_so(crowded):
    folder = crowded(free_bytes=0)

    argv = [sys.executable, "-m", "sweeper.trial", str(folder.path)]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert ended.returncode == 74
    assert "No space left on device" in ended.stderr
    assert folder.events.read_bytes() == b""


@pytest.mark.usefixtures("restored_torch")
def test_weights_that_do_not_fit_end_the_attempt_as_disk_and_leave_nothing_half(crowded):
    """The adapter would take seven pages more."""
    folder = crowded(free_bytes=32 * KIBIBYTE)

    run(folder, interrupted=lambda: False)

    outcome = decode(folder.events.read_text("utf-8").splitlines()[-1]).record
    names = sorted(path.name for path in folder.path.iterdir())
    assert outcome.reason is Reason.DISK
    assert "No space left on device" in outcome.detail
    assert names == ["evaluations", "events.jsonl", "spec.json"]


@pytest.mark.usefixtures("restored_torch")
def test_a_checkpoint_that_does_not_fit_ends_the_attempt_as_disk_and_leaves_those_before(crowded):
    """A checkpoint takes 13 pages, six of them for random states: the third has no room, and the
    first would be removed only when the third is there."""
    every_window = CheckpointOptions(every=CheckpointEvery(windows=1), keep=2)
    folder = crowded(free_bytes=148 * KIBIBYTE, checkpoint=every_window)

    run(folder, interrupted=lambda: False)

    records = [decode(line).record for line in folder.events.read_text("utf-8").splitlines()]
    made = [record for record in records if isinstance(record, CheckpointMade)]
    windows = [read_checkpoint(folder.path / checkpoint.path).window for checkpoint in made]
    names = sorted(path.name for path in (folder.path / "checkpoints").iterdir())
    assert records[-1].reason is Reason.DISK
    assert windows == [1, 2]
    assert names == ["00000001", "00000002"]
