"""Real attempts of a tiny model, replayed in this process from what they left."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sweeper.data.options import Packing
from sweeper.data.prepared import PreparedSplit
from sweeper.errors import ModelError, NotFound, PlanError
from sweeper.records import Update, decode, encode
from sweeper.study.run_options import CheckpointEvery, CheckpointOptions
from sweeper.training.checkpoint import read_checkpoint, write_checkpoint
from sweeper.training.options import (
    EvaluationGrid,
    EvaluationOptions,
    ModelOptions,
    ScheduleOptions,
    TrainingOptions,
)
from sweeper.trial.folder import AttemptFolder
from sweeper.trial.main import run
from sweeper.trial.replay.folder import ReplayFolder
from sweeper.trial.replay.replaying import replay
from sweeper.trial.replay.report import ReplayReport, Verdict
from sweeper.trial.replay.request import (
    OtherPrecision,
    OtherRate,
    ReplayRequest,
    WithoutRecord,
)
from sweeper.trial.resuming import owner_of
from sweeper.trial.windows import held_out_sets, stream_of, training_windows

pytestmark = pytest.mark.usefixtures("restored_torch")

EVERY_THIRD = CheckpointOptions(every=CheckpointEvery(windows=3), keep=2)
WILD = TrainingOptions(
    learning_rate=1.0, schedule=ScheduleOptions(kind="constant"), records_per_update=4
)


@pytest.fixture
def carried_out(attempt, carry_out_in):
    """Runs an attempt to its end, or until it is asked to end after so many windows."""

    def to_its_end(spec, *, until=None) -> AttemptFolder:
        folder = attempt(spec)
        carry_out_in(folder, spec, until)
        return folder

    return to_its_end


@pytest.fixture
def replayed(bench, tmp_path):
    """Replays an attempt, with torch's random state left anywhere."""

    def again(folder, *, prepared=bench.prepared, **asked) -> ReplayReport:
        place = ReplayFolder(tmp_path / f"replay-{len(list(tmp_path.glob('replay-*')))}")
        place.path.mkdir()
        torch.seed()
        request = ReplayRequest(attempt=str(folder.path), prepared=str(prepared), **asked)
        return replay(request, place, tell=lambda _line: None)

    return again


def windows_of(spec):
    split = PreparedSplit.open(Path(spec.prepared), "train")
    return list(training_windows(split, stream_of(spec, split)))


