"""A trial whose process was killed in the middle goes on to the bit: real processes, signal 9."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.amp import GradScaler
from waiting import within

from sweeper.data.options import Packing
from sweeper.records import Evaluation, Outcome, Reason, Resumed, Skip, Update, decode
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.training.options import ScheduleOptions, TrainingOptions
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("restored_torch")]

ROWS = Packing(row_tokens=30)
BUDGET = 1200
"""Target tokens: about 55 windows of 4 records."""


@dataclass(frozen=True)
class Mode:
    name: str
    full: bool = False
    precision: str = "float32"
    scaled: bool = False
    packed: bool = False

    def spec(self, bench):
        """A checkpoint after every seventh window; the rate falls to the end."""
        training = TrainingOptions(
            learning_rate=0.003,
            schedule=ScheduleOptions(kind="cosine"),
            records_per_update=4,
            precision=self.precision,
        )
        changes = {"tune": "full", "lora": None} if self.full else {}
        return bench.spec(
            budget=BUDGET,
            packing=ROWS if self.packed else None,
            training=training,
            checkpoint=CheckpointOptions(every=CheckpointEvery(windows=7)),
            keep_best=True,
            **changes,
        )

    @property
    def argv(self):
        if self.scaled:
            return [sys.executable, str(Path(__file__).with_name("scaled_child.py"))]
        return [sys.executable, "-m", "sweeper.trial"]


MODES = [
    dataclasses.replace(mode, packed=packed, name=f"{mode.name}{'-packed' * packed}")
    for mode in (
        Mode("lora-dropout"),
        Mode("full-float32", full=True),
        Mode("bfloat16", precision="bfloat16"),
        Mode("scaled", scaled=True),
    )
    for packed in (False, True)
]


@pytest.fixture(scope="module")
def killed(bench, tmp_path_factory):
    """For each mode the folder of an attempt that was killed once it had read enough windows.

    All of them at once: they spend most of their time on loading libraries.
    """
    root = tmp_path_factory.mktemp("killed")
    draw = random.Random(20)
    running, folders = {}, {}
    for mode in MODES:
        folder = folders[mode] = AttemptFolder(root / mode.name)
        folder.path.mkdir()
        folder.spec.write_text(mode.spec(bench).to_json(), encoding="utf-8")
        argv = [*mode.argv, str(folder.path)]
        log = folder.stderr.open("wb")
        running[mode] = subprocess.Popen(argv, stderr=log), draw.randint(8, 20)
        log.close()
    try:
        _kill_each_in_time(running, folders)
    finally:
        for process, _ in running.values():
            process.kill()
            process.wait()
    return folders


def _kill_each_in_time(running, folders):
    waiting = dict(running)

    def are_killed():
        for mode, (process, windows) in list(waiting.items()):
            assert process.poll() is None, folders[mode].stderr.read_text("utf-8")
            events = folders[mode].events
            if events.exists() and events.read_bytes().count(b'"update"') >= windows:
                process.kill()
                del waiting[mode]
        return not waiting

    within(300, are_killed)


def records_of(folder):
    """Returns what an attempt reported; a kill may have cut its last line."""
    *lines, _cut = folder.events.read_bytes().split(b"\n")
    return [decode(line.decode()).record for line in lines]


def computed(records):
    timed = {"seconds": 0.0, "peak_memory_bytes": 0}
    return {
        _place(record): repr(
            dataclasses.replace(record, **{k: v for k, v in timed.items() if hasattr(record, k)})
        )
        for record in records
        if isinstance(record, Update | Evaluation)
    }


def _place(record):
    return record.window if isinstance(record, Update) else (record.split, record.index)


def files_of(folder):
    return {
        path.relative_to(folder.path): path.read_bytes()
        for weights in (folder.adapter, folder.best)
        for path in weights.rglob("*.safetensors")
    }


@pytest.fixture
def in_this_process(attempt, monkeypatch):
    """Carries an attempt out here, its random generators left anywhere; returns its folder."""

    def to_the_end(mode, spec):
        if mode.scaled:
            monkeypatch.setattr(
                "sweeper.training.scaling.make_scaler",
                lambda _precision, device: GradScaler(
                    device.type, init_scale=2.0**126, growth_interval=2
                ),
            )
        folder = attempt(spec)
        random.seed()
        np.random.seed()  # noqa: NPY002
        torch.seed()
        run(folder, interrupted=lambda: False)
        return folder

    return to_the_end


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_a_trial_that_was_killed_goes_on_to_the_same_losses_norms_and_weights(
    mode, bench, killed, in_this_process
):
    spec, first = mode.spec(bench), killed[mode]
    whole = in_this_process(mode, spec)
    again = {"attempt": 2, "resume_from": str(first.path)}
    second = in_this_process(mode, spec.model_copy(update=again))

    before, after, expected = records_of(first), records_of(second), computed(records_of(whole))
    (resumed,) = [record for record in after if isinstance(record, Resumed)]
    assert not any(isinstance(record, Outcome) for record in before)
    assert 0 < resumed.after_window < spec.planned.windows
    assert computed(before).items() <= expected.items()
    assert computed(before) | computed(after) == expected
    assert [r.window for r in after if isinstance(r, Update)] == list(
        range(resumed.after_window + 1, spec.planned.windows + 1)
    )
    assert after[-1].reason is Reason.BUDGET_REACHED
    assert files_of(second) == files_of(whole)
    assert {path.parts[0] for path in files_of(second)} == {"adapter", "best"}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_only_a_scaled_trial_overflows_and_not_always(mode, killed):
    updates = [record for record in records_of(killed[mode]) if isinstance(record, Update)]
    skips = {update.skip for update in updates}
    assert skips == ({None, Skip.SCALER_OVERFLOW} if mode.scaled else {None})


def test_a_second_process_goes_on_where_the_first_was_killed(bench, killed, in_this_process):
    """The whole road again, as a coordinator takes it."""
    mode = MODES[0]
    spec, first = mode.spec(bench), killed[mode]
    whole = in_this_process(mode, spec)
    folder = AttemptFolder(first.path.with_name("second"))
    folder.path.mkdir()
    again = spec.model_copy(update={"attempt": 2, "resume_from": str(first.path)})
    folder.spec.write_text(again.to_json(), encoding="utf-8")

    ended = subprocess.run([*mode.argv, str(folder.path)], capture_output=True, check=False)

    assert ended.returncode == 0
    assert computed(records_of(folder)).items() <= computed(records_of(whole)).items()
    assert records_of(folder)[-1].reason is Reason.BUDGET_REACHED
    assert files_of(folder) == files_of(whole)
