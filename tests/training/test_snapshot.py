"""The state of a trial between two windows, taken out of the process and put back."""

import dataclasses
import json
import random

import numpy as np
import pytest
import torch
from torch.amp import GradScaler

from sweeper.records import Evaluation, Skip, Update
from sweeper.training.best import Best
from sweeper.training.checkpoint import read_checkpoint, write_checkpoint
from sweeper.training.exposure import Exposure
from sweeper.training.optimizer import make_optimizer, set_rate
from sweeper.training.options import AdamWOptions, SgdOptions
from sweeper.training.ranks import ALONE
from sweeper.training.snapshot import (
    State,
    gather_random_states,
    random_states,
    restore,
    set_random_states,
    take,
)
from sweeper.training.stopping import StopOptions
from sweeper.training.watch import Watch

CPU = torch.device("cpu")
UPDATE = dict.fromkeys(Update.__dataclass_fields__, 0)
EVALUATION = dict.fromkeys(Evaluation.__dataclass_fields__, 0)


class SecondOfTwo:
    """The second of two ranks; the first one has nothing to say."""

    rank, count = 1, 2

    def gather(self, content):
        return [json.dumps({"first": True}).encode(), content]


def fresh(options=None):
    """Returns the state of a trial that has not begun: a matrix and a bias, both of ones."""
    tensors = {
        "matrix": torch.nn.Parameter(torch.ones(2, 2)),
        "bias": torch.nn.Parameter(torch.ones(2)),
    }
    return State(
        tensors=tensors,
        optimizer=make_optimizer(tensors, options or AdamWOptions(kind="adamw")),
        scaler=GradScaler("cpu", init_scale=8.0),
        watch=Watch(StopOptions()),
        best=Best(),
    )


def taken(state, ranks=ALONE):
    return take(state, gather_random_states(ranks, CPU), CPU)


def step(state, gradient):
    """Makes an update at rate 0.1."""
    set_rate(state.optimizer, 0.1)
    for parameter in state.tensors.values():
        parameter.grad = torch.full_like(parameter, gradient)
    state.optimizer.step()


@pytest.fixture
def under_way():
    """A state after two updates, a skipped window and an evaluation."""
    state = fresh()
    step(state, 1.0)
    step(state, -0.5)
    skipped = {"window": 3, "ran": False, "skip": Skip.NONFINITE_LOSS, "loss": float("nan")}
    state.watch.after_window(Update(**UPDATE | skipped), moved=False)
    evaluation = Evaluation(**EVALUATION | {"split": "validation", "index": 1, "loss": 2.5})
    state.watch.after_evaluation(evaluation)
    state.best.consider(evaluation, state.tensors)
    state.exposure = Exposure(windows=3, updates=2, record_digest="ab" * 32)
    state.evaluation_due = 2
    return state


def on_disk(snapshot, folder):
    write_checkpoint(folder, snapshot, owner={})
    return read_checkpoint(folder / f"{snapshot.exposure.windows:08d}").snapshot


def moments_of(optimizer):
    return {
        number: sorted((name, tensor.tolist()) for name, tensor in moments.items())
        for number, moments in optimizer.state_dict()["state"].items()
    }


def facts_of(state):
    """Everything that a state holds, as text that tells every bit apart."""
    return repr(
        (
            {name: tensor.tolist() for name, tensor in state.tensors.items()},
            moments_of(state.optimizer),
            state.scaler.state_dict(),
            state.watch.remembered(),
            (state.best.loss, state.best.index),
            sorted((name, tensor.tolist()) for name, tensor in state.best.weights.items()),
            state.exposure,
            state.evaluation_due,
        )
    )


def test_a_state_comes_back_from_the_disk_to_the_bit(under_way, tmp_path):
    found = on_disk(taken(under_way), tmp_path)
    other = fresh()
    other.scaler.load_state_dict(GradScaler("cpu", init_scale=2.0).state_dict())
    restore(found, other, ALONE, CPU)
    assert facts_of(other) == facts_of(under_way)


def test_going_on_does_the_same_to_both(under_way, tmp_path):
    other = fresh()
    restore(on_disk(taken(under_way), tmp_path), other, ALONE, CPU)
    step(under_way, 0.25)
    step(other, 0.25)
    assert facts_of(other) == facts_of(under_way)