def tree(folder):
    """Returns the digest of every file, by its name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def change_lines(folder, change):
    """Rewrites the events: each update as `change` returns it."""
    events = [decode(line) for line in folder.events.read_text("utf-8").splitlines()]
    changed = [
        dataclasses.replace(event, record=change(event.record))
        if isinstance(event.record, Update)
        else event
        for event in events
    ]
    folder.events.write_text("".join(encode(event) + "\n" for event in changed), "utf-8")


# --- a trial that nothing went wrong with -------------------------------------------------------


def test_a_completed_trial_with_dropout_reproduces_from_its_checkpoint_to_the_bit(
    bench, carried_out, replayed
):
    spec = bench.spec(checkpoint=EVERY_THIRD)
    last = spec.planned.windows

    report = replayed(carried_out(spec))

    assert report.verdict is Verdict.IDENTICAL
    assert report.first_window == (last - 1) // 3 * 3 + 1
    assert [pair.window for pair in report.windows] == list(range(report.first_window, last + 1))
    assert all(pair.is_equal for pair in report.windows)
    assert [(e.split, e.window, e.is_equal) for e in report.evaluations][-2:] == [
        ("validation", last, True),
        ("retention", last, True),
    ]
    assert (report.is_exact, report.first_difference, report.notices) == (True, None, ())


def test_without_a_checkpoint_it_begins_at_the_beginning(bench, carried_out, replayed):
    spec = bench.spec(budget=100)

    report = replayed(carried_out(spec))

    assert (report.checkpoint, report.first_window) == (None, 1)
    assert report.verdict is Verdict.IDENTICAL
    assert len(report.evaluations) == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"packing": Packing(row_tokens=26)},
        {"tune": "full", "lora": None},
        {"ranks": 1, "keep_best": True},
        {
            "training": WILD.model_copy(
                update={"learning_rate": 0.01, "gradient_checkpointing": True}
            )
        },
    ],
    ids=["packed", "full", "best kept", "activations recomputed"],
)
def test_every_kind_of_trial_reproduces(bench, carried_out, replayed, changes):
    report = replayed(carried_out(bench.spec(budget=150, checkpoint=EVERY_THIRD, **changes)))

    assert report.verdict is Verdict.IDENTICAL
    assert report.is_exact


def test_windows_that_no_checkpoint_is_early_enough_for_are_replayed_from_further_back(
    bench, carried_out, replayed
):
    """Checkpoints after the last two multiples of three are left."""
    spec = bench.spec(checkpoint=EVERY_THIRD)
    newest = (spec.planned.windows - 1) // 3 * 3
    folder = carried_out(spec)

    report = replayed(folder, windows=spec.planned.windows - newest + 1)

    assert report.first_window == newest - 3 + 1
    (notice,) = report.notices
    assert notice == (
        f"no checkpoint is left between window {newest - 3} and window {newest - 1}, so the"
        f" replay begins after window {newest - 3}"
    )


def test_more_windows_than_there_are_mean_all_of_them(bench, carried_out, replayed):
    report = replayed(carried_out(bench.spec(budget=100, checkpoint=EVERY_THIRD)), windows=999)

    assert (report.first_window, report.checkpoint) == (1, None)
    assert report.notices == ()


def test_the_attempt_s_own_folder_is_not_touched(bench, carried_out, replayed):
    folder = carried_out(bench.spec(budget=100, checkpoint=EVERY_THIRD))
    before = tree(folder.path)

    replayed(folder, windows=99)

    assert tree(folder.path) == before


def test_one_bit_of_one_recorded_loss_is_found(bench, carried_out, replayed):
    folder = carried_out(bench.spec(budget=100))
    change_lines(
        folder,
        lambda update: (
            dataclasses.replace(update, loss=update.loss * (1 + 2**-52))
            if update.window == 3
            else update
        ),
    )

    report = replayed(folder)

    assert report.verdict is Verdict.DIFFERENT
    assert (report.first_difference.place, report.first_difference.fact) == ("window 3", "loss")
    assert [pair.window for pair in report.windows if not pair.is_equal] == [3]


def test_a_trial_that_was_ended_from_outside_is_replayed_as_far_as_it_came(
    bench, carried_out, replayed
):
    folder = carried_out(bench.spec(), until=4)

    report = replayed(folder)

    assert [pair.window for pair in report.windows] == [1, 2, 3, 4]
    assert (report.verdict, report.recorded) == (Verdict.IDENTICAL, None)
    assert report.last_window < report.planned_windows


def test_a_trial_in_two_attempts_is_replayed_across_both(bench, carried_out, replayed):
    """The first is asked to end after window 4 and leaves a checkpoint there."""
    first = carried_out(bench.spec(budget=150), until=4)
    second = carried_out(bench.spec(budget=150, attempt=2, resume_from=str(first.path)))

    from_the_checkpoint, from_the_start = replayed(second), replayed(second, windows=99)

    assert from_the_checkpoint.checkpoint == str(first.path / "checkpoints" / "00000004")
    assert from_the_checkpoint.first_window == 5
    assert from_the_start.first_window == 1
    assert from_the_checkpoint.verdict is Verdict.IDENTICAL
    assert from_the_start.verdict is Verdict.IDENTICAL


def test_a_damaged_checkpoint_is_passed_over(bench, carried_out, replayed):
    spec = bench.spec(checkpoint=EVERY_THIRD)
    folder = carried_out(spec)
    newest = max((folder.path / "checkpoints").iterdir())
    (newest / "state.json").write_text("{}", encoding="utf-8")

    report = replayed(folder)

    assert report.first_window == int(newest.name) - 3 + 1
    assert f"the checkpoint {newest} is passed over" in report.notices[0]
    assert report.verdict is Verdict.IDENTICAL


def test_a_checkpoint_of_weights_that_are_not_finite_is_passed_over(bench, carried_out, replayed):
    spec = bench.spec(checkpoint=EVERY_THIRD)
    folder = carried_out(spec)
    root = folder.path / "checkpoints"
    newest = read_checkpoint(max(root.iterdir()))
    name = next(name for name in newest.snapshot.tensors if name.startswith("weights/"))
    spoiled = torch.full_like(newest.snapshot.tensors[name], float("nan"))
    tensors = {**newest.snapshot.tensors, name: spoiled}
    snapshot = dataclasses.replace(newest.snapshot, tensors=tensors)
    write_checkpoint(root, snapshot, owner=owner_of(spec))

    report = replayed(folder)

    assert report.first_window == newest.window - 3 + 1
    assert "values that are not finite are in 1 of its tensors" in report.notices[0]
    assert report.verdict is Verdict.IDENTICAL


# --- a trial that diverged ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def diverged(bench, tmp_path_factory):
    """The whole model at a rate a thousand times too high, stopped after two bad evaluations."""
    folder = AttemptFolder(tmp_path_factory.mktemp("diverged") / "1")
    folder.path.mkdir()
    spec = bench.spec(
        budget=1500,
        training=WILD,
        tune="full",
        lora=None,
        checkpoint=CheckpointOptions(every=CheckpointEvery(windows=1)),
    )
    folder.spec.write_text(spec.to_json(), encoding="utf-8")
    run(folder, interrupted=lambda: False)
    return folder


def test_a_divergence_is_replayed_from_before_it_began_and_reproduces(diverged, replayed):
    """Checkpoints of the last two windows are there, but by then it had gone wrong."""
    report = replayed(diverged)

    assert report.verdict is Verdict.REPRODUCED
    assert report.first_window == 1
    assert report.replayed == report.recorded
    assert report.recorded.reason == "diverged"
    assert report.first_difference is None
    assert report.notices == ()


def test_it_says_which_micro_batch_and_tensor_stand_out_where_nothing_is_nonfinite(
    diverged, replayed
):
    report = replayed(diverged)

    steepest = report.steepest
    assert report.nonfinite == ()
    assert steepest.window == report.last_window
    assert steepest.micro_batch in {1, 2}
    assert len(steepest.records) == 2
    assert 0 < steepest.share <= 1


def test_a_trial_that_was_stopped_after_it_had_gone_on_from_another_attempt(
    bench, carried_out, replayed
):
    """The second attempt made no checkpoint of its own; its evidence names the first one's."""
    settings = {"budget": 1500, "training": WILD, "tune": "full", "lora": None}
    first = carried_out(bench.spec(**settings), until=1)
    second = carried_out(bench.spec(**settings, attempt=2, resume_from=str(first.path)))

    report = replayed(second)

    anomaly = json.loads((second.path / "evidence" / "anomaly.json").read_text("utf-8"))
    assert anomaly["checkpoint"]["path"] == str(first.path / "checkpoints" / "00000001")
    assert anomaly["checkpoint"]["window"] == 1
    assert (report.verdict, report.first_window) == (Verdict.REPRODUCED, 1)
    assert report.first_difference is None


