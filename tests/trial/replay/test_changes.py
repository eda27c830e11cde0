"""The one change, and what follows from it by a rule of its own."""

from __future__ import annotations

import pytest
import torch

from sweeper.errors import PlanError
from sweeper.training.options import ModelOptions
from sweeper.training.snapshot import Snapshot
from sweeper.trial.replay.changes import changed, consequences, fitting
from sweeper.trial.replay.report import Changed
from sweeper.trial.replay.request import OtherPrecision, OtherRate, WithoutRecord

CPU = torch.device("cpu")
SCALED = {"scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}


def in_precision(spec, precision):
    training = spec.training.model_copy(update={"precision": precision})
    return spec.model_copy(update={"training": training})


def test_a_rate_is_the_only_thing_that_differs(bench):
    spec = bench.spec()

    asked, change = changed(spec, OtherRate(value=0.5), CPU)
    same, none = changed(spec, None, CPU)

    assert change == Changed(key="training.learning_rate", was="0.01", now="0.5")
    assert none is None
    was, now = same.settings(), asked.settings()
    assert {key for key in was if was[key] != now[key]} == {"training.learning_rate"}


def test_a_precision_is_compared_with_what_auto_meant(bench):
    spec = bench.spec()
    assert spec.training.precision == "auto"

    asked, change = changed(spec, OtherPrecision(value="bfloat16"), CPU)

    assert (change.was, change.now) == ("float32", "bfloat16")
    assert (asked.training.precision, asked.model.dtype) == ("bfloat16", "float32")
    with pytest.raises(PlanError, match="nothing would be changed"):
        changed(spec, OtherPrecision(value="float32"), CPU)


def test_a_record_is_left_out_of_the_windows_not_of_the_specification(bench):
    spec = bench.spec()

    assert changed(spec, WithoutRecord(record="1"), CPU) == changed(spec, None, CPU)


def test_a_dtype_that_follows_the_precision_is_told(bench):
    spec = bench.spec()
    other = spec.model_copy(update={"model": ModelOptions(path="m", dtype="bfloat16")})
    float32 = spec.model_copy(update={"model": ModelOptions(path="m", dtype="float32")})

    assert consequences(float32, float32) == ()
    (sentence,) = consequences(other, float32)
    assert "held in bfloat16" in sentence
    assert "not in float32" in sentence


@pytest.mark.parametrize(
    ("scaler", "precision", "expected"),
    [
        (SCALED, "float16", 1024.0),
        ({}, "float16", 65536.0),
        (SCALED, "float32", None),
        ({}, "bfloat16", None),
    ],
    ids=["as it was", "begins anew", "falls away", "never was"],
)
def test_the_loss_scale_of_a_checkpoint_is_kept_where_the_precision_has_one(
    bench, scaler, precision, expected
):
    snapshot = Snapshot(tensors={}, facts={"scaler": scaler, "device": "cpu"})

    found = fitting(snapshot, in_precision(bench.spec(), precision), CPU)

    assert found.facts["scaler"].get("scale") == expected
    assert found.facts["device"] == "cpu"
