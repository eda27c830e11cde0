"""Where within a window something first stops being finite; the planted place is known by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sweeper.training.microscope import Microscope
from sweeper.training.options import SgdOptions
from sweeper.training.stopping import Nonfinite, StopOptions
from sweeper.training.trainable import trainable

PATIENT = StopOptions(nonfinite=Nonfinite(loss=99, gradient=99))
SGD = SgdOptions(kind="sgd")


class Spoil(nn.Module):
    """Passes logits on; those of the token `at` become what `how` makes of them."""

    def __init__(self, at, how):
        super().__init__()
        self.at, self.how = at, how

    def forward(self, token_ids, logits):
        marked = token_ids == self.at
        passed = logits.clone()
        passed[marked] = self.how(logits[marked])
        return passed


class Chain(nn.Module):
    """A table of logits, then two modules in a row that may spoil them."""

    def __init__(self, table, first, second):
        super().__init__()
        self.table = nn.Parameter(table)
        self.first, self.second = first, second

    def forward(self, input_ids, attention_mask, use_cache):
        logits = self.first(input_ids, self.table[input_ids])
        return SimpleNamespace(logits=self.second(input_ids, logits))


def infinite(logits):
    return logits * math.inf


def steep(logits):
    """Forward it is a square root of zero, backward its slope, which is infinite."""
    return logits + (logits * 0).abs().sqrt()


def harmless():
    return Spoil(-1, lambda logits: logits)


def looked_at(build, model, windows, *, spoil_updates=False, **changes):
    microscope = Microscope(model, trainable(model), micro_batch=2)
    records = []

    def emit(record):
        records.append(record)
        if type(record).__name__ == "Update":
            microscope.after_update(record.window)

    settings = {"stop": PATIENT, "options": build.training_options(0.1, optimizer=SGD)}
    build.run(model, windows, probe=microscope, emit=emit, **settings | changes)
    return microscope


@pytest.fixture
def windows(build):
    """Three windows of two micro-batches; token 2 is in the second micro-batch of window 2."""
    plain, marked = build.example([0, 1]), build.example([2, 1])
    return build.windows_of([plain] * 6 + [marked] + [plain] * 5, [4, 4, 4])


def test_the_first_module_in_the_order_of_computation_is_named(build, windows):
    model = Chain(torch.zeros(3, 3), Spoil(2, infinite), Spoil(2, infinite))

    (sighting,) = looked_at(build, model, windows).sightings

    assert (sighting.window, sighting.micro_batch) == (2, 2)
    assert (sighting.module, sighting.is_loss) == ("first", True)
    assert sighting.gradient == "table"
    assert [e.token_ids.tolist() for e in sighting.examples] == [[2, 1], [0, 1]]


def test_a_later_module_is_named_when_the_one_before_it_is_sound(build, windows):
    model = Chain(torch.zeros(3, 3), harmless(), Spoil(2, infinite))

    (sighting,) = looked_at(build, model, windows).sightings

    assert sighting.module == "second"


def test_a_gradient_alone_may_be_nonfinite(build, windows):
    model = Chain(torch.zeros(3, 3), Spoil(2, steep), harmless())

    (sighting,) = looked_at(build, model, windows).sightings

    assert (sighting.window, sighting.micro_batch) == (2, 2)
    assert (sighting.is_loss, sighting.module, sighting.gradient) == (False, None, "table")


def test_of_a_window_the_first_micro_batch_is_told_alone(build):
    """Gradients add up, so the second one of the window has nonfinite gradients as well."""
    plain, marked = build.example([0, 1]), build.example([2, 1])
    windows = build.windows_of([marked, plain, plain, plain], [4])
    model = Chain(torch.zeros(3, 3), Spoil(2, infinite), harmless())

    (sighting,) = looked_at(build, model, windows).sightings

    assert sighting.micro_batch == 1


def test_every_window_has_a_sighting_of_its_own(build):
    windows = build.windows_of([build.example([2, 1])] * 4, [2, 2])
    model = Chain(torch.zeros(3, 3), Spoil(2, infinite), harmless())

    found = looked_at(build, model, windows).sightings

    assert [sighting.window for sighting in found] == [1, 2]


def test_weights_that_an_update_leaves_infinite_are_seen_in_its_window(build):
    model = build.Bigram(torch.zeros(2, 2))
    microscope = Microscope(model, trainable(model), micro_batch=2)

    microscope.after_update(1)
    model.table.data[0, 0] = -math.inf
    microscope.after_update(2)

    (sighting,) = microscope.sightings
    assert (sighting.window, sighting.micro_batch, sighting.weight) == (2, None, "table")


def test_the_first_weight_that_is_nonfinite_is_named_too(build):
    model = Chain(torch.zeros(3, 3), harmless(), harmless())
    windows = build.windows_of([build.example([2, 1])] * 2, [2])

    def spoiled():
        model.table.data[2] = math.nan
        yield from windows

    plan = build.planned(windows)
    (sighting,) = looked_at(build, model, spoiled(), planned=plan).sightings

    assert (sighting.weight, sighting.module) == ("table", "first")


def test_evaluations_are_not_looked_at(build, windows):
    """Token 1 is spoiled and only the held-out record has a target after it."""
    model = Chain(torch.zeros(3, 3), Spoil(1, infinite), harmless())
    microscope = Microscope(model, trainable(model), micro_batch=2)

    with torch.no_grad():
        model(torch.tensor([[1, 0]]), None, use_cache=False)
    assert microscope.sightings == []

    build.run(
        Chain(torch.zeros(3, 3), harmless(), harmless()),
        windows,
        probe=microscope,
        options=build.training_options(0.1, optimizer=SGD),
    )
    assert microscope.sightings == []


def test_what_it_looks_at_does_not_change_a_bit(build):
    windows = build.windows_of(build.random_examples(12), [4, 4, 4])
    without, watched = build.tiny_llama(), build.tiny_llama()

    plain = build.run(without, windows)
    looked = build.run(
        watched, windows, probe=Microscope(watched, trainable(watched), micro_batch=2)
    )

    assert plain.losses == looked.losses
    assert [u.gradient_norm for u in plain.updates] == [u.gradient_norm for u in looked.updates]
    pairs = zip(without.parameters(), watched.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_steepest_micro_batch_and_tensor_are_told(build):
    """Token 0 costs 1 nat after itself and 3 after token 1, so micro-batch 2 is the steeper one."""
    model = build.Bigram(build.table_with_losses([1.0, 3.0]))
    windows = build.windows_of([build.costing(0)] * 2 + [build.costing(1)], [3])

    steepest = looked_at(build, model, windows).steepest()

    assert (steepest.window, steepest.micro_batch) == (1, 2)
    assert steepest.loss == pytest.approx(3.0, rel=1e-12)
    assert [e.token_ids.tolist() for e in steepest.examples] == [[1, 0]]
    assert (steepest.tensor, steepest.share) == ("table", 1.0)


def test_the_share_of_a_tensor_is_of_the_squared_norm():
    """Gradients (3, 4) and (12): 144 of 169."""
    model = nn.Module()
    model.a = nn.Parameter(torch.zeros(2))
    model.b = nn.Parameter(torch.zeros(1))
    model.a.grad, model.b.grad = torch.tensor([3.0, 4.0]), torch.tensor([12.0])
    microscope = Microscope(model, trainable(model), micro_batch=1)
    example = SimpleNamespace(target_tokens=2)
    window = SimpleNamespace(index=5, examples=[example])

    microscope.after_micro_batch(window, 1, torch.tensor(3.0, dtype=torch.float64))

    steepest = microscope.steepest()
    assert (steepest.window, steepest.loss, steepest.tensor) == (5, 1.5, "b")
    assert steepest.share == pytest.approx(144 / 169, rel=1e-15)


def test_micro_batches_without_targets_are_not_counted(build):
    """The first two records have none, so the loop leaves their micro-batch out."""
    empty = build.example([2, 1], targets=[])
    windows = build.windows_of([empty, empty, build.example([2, 1])], [3])
    model = Chain(torch.zeros(3, 3), Spoil(2, infinite), harmless())

    (sighting,) = looked_at(build, model, windows).sightings

    assert sighting.micro_batch == 1
    assert len(sighting.examples) == 1


def test_before_any_window_nothing_stands_out(build):
    model = build.Bigram(torch.zeros(2, 2))

    assert Microscope(model, trainable(model), micro_batch=1).steepest() is None
