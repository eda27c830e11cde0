"""What a stop condition leaves: planted anomalies whose every fact is known by hand."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.amp import GradScaler

from sweeper.records import Artifact, Notice, Reason, Resumed, Stop
from sweeper.training.anatomy import anatomy
from sweeper.training.evidence import LastCheckpoint, last_checkpoint
from sweeper.training.folder_digest import folder_digest
from sweeper.training.keeper import Keeping
from sweeper.training.options import EvaluationGrid, EvaluationOptions, SgdOptions
from sweeper.training.stopping import Diverged, Nonfinite, NoUpdates, Stalled, StopOptions

SGD = SgdOptions(kind="sgd")
E = math.e


class TwoTables(nn.Module):
    """Logits are the sum of two tables' rows; token k + 1 after token k costs what both make it."""

    def __init__(self, size=4):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(size, size))
        self.second = nn.Parameter(torch.zeros(size, size))

    def forward(self, input_ids, attention_mask, use_cache):
        return SimpleNamespace(logits=self.first[input_ids] + self.second[input_ids])


@pytest.fixture
def evidence(build, tmp_path):
    """Runs windows to their stop; returns the anomaly, the tokens and the run."""

    def to_the_stop(model, windows, *, keeping=None, **changes):
        settings = {"options": build.training_options(0.1, optimizer=SGD)}
        keeping = keeping or Keeping(folder=tmp_path)
        run = build.run(model, windows, keeping=keeping, **settings | changes)
        folder = tmp_path / "evidence"
        return SimpleNamespace(
            anomaly=json.loads((folder / "anomaly.json").read_text("utf-8")),
            tokens=load_file(folder / "tokens.safetensors"),
            run=run,
            folder=folder,
        )

    return to_the_stop


def spoiled(windows, before, spoil):
    """Yields the windows; does the damage just before one of them is read."""
    for window in windows:
        if window.index == before:
            spoil()
        yield window


# --- a weight that becomes infinite -------------------------------------------------------------


@pytest.fixture
def infinite(build, evidence):
    """Row 2 of the second table is infinite from window 3 on; its micro-batch 2 reads token 2."""
    model = TwoTables()
    harmless = build.example([0, 1])
    records = [harmless] * 6 + [harmless, harmless, build.example([0, 1, 1]), build.example([2, 3])]
    windows = build.windows_of(records, [3, 3, 4])

    def spoil():
        model.second.data[2] = math.inf

    return evidence(
        model, spoiled(windows, 3, spoil), planned=build.planned(windows), micro_batch=2
    )


def test_the_micro_batch_and_the_tensors_that_are_not_finite_are_the_planted_ones(infinite):
    """Row 2 of the logits is infinite, so its loss and both tables' gradients there are NaN."""
    anomaly = infinite.anomaly

    assert (anomaly["window"], anomaly["loss"], anomaly["gradient_norm"]) == (3, "nan", "nan")
    assert anomaly["skip"] == "nonfinite_loss"
    assert anomaly["first_nonfinite"] == {
        "micro_batch": 2,
        "gradient": "first",
        "weight": "second",
    }
    counts = [
        (t["name"], t["nonfinite_weights"], t["nonfinite_gradients"]) for t in anomaly["tensors"]
    ]
    assert counts == [("first", 0, 4), ("second", 4, 4)]


def test_the_losses_of_micro_batches_show_which_one_is_sound(infinite):
    """Two updates have moved token 0's row; token 1 after it costs less than ln 4."""
    first, second = infinite.anomaly["micro_batches"]

    assert 0 < first < 2 * math.log(4)
    assert second == "nan"


def test_every_tensor_has_its_norms(infinite):
    first, second = infinite.anomaly["tensors"]

    assert isinstance(first["weight_norm"], float)
    assert second["weight_norm"] == "inf"
    assert (first["gradient_norm"], second["gradient_norm"]) == ("nan", "nan")


def test_the_stop_and_its_sentence_are_in_it(infinite):
    (stop,) = infinite.run.of(Stop)

    assert infinite.anomaly["stop"]["reason"] == "nonfinite_loss"
    assert infinite.anomaly["stop"]["detail"] == stop.detail
    assert infinite.anomaly["stop"]["last_finite_loss"] == stop.last_finite_loss


def test_the_records_of_the_window_are_named_with_their_targets(infinite, build):
    records = infinite.anomaly["records"]

    wanted = [build.example(tokens) for tokens in ([0, 1], [0, 1], [0, 1, 1], [2, 3])]
    assert [r["digest"] for r in records] == [e.documents[0].digest for e in wanted]
    assert [(r["row"], r["tokens"], r["target_tokens"]) for r in records] == [
        (1, 2, 1),
        (2, 2, 1),
        (3, 3, 2),
        (4, 2, 1),
    ]
    assert infinite.anomaly["first_record"] == 6