@pytest.mark.parametrize("options", [SgdOptions(kind="sgd"), SgdOptions(kind="sgd", momentum=0.9)])
def test_an_optimizer_with_few_moments_or_none_comes_back_too(options, tmp_path):
    state, other = fresh(options), fresh(options)
    step(state, 1.0)
    restore(on_disk(taken(state), tmp_path), other, ALONE, CPU)
    step(state, 0.5)
    step(other, 0.5)
    assert facts_of(other) == facts_of(state)


def test_the_rate_of_a_snapshot_is_not_taken_over(under_way):
    """torch's own loading of an optimizer overwrites the rate without a word."""
    other = fresh()
    set_rate(other.optimizer, 5e-3)
    restore(taken(under_way), other, ALONE, CPU)
    assert [group["lr"] for group in other.optimizer.param_groups] == [5e-3, 5e-3]


def test_a_snapshot_moves_neither_with_its_state_nor_with_one_that_goes_on_from_it(under_way):
    snapshot = taken(under_way)
    before = {name: tensor.tolist() for name, tensor in snapshot.tensors.items()}
    other = fresh()
    restore(snapshot, other, ALONE, CPU)
    step(under_way, 1.0)
    step(other, 1.0)
    other.best.weights["bias"].zero_()
    assert {name: tensor.tolist() for name, tensor in snapshot.tensors.items()} == before


def test_a_trial_that_keeps_no_best_weights_has_none_in_its_snapshot(under_way):
    under_way.best = None
    snapshot = taken(under_way)
    other = fresh()
    restore(snapshot, other, ALONE, CPU)
    assert not [name for name in snapshot.tensors if name.startswith("best/")]
    assert other.best.loss is None


def test_a_disabled_scaler_has_no_state():
    state = dataclasses.replace(fresh(), scaler=GradScaler("cpu", enabled=False))
    snapshot = taken(state)
    restore(snapshot, state, ALONE, CPU)
    assert snapshot.facts["scaler"] == {}


# --- random states ------------------------------------------------------------------------------


def draws():
    """Draws from every generator; Python's and numpy's normal numbers come in pairs, and the
    second of a pair is remembered."""
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.random(),  # noqa: NPY002
        np.random.normal(),  # noqa: NPY002
        torch.rand(3).tolist(),
        torch.randn(3).tolist(),
    )


@pytest.mark.parametrize("before", [0, 1, 2, 700])
def test_all_generators_go_on_where_they_were(before):
    """More than 624 draws make Python's and numpy's generators turn over."""
    for _ in range(before):
        draws()
    states = json.loads(json.dumps(random_states(CPU)))
    first = draws()
    draws()
    set_random_states(states, CPU)
    assert draws() == first


def test_taking_a_snapshot_draws_nothing(under_way):
    states = json.dumps(random_states(CPU))
    taken(under_way)
    assert json.dumps(random_states(CPU)) == states


def test_restoring_puts_the_generators_back(under_way, tmp_path):
    snapshot = on_disk(taken(under_way), tmp_path)
    first = draws()
    restore(snapshot, fresh(), ALONE, CPU)
    assert draws() == first


def test_each_rank_has_its_own_generators_back(under_way, tmp_path):
    snapshot = on_disk(taken(under_way, SecondOfTwo()), tmp_path)
    first = draws()
    restore(snapshot, fresh(), SecondOfTwo(), CPU)
    assert draws() == first
    assert snapshot.ranks == 2
    assert snapshot.facts["random"][0] == {"first": True}


def test_a_rank_that_the_snapshot_does_not_have_keeps_its_own(under_way):
    snapshot = taken(under_way)
    torch.manual_seed(5)
    states = json.dumps(random_states(CPU))
    restore(snapshot, fresh(), SecondOfTwo(), CPU)
    assert json.dumps(random_states(CPU)) == states


def test_on_another_kind_of_device_the_generators_are_left_as_they_are(under_way):
    snapshot = taken(under_way)
    snapshot = dataclasses.replace(snapshot, facts={**snapshot.facts, "device": "cuda"})
    torch.manual_seed(5)
    states = json.dumps(random_states(CPU))
    restore(snapshot, fresh(), ALONE, CPU)
    assert json.dumps(random_states(CPU)) == states