def test_with_a_rate_that_is_sound_it_does_not_reproduce(diverged, replayed):
    report = replayed(diverged, change=OtherRate(value=0.001))

    assert report.verdict is Verdict.NOT_REPRODUCED
    assert (report.change.key, report.change.was, report.change.now) == (
        "training.learning_rate",
        "1.0",
        "0.001",
    )
    assert (report.replayed, report.is_exact) == (None, False)
    assert report.windows[-1].window == report.last_window
    assert (report.first_difference.place, report.first_difference.fact) == (
        "window 1",
        "learning_rate",
    )


def test_its_last_window_alone_is_replayed_from_the_checkpoint_before_it(diverged, replayed):
    report = replayed(diverged, windows=1)

    assert [pair.window for pair in report.windows] == [report.last_window]
    assert report.verdict is Verdict.REPRODUCED


def test_another_precision_computes_with_it(diverged, replayed):
    report = replayed(diverged, change=OtherPrecision(value="bfloat16"), windows=1)

    assert (report.change.was, report.change.now) == ("float32", "bfloat16")
    assert report.first_difference.fact == "loss"
    assert report.notices == ()


@pytest.mark.parametrize("change", [OtherRate(value=1.0), OtherPrecision(value="float32")])
def test_a_change_that_changes_nothing_is_refused(diverged, replayed, change):
    with pytest.raises(PlanError, match="nothing would be changed"):
        replayed(diverged, change=change)


