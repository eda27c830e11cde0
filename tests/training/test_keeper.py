"""When checkpoints are made and how many stay, through the loop."""

import math

import pytest
import torch

from sweeper.records import CheckpointMade, Phase, Reason
from sweeper.training.best import Best
from sweeper.training.checkpoint import checkpoint_folders, read_checkpoint
from sweeper.training.keeper import Keeping
from sweeper.training.options import EvaluationGrid, EvaluationOptions, SgdOptions


@pytest.fixture
def keep(build, tmp_path):
    """Runs seven windows and returns the run and the windows whose checkpoints are left."""

    def run(**changes):
        others = {name: changes.pop(name) for name in ("clock", "interrupted") if name in changes}
        keeping = Keeping(folder=tmp_path, **changes)
        windows = build.windows_of([build.costing(0)] * 7, [1] * 7)
        model = build.Bigram(torch.zeros(2, 2))
        run = build.run(model, windows, keeping=keeping, **others)
        folders = checkpoint_folders(tmp_path / "checkpoints")
        return run, [int(folder.name) for folder in folders]

    return run


def made(run):
    return [record.window for record in run.of(CheckpointMade)]


def test_checkpoints_are_made_after_so_many_windows_and_the_newest_stay(keep):
    run, left = keep(every_windows=2, keep=2)
    assert made(run) == [2, 4, 6]
    assert left == [6, 4]


def test_checkpoints_are_made_when_so_much_time_has_passed_since_the_last_one(keep):
    """A window takes four seconds: ten have passed after the third, at 12, and ten more after the
    sixth, at 24. Nothing else takes any time."""
    now = [0.0]

    def four_seconds_later():
        now[0] += 4.0
        return False

    run, _ = keep(every_seconds=10.0, clock=lambda: now[0], interrupted=four_seconds_later)
    assert made(run) == [3, 6]


def test_a_trial_that_keeps_nothing_makes_none(build, keep):
    run, left = keep()
    assert (made(run), left) == ([], [])
    windows = build.windows_of([build.costing(0)], [1])
    keeping = Keeping(folder=None, every_windows=1)
    assert made(build.run(build.Bigram(torch.zeros(2, 2)), windows, keeping=keeping)) == []


def test_checkpointing_is_a_phase_of_its_own(keep):
    run, _ = keep(every_windows=7)
    assert run.phases == [
        Phase.EVALUATING,
        Phase.TRAINING,
        Phase.CHECKPOINTING,
        Phase.TRAINING,
        Phase.EVALUATING,
        Phase.TRAINING,
    ]


def test_a_trial_that_is_asked_to_end_leaves_a_checkpoint_of_that_window(keep):
    answers = iter([False, False, True])
    run, left = keep(every_windows=2, interrupted=lambda: next(answers))
    assert run.outcome.reason is Reason.PREEMPTED
    assert made(run) == [2, 3]
    assert left == [3, 2]


def test_a_checkpoint_says_whom_it_belongs_to(keep, tmp_path):
    keep(every_windows=7, owner={"cell": "double/2"})
    found = read_checkpoint(tmp_path / "checkpoints" / "00000007")
    assert found.owner == {"cell": "double/2"}


def test_the_best_weights_outlive_the_checkpoint_that_they_were_first_in(build, tmp_path):
    """transformers PR #25136: one checkpoint is kept, the best weights were at the first evaluation
    and three are made. Training teaches 0 -> 0 and validation asks for 0 -> 1, so each update makes
    it worse: at rate 1 the first one moves row 0 from (0, 0) to (1/2, -1/2)."""
    windows = build.windows_of([build.costing(0)] * 3, [1] * 3)
    keeping = Keeping(folder=tmp_path, every_windows=1, keep=1, best=Best())
    build.run(
        build.Bigram(torch.zeros(2, 2)),
        windows,
        keeping=keeping,
        held_out=[build.held_out([build.example([0, 1])])],
        evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=1)),
        options=build.training_options(1.0, optimizer=SgdOptions(kind="sgd")),
    )
    assert [folder.name for folder in checkpoint_folders(tmp_path / "checkpoints")] == ["00000003"]
    found = read_checkpoint(tmp_path / "checkpoints" / "00000003")
    assert found.snapshot.tensors["best/table"][0].tolist() == [0.5, -0.5]
    assert found.snapshot.tensors["weights/table"][0, 0] > 0.9
    assert found.snapshot.facts["best"]["index"] == 1
    assert found.snapshot.facts["best"]["loss"] == pytest.approx(1 + math.log1p(math.exp(-1)))