def test_the_tokens_are_what_the_model_was_given(infinite):
    tokens = {name: tensor.tolist() for name, tensor in infinite.tokens.items()}

    assert tokens == {
        "token_ids/000000": [0, 1],
        "token_ids/000001": [0, 1],
        "token_ids/000002": [0, 1, 1],
        "token_ids/000003": [2, 3],
        "supervised/000000": [False, True],
        "supervised/000001": [False, True],
        "supervised/000002": [False, True, True],
        "supervised/000003": [False, True],
    }


def test_the_event_names_the_folder_and_its_digest(infinite):
    (artifact,) = infinite.run.of(Artifact)

    assert artifact == Artifact(
        kind="evidence", path="evidence", sha256=folder_digest(infinite.folder)
    )


def test_without_loss_scaling_its_state_is_empty(infinite):
    assert infinite.anomaly["scaler"] == {}
    assert infinite.anomaly["loss_scale"] is None


# --- a window whose update ran ------------------------------------------------------------------


def test_a_spike_shows_the_gradients_of_its_update(build, evidence):
    """Token 0 after itself costs 1 nat, so its probability is 1/e.

    Logits are 4 times the table, so training on token 1 has the gradient 4 (1/e, -1/e). At rate 1
    that raises the cost of token 0 to log(1 + (e - 1) exp(32/e)), far more than one nat above the
    initial one. The norm is not clipped.
    """
    model = build.Bigram(build.table_with_losses([1.0]) / 4, scale=4)
    windows = build.windows_of([build.example([0, 1])] * 3, [1, 1, 1])

    found = evidence(
        model,
        windows,
        options=build.training_options(1, optimizer=SGD, clip_norm=9),
        held_out=[build.held_out([build.costing(0)])],
        evaluation=EvaluationOptions(every=EvaluationGrid(target_tokens=1)),
        stop=StopOptions(diverged=Diverged(evaluations=1)),
    )

    (table,) = found.anomaly["tensors"]
    assert found.anomaly["stop"]["reason"] == "diverged"
    assert found.run.evaluations[-1].loss == pytest.approx(math.log1p((E - 1) * math.exp(32 / E)))
    assert (found.anomaly["window"], found.anomaly["skip"]) == (1, None)
    assert table["gradient_norm"] == pytest.approx(4 * math.sqrt(2) / E, rel=1e-12)
    assert found.anomaly["gradient_norm"] == pytest.approx(4 * math.sqrt(2) / E, rel=1e-12)
    assert found.anomaly["first_nonfinite"] == {
        "micro_batch": None,
        "gradient": None,
        "weight": None,
    }


def test_a_clipped_window_says_so_and_shows_the_gradients_as_they_were_used(build, evidence):
    """The norm sqrt(2)/e = 0.52 is clipped to 0.1; torch divides by the norm plus 1e-6."""
    model = build.Bigram(build.table_with_losses([1.0]) + 1)
    windows = build.windows_of([build.example([0, 1])] * 3, [1, 1, 1])

    found = evidence(
        model,
        windows,
        options=build.training_options(1e-30, optimizer=SGD, clip_norm=0.1),
        stop=StopOptions(stalled=Stalled(updates=1)),
    )

    norm = math.sqrt(2) / E
    (table,) = found.anomaly["tensors"]
    assert found.anomaly["clipped"] is True
    assert found.anomaly["gradient_norm"] == pytest.approx(norm, rel=1e-12)
    assert table["gradient_norm"] == pytest.approx(0.1 * norm / (norm + 1e-6), rel=1e-12)


def test_a_stalled_run_shows_weights_rate_and_gradient_of_its_last_window(build, evidence):
    """The table is (1, 1 + log(e - 1)) in one row and (1, -9999) in the other; zeros would move."""
    model = build.Bigram(build.table_with_losses([1.0]) + 1)
    windows = build.windows_of([build.costing(0)] * 5, [1] * 5)

    found = evidence(
        model,
        windows,
        options=build.training_options(1e-30, optimizer=SGD),
        stop=StopOptions(stalled=Stalled(updates=3)),
    )

    (table,) = found.anomaly["tensors"]
    assert (found.anomaly["window"], found.anomaly["stop"]["reason"]) == (3, "stalled_updates")
    assert found.anomaly["learning_rate"] == 1e-30
    assert table["weight_norm"] == pytest.approx(
        math.hypot(1, 1 + math.log(E - 1), 1, -9999), rel=1e-12
    )
    assert table["gradient_norm"] == pytest.approx(math.sqrt(2) * (1 - 1 / E), rel=1e-12)