def test_a_precision_that_the_device_lacks_is_refused(diverged, replayed):
    with pytest.raises(ModelError, match="float16 is for GPUs"):
        replayed(diverged, change=OtherPrecision(value="float16"))


def test_data_that_are_not_those_of_the_plan_are_refused(diverged, replayed, bench, tmp_path):
    prepared = tmp_path / "prepared"
    shutil.copytree(bench.prepared, prepared)
    shutil.rmtree(prepared / "train")
    shutil.copytree(prepared / "validation", prepared / "train")

    with pytest.raises(PlanError, match="the prepared data do not give the plan"):
        replayed(diverged, prepared=prepared)


def test_an_attempt_without_a_window_is_refused(bench, attempt, replayed):
    with pytest.raises(PlanError, match="there is nothing to replay"):
        replayed(attempt(bench.spec()))


# --- a planted infinity -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted(bench, tmp_path_factory):
    """The embedding of a token is infinite that one record of a later window holds, and no other
    record up to there; nor do the held-out ones that are scored.
    """
    place = tmp_path_factory.mktemp("planted")
    scored = held_out_sets(bench.prepared, max_records=1)
    token = lonely_token(windows_of(bench.spec(budget=400)), scored)
    shutil.copytree(bench.model, place / "model")
    file = place / "model" / "model.safetensors"
    tensors = load_file(file)
    tensors["model.embed_tokens.weight"][token] = float("inf")
    save_file(tensors, file, metadata={"format": "pt"})
    spec = bench.spec(
        budget=400,
        model=ModelOptions(path=str(place / "model")),
        evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=100), max_records=1),
        checkpoint=CheckpointOptions(every=CheckpointEvery(windows=1)),
    )
    folder = AttemptFolder(place / "1")
    folder.path.mkdir()
    folder.spec.write_text(spec.to_json(), encoding="utf-8")
    run(folder, interrupted=lambda: False)
    return folder, spec, token


def lonely_token(windows, held_out):
    """Returns a token that comes in window 3 or later first, there in one record only."""
    seen = {int(t) for split in held_out for example in split.examples for t in example.token_ids}
    for window in windows:
        inside = [set(example.token_ids.tolist()) for example in window.examples]
        found = [t for tokens in inside for t in sorted(tokens - seen)]
        once = [t for t in found if found.count(t) == 1 and t > 3]
        if window.index > 2 and once:
            return once[0]
        seen |= set(found)
    raise AssertionError("every token is everywhere")