def test_a_window_without_targets_has_no_gradient_though_the_one_before_had(build, evidence):
    model = build.Bigram(build.table_with_losses([1.0]))
    windows = build.windows_of([build.costing(0), build.example([0, 0], targets=[])], [1, 1])

    found = evidence(model, windows, stop=StopOptions(no_updates=NoUpdates(windows=1)))

    (table,) = found.anomaly["tensors"]
    assert (found.anomaly["window"], found.anomaly["skip"]) == (2, "no_targets")
    assert (table["gradient_norm"], found.anomaly["gradient_norm"]) == (None, None)
    assert found.anomaly["micro_batches"] == []


def test_a_stop_at_the_last_evaluation_has_the_last_window(build, evidence):
    model = build.Bigram(build.table_with_losses([1.0]) / 4, scale=4)
    windows = build.windows_of([build.example([0, 1])] * 2, [1, 1])

    found = evidence(
        model,
        windows,
        options=build.training_options(1, optimizer=SGD),
        held_out=[build.held_out([build.costing(0)])],
        stop=StopOptions(diverged=Diverged(evaluations=1)),
    )

    assert found.anomaly["stop"]["reason"] == "diverged"
    assert found.anomaly["window"] == 2
    assert found.tokens["token_ids/000000"].tolist() == [0, 1]


def test_a_stop_before_the_first_window_names_no_window(build, tmp_path):
    model = build.Bigram(torch.full((2, 2), math.nan))
    windows = build.windows_of([build.costing(0)], [1])

    build.run(
        model,
        windows,
        held_out=[build.held_out([build.costing(0)])],
        keeping=Keeping(folder=tmp_path),
    )

    anomaly = json.loads((tmp_path / "evidence" / "anomaly.json").read_text("utf-8"))
    assert anomaly["stop"]["reason"] == "nonfinite_parameter"
    assert "window" not in anomaly
    assert not (tmp_path / "evidence" / "tokens.safetensors").exists()


# --- loss scaling -------------------------------------------------------------------------------


def test_overflows_show_the_scale_of_the_window_and_the_scaler_after_it(build, evidence):
    """Logits are 8 times the table, so the gradient is 8 (1 - 1/e) = 5.06 times the scale.

    That is above float32's largest number, 2**128, at 2**127 and at 2**126; the scaler halves its
    scale each time.
    """
    table = build.table_with_losses([1.0], dtype=torch.float32)
    model = build.Bigram(table / 8, scale=8)
    windows = build.windows_of([build.costing(0)] * 5, [1] * 5)

    found = evidence(
        model,
        windows,
        scaler=GradScaler("cpu", init_scale=2.0**127),
        stop=StopOptions(no_updates=NoUpdates(windows=2)),
    )

    (tensor,) = found.anomaly["tensors"]
    assert (found.anomaly["window"], found.anomaly["skip"]) == (2, "scaler_overflow")
    assert found.anomaly["loss"] == pytest.approx(1.0, rel=1e-6)
    assert found.anomaly["loss_scale"] == 2.0**126
    assert found.anomaly["scaler"]["scale"] == 2.0**125
    assert found.anomaly["first_nonfinite"] == {
        "micro_batch": None,
        "gradient": "table",
        "weight": None,
    }
    assert tensor["nonfinite_gradients"] == 2


# --- the checkpoint before ----------------------------------------------------------------------


def broken_in_window_4(build, *, before=4):
    """Window 4 is the first to read row 2 of the table, which is spoiled before some window."""
    model = build.Bigram(build.table_with_losses([1.0, 1.0, 1.0]))
    windows = build.windows_of([build.costing(0)] * 3 + [build.costing(2)], [1] * 4)

    def spoil():
        model.table.data[2] = math.nan

    return model, spoiled(windows, before, spoil), build.planned(windows)


def test_the_newest_checkpoint_is_named_and_still_there(build, evidence, tmp_path):
    model, windows, plan = broken_in_window_4(build)

    keeping = Keeping(folder=tmp_path, every_windows=1, keep=1)
    found = evidence(model, windows, planned=plan, keeping=keeping)

    named = found.anomaly["checkpoint"]
    assert (named["path"], named["window"]) == ("checkpoints/00000003", 3)
    assert (tmp_path / named["path"] / "complete.json").is_file()
    assert named["nonfinite_weights"] == []
    assert found.anomaly["passed_over"] == []


def test_a_checkpoint_of_weights_that_were_spoiled_before_it_says_so(build, evidence, tmp_path):
    model, windows, plan = broken_in_window_4(build, before=3)

    keeping = Keeping(folder=tmp_path, every_windows=1)
    found = evidence(model, windows, planned=plan, keeping=keeping)

    assert found.anomaly["checkpoint"]["window"] == 3
    assert found.anomaly["checkpoint"]["nonfinite_weights"] == ["table"]


def test_a_damaged_checkpoint_is_passed_over_and_named(build, evidence, tmp_path):
    model, windows, plan = broken_in_window_4(build)

    def damage():
        (tmp_path / "checkpoints" / "00000003" / "state.json").write_text("{}")

    found = evidence(
        model,
        spoiled(windows, 4, damage),
        planned=plan,
        keeping=Keeping(folder=tmp_path, every_windows=1),
    )

    assert found.anomaly["checkpoint"]["path"] == "checkpoints/00000002"
    (sentence,) = found.anomaly["passed_over"]
    assert "00000003 is passed over: state.json is not what was written" in sentence


def test_without_a_checkpoint_of_its_own_the_one_that_was_gone_on_from_is_named(
    build, evidence, tmp_path
):
    model, windows, plan = broken_in_window_4(build)
    before = Resumed(after_window=7, checkpoint="/runs/1/checkpoints/00000007", sha256="ab")

    keeping = Keeping(folder=tmp_path, resumed=before)
    found = evidence(model, windows, planned=plan, keeping=keeping)

    named = found.anomaly["checkpoint"]
    assert (named["path"], named["window"], named["sha256"]) == (before.checkpoint, 7, "ab")


def test_with_neither_there_is_none(tmp_path):
    assert last_checkpoint(tmp_path / "checkpoints", None) == LastCheckpoint()
    assert last_checkpoint(None, None).path is None


# --- whole or not at all ------------------------------------------------------------------------


def test_an_arm_stays_stopped_when_its_evidence_cannot_be_written(build, tmp_path):
    """The attempt's folder is a file, as good as a full disk."""
    folder = tmp_path / "attempt"
    folder.write_text("no folder")
    model, windows, plan = broken_in_window_4(build)

    run = build.run(model, windows, planned=plan, keeping=Keeping(folder=folder))

    assert run.outcome.reason is Reason.NONFINITE_LOSS
    (notice,) = (n for n in run.of(Notice) if "evidence" in n.message)
    assert notice.message.startswith("the evidence of the stop was not written: ")


def test_nothing_is_left_half_written(build, evidence, tmp_path):
    model, windows, plan = broken_in_window_4(build)
    stale = tmp_path / ".evidence.partial"
    stale.mkdir()
    (stale / "rest").write_text("of a kill")

    found = evidence(model, windows, planned=plan)

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["evidence"]
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "anomaly.json",
        "tokens.safetensors",
    ]


def test_without_a_folder_nothing_is_written(build, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, windows, plan = broken_in_window_4(build)

    run = build.run(model, windows, planned=plan)

    assert run.outcome.reason is Reason.NONFINITE_LOSS
    assert run.of(Artifact) == []
    assert list(tmp_path.iterdir()) == []


def test_packed_records_of_a_row_are_named_one_by_one(build):
    """Two records of two and three tokens in one row: one target and two."""
    from sweeper.training.evidence import _records

    row = build.packed(build.example([0, 1]), build.example([1, 1, 0]))
    tried = SimpleNamespace(window=SimpleNamespace(examples=[row]))

    assert [(r["row"], r["tokens"], r["target_tokens"]) for r in _records(tried)] == [
        (1, 2, 1),
        (1, 3, 2),
    ]


def test_norms_of_large_float32_values_do_not_overflow():
    """(3e38, 3e38) has the norm 4.24e38, which float32 cannot hold."""
    weight = nn.Parameter(torch.tensor([3e38, 3e38]))

    (facts,) = anatomy({"w": weight})

    assert facts.weight_norm == pytest.approx(math.sqrt(2) * 3e38, rel=1e-6)
    assert facts.nonfinite_weights == 0
    assert facts.gradient_norm is None


def test_a_row_of_three_bad_windows_shows_the_last_of_them(build, evidence):
    model = build.Bigram(build.table_with_losses([1.0, 1.0, 1.0]))
    windows = build.windows_of([build.costing(0)] + [build.costing(2)] * 4, [1] * 5)

    def spoil():
        model.table.data[2] = math.nan

    found = evidence(
        model,
        spoiled(windows, 2, spoil),
        planned=build.planned(windows),
        stop=StopOptions(nonfinite=Nonfinite(loss=3)),
    )

    assert (found.anomaly["window"], found.anomaly["stop"]["window"]) == (4, 4)