def place_of(token, spec):
    """Returns the window, the micro-batch of two and the record that first hold the token."""
    return next(
        (window.index, 1 + row // 2, example)
        for window in windows_of(spec)
        for row, example in enumerate(window.examples)
        if token in example.token_ids
    )


def test_window_micro_batch_and_module_are_the_planted_ones(planted, replayed):
    folder, spec, token = planted
    window, micro_batch, example = place_of(token, spec)

    report = replayed(folder)

    (first,) = report.nonfinite
    assert report.verdict is Verdict.REPRODUCED
    assert (report.recorded.window, report.first_window) == (window, window)
    assert (first.window, first.micro_batch) == (window, micro_batch)
    assert first.module == "base_model.model.model.embed_tokens"
    assert example.documents[0].record in first.records
    assert first.gradient is not None
    assert first.weight is None


def test_without_the_record_that_holds_it_the_window_is_sound(planted, replayed):
    folder, spec, token = planted
    window, _, example = place_of(token, spec)
    (record,) = example.documents

    report = replayed(folder, change=WithoutRecord(record=record.digest[:16]), windows=2)

    assert report.verdict is Verdict.NOT_REPRODUCED
    assert report.nonfinite == ()
    assert report.windows[0].is_equal
    assert not report.windows[1].is_equal
    assert isinstance(report.windows[1].replayed_loss, float)
    assert report.change.was == (
        f"record {record.record} ({record.digest[:12]}) in window {window}"
    )
    assert report.change.now == f"left out, with its {example.target_tokens} target tokens"


def test_a_record_of_an_earlier_window_is_refused_until_that_is_replayed_too(planted, replayed):
    folder, spec, _ = planted
    early = str(windows_of(spec)[0].documents[0].record)

    with pytest.raises(NotFound, match="no replayed window reads this record"):
        replayed(folder, change=WithoutRecord(record=early))

    report = replayed(folder, change=WithoutRecord(record=early), windows=99)
    assert report.verdict is Verdict.REPRODUCED
    assert not report.windows[0].is_equal


def test_a_record_left_out_of_a_completed_trial_still_ends_with_its_evaluation(
    bench, carried_out, replayed
):
    spec = bench.spec(budget=100)
    last = windows_of(spec)[-1]

    report = replayed(carried_out(spec), change=WithoutRecord(record=str(last.documents[0].record)))

    assert report.verdict is Verdict.DIFFERENT
    assert report.evaluations[-1].window == spec.planned.windows


def test_where_a_micro_batch_falls_away_or_the_schedule_counts_targets_it_is_said(
    bench, carried_out, replayed
):
    training = TrainingOptions(
        learning_rate=0.01,
        schedule=ScheduleOptions(kind="linear", counter="target_tokens"),
        records_per_update=4,
    )
    spec = bench.spec(budget=100, micro_batch=1, training=training)
    record = windows_of(spec)[0].documents[0].record

    report = replayed(carried_out(spec), change=WithoutRecord(record=str(record)))

    assert [notice.partition(",")[0].partition(":")[0] for notice in report.notices[1:]] == [
        "the schedule counts target tokens",
        "the record had a micro-batch to itself",
    ]


# --- what cannot be equal to the bit ------------------------------------------------------------


def test_a_trial_of_two_ranks_is_replayed_by_one_and_says_so(bench, carried_out, replayed):
    """The record of one rank, told as that of two."""
    folder = carried_out(bench.spec(budget=100))
    spec = bench.spec(budget=100, ranks=2)
    folder.spec.write_text(spec.to_json(), encoding="utf-8")

    report = replayed(folder)

    assert not report.is_exact
    assert report.notices[-1].startswith("the trial ran on 2 ranks and the replay runs on one")


def test_another_environment_is_named_field_by_field(bench, carried_out, replayed):
    folder = carried_out(bench.spec(budget=100))
    text = folder.events.read_text("utf-8")
    assert text.count(f'"torch": "{torch.__version__}"') == 1
    changed = text.replace(f'"torch": "{torch.__version__}"', '"torch": "1.0"')
    folder.events.write_text(changed, encoding="utf-8")

    report = replayed(folder)

    assert report.notices[1:] == (f"torch was 1.0, now {torch.__version__}",)
    assert not report.is_exact


def test_the_report_comes_back_from_its_file(diverged, replayed, tmp_path):
    report = replayed(diverged, windows=1)
    file = tmp_path / "report.json"
    file.write_text(report.to_json(), encoding="utf-8")

    assert ReplayReport.read(file) == report
