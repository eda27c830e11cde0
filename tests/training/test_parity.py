"""Our loop against transformers' Trainer: the same numbers where both mean the same thing.

They do with equal target counts, a constant rate and one batch per update. Where the two differ, a
test states both values, and its docstring says why ours is the one to go by.

Each loss is what its loop reports for one update. The Trainer's log adds losses up in float32, so
its losses are taken from `training_step`, before that.
"""

import functools
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, get_scheduler

from sweeper.records import Skip
from sweeper.training.adapter import adapt
from sweeper.training.options import (
    AdamWOptions,
    LoraOptions,
    ScheduleOptions,
    SgdOptions,
    Warmup,
)
from sweeper.training.stopping import Nonfinite, NoUpdates, StopOptions

UPDATES = 20
RECORDS = 4
RATE = 3e-3
FLOAT32_TOLERANCE = 5e-6
FLOAT64_TOLERANCE = 1e-9

PATIENT = StopOptions(nonfinite=Nonfinite(loss=99, gradient=99), no_updates=NoUpdates(windows=99))


class Followed(Trainer):
    """A Trainer whose micro-batches' losses are kept as they are."""

    def training_step(self, *arguments, **others):
        loss = super().training_step(*arguments, **others)
        self.losses = [*getattr(self, "losses", []), loss.item()]
        return loss


class Weights(TrainerCallback):
    """Keeps the weights before the first update and after each."""

    def __init__(self):
        self.kept = []

    def on_train_begin(self, args, state, control, model, **others):
        self.kept.append(bits(model))

    def on_step_end(self, args, state, control, model, **others):
        self.kept.append(bits(model))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a Trainer has done, update by update.

    Attributes:
        losses: Of each micro-batch, as it went into the backward pass.
        logged: Of each update, as logged.
        weights: Before the first update and after each.
    """

    losses: list
    logged: list
    norms: list
    rates: list
    weights: list = field(repr=False)


class Table(nn.Module):
    """One table of logits as a model that returns its own loss: the mean over its batch."""

    loss_type = "ForCausalLM"

    def __init__(self, table):
        super().__init__()
        self.table = nn.Parameter(table)

    def forward(self, input_ids, attention_mask, labels=None, use_cache=None):
        logits = self.table[input_ids]
        if labels is None:
            return SimpleNamespace(logits=logits)
        flat = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return {"loss": nn.functional.cross_entropy(*flat), "logits": logits}


class CountingTable(Table):
    """The same, but it takes the Trainer's count of targets, as the models of transformers do."""

    def forward(self, input_ids, attention_mask, labels=None, use_cache=None, **counted):
        output = super().forward(input_ids, attention_mask, labels, use_cache)
        if labels is None or "num_items_in_batch" not in counted:
            return output
        flat = output["logits"][:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = nn.functional.cross_entropy(*flat, reduction="sum")
        return {"loss": loss / counted["num_items_in_batch"], "logits": output["logits"]}


def bits(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def summed_cross_entropy(outputs, labels, num_items_in_batch):
    """Our objective, in the dtype of the logits; the Trainer's own casts them to float32."""
    flat = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return nn.functional.cross_entropy(*flat, reduction="sum") / num_items_in_batch


def as_features(example):
    token_ids = torch.tensor(example.token_ids, dtype=torch.int64)
    labels = token_ids.masked_fill(~torch.tensor(example.supervised), -100)
    return {
        "input_ids": token_ids,
        "attention_mask": torch.ones_like(token_ids),
        "labels": labels,
    }


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """Trains on the examples in order, on a CPU, with nothing but the updates."""

    def train(model, examples, compute_loss_func=None, **arguments):
        settings = {
            "output_dir": str(tmp_path_factory.mktemp("trainer")),
            "use_cpu": True,
            "report_to": "none",
            "save_strategy": "no",
            "disable_tqdm": True,
            "logging_steps": 1,
            "num_train_epochs": 1,
            "per_device_train_batch_size": RECORDS,
            "train_sampling_strategy": "sequential",
            "optim": "adamw_torch",
            "learning_rate": RATE,
            "lr_scheduler_type": "constant",
            "max_grad_norm": 1.0,
        }
        weights = Weights()
        trainer = Followed(
            model=model,
            args=TrainingArguments(**settings | arguments),
            train_dataset=[as_features(example) for example in examples],
            compute_loss_func=compute_loss_func,
            callbacks=[weights],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        *updates, _summary = trainer.state.log_history
        return Trained(
            losses=trainer.losses,
            logged=[update["loss"] for update in updates],
            norms=[update["grad_norm"] for update in updates],
            rates=[update["learning_rate"] for update in updates],
            weights=weights.kept,
        )

    return train


@pytest.fixture(scope="module")
def equal_rows(build):
    """Records of nine tokens, all of them targets but the first."""
    draw = np.random.default_rng(5)
    return [build.example(token_ids) for token_ids in draw.integers(0, 64, (UPDATES * RECORDS, 9))]


def whole(build, dtype):
    return build.tiny_llama().to(dtype)


def adapted(build, dtype):
    """An adapter; peft makes it float32, and the whole is turned to the dtype after that."""
    lora = LoraOptions(rank=4, targets=("q_proj", "v_proj", "down_proj"))
    return adapt(build.tiny_llama(), lora, seed=1).model.to(dtype)


@pytest.fixture
def ours(build, equal_rows):
    def run(model, **changes):
        options = build.training_options(**{"rate": RATE, "clip_norm": 1.0} | changes)
        windows = build.windows_of(equal_rows, [RECORDS] * UPDATES)
        return build.run(model, windows, options=options, micro_batch=RECORDS)

    return run


def furthest(found, expected):
    return max(abs(a - b) for a, b in zip(found, expected, strict=True))


@pytest.fixture(scope="module")
def plainly_trained(build, trainer, equal_rows):
    """What the Trainer does with either model in float32, all settings as they are."""
    return functools.cache(lambda make: trainer(make(build, torch.float32), equal_rows))


MODELS = pytest.mark.parametrize("make", [whole, adapted])


# --- where both mean the same --------------------------------------------------------------------


@MODELS
def test_in_float32_twenty_losses_follow_the_trainers(make, build, ours, plainly_trained):
    """Ours are summed in float64 and theirs in float32, and the difference goes no further."""
    theirs = plainly_trained(make)
    found = ours(make(build, torch.float32))
    assert len(found.losses) == UPDATES
    assert furthest(found.losses, theirs.losses) < FLOAT32_TOLERANCE
    norms = [update.gradient_norm for update in found.updates]
    assert norms == pytest.approx(theirs.norms, rel=1e-5)


@MODELS
def test_in_float64_twenty_losses_and_weights_follow_a_trainer_with_our_objective(
    make, build, ours, trainer, equal_rows
):
    model, other = make(build, torch.float64), make(build, torch.float64)
    theirs = trainer(other, equal_rows, compute_loss_func=summed_cross_entropy)
    found = ours(model)
    assert furthest(found.losses, theirs.losses) < FLOAT64_TOLERANCE
    assert (bits(model) - bits(other)).abs().max() < FLOAT64_TOLERANCE


def test_two_micro_batches_of_equal_counts_follow_the_trainers_accumulation(
    build, trainer, equal_rows
):
    model, other = whole(build, torch.float64), whole(build, torch.float64)
    trainer(
        other,
        equal_rows,
        compute_loss_func=summed_cross_entropy,
        gradient_accumulation_steps=2,
        per_device_train_batch_size=2,
    )
    windows = build.windows_of(equal_rows, [RECORDS] * UPDATES)
    options = build.training_options(RATE, clip_norm=1.0)
    build.run(model, windows, options=options, micro_batch=2)
    assert (bits(model) - bits(other)).abs().max() < FLOAT64_TOLERANCE


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": 1.01 * RATE},
        {"clip_norm": None},
        {"optimizer": AdamWOptions(kind="adamw", weight_decay=0.01)},
        {"schedule": ScheduleOptions(kind="constant", warmup=Warmup(updates=2))},
    ],
    ids=["rate", "threshold", "decay", "warm-up"],
)
def test_a_small_change_of_one_setting_is_seen(changes, build, ours, plainly_trained):
    """The comparisons above are not so wide that they would let another setting pass."""
    theirs = plainly_trained(whole)
    found = ours(whole(build, torch.float32), **changes)
    assert furthest(found.losses, theirs.losses) > FLOAT32_TOLERANCE


# --- where they differ ---------------------------------------------------------------------------


def test_the_trainers_warmup_begins_with_an_update_at_rate_zero_and_ours_does_not(
    build, ours, trainer, equal_rows
):
    """(t - 1) / W against t / W, W = 4. An update at rate zero reads a window's targets and learns
    nothing from them, though exposure counts them as applied: the budget would be paid for it."""
    theirs = trainer(
        whole(build, torch.float32),
        equal_rows,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=4,
    )
    schedule = ScheduleOptions(kind="constant", warmup=Warmup(updates=4))
    model = whole(build, torch.float32)
    found = ours(model, schedule=schedule)
    rates = [update.learning_rate for update in found.updates]
    assert theirs.rates[:6] == pytest.approx([0, RATE / 4, RATE / 2, 0.75 * RATE, RATE, RATE])
    assert rates[:6] == pytest.approx([RATE / 4, RATE / 2, 0.75 * RATE, RATE, RATE, RATE])
    assert torch.equal(theirs.weights[0], theirs.weights[1])


def test_our_first_update_of_a_warmup_moves_the_weights(build, equal_rows):
    model = whole(build, torch.float32)
    before = bits(model)
    schedule = ScheduleOptions(kind="constant", warmup=Warmup(updates=4))
    options = build.training_options(RATE, schedule=schedule)
    build.run(model, build.windows_of(equal_rows[:RECORDS], [RECORDS]), options=options)
    assert not torch.equal(bits(model), before)


def test_in_the_decay_the_trainers_rates_lag_one_update_behind(build):
    """W = 2, T = 5, linear. Theirs: 0, 1/2, 1, 2/3, 1/3; ours: 1/2, 1, 3/4, 1/2, 1/4. Both reach
    zero one update after the last; ours has its peak at update W, and five updates that move."""
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=2, num_training_steps=5)
    theirs = [scheduler.lr_lambdas[0](update) for update in range(5)]
    options = build.training_options(
        1.0, schedule=ScheduleOptions(kind="linear", warmup=Warmup(updates=2))
    )
    windows = build.windows_of([build.costing(0)] * 5, [1] * 5)
    run = build.run(build.Bigram(torch.zeros(2, 2)), windows, options=options)
    assert theirs == pytest.approx([0, 1 / 2, 1, 2 / 3, 1 / 3])
    assert [u.learning_rate for u in run.updates] == pytest.approx([1 / 2, 1, 3 / 4, 1 / 2, 1 / 4])


@pytest.fixture
def unequal_micro_batches(build, trainer):
    """Losses (1, 2, 3) in one micro-batch and (9) in the other, as one update."""
    table = build.table_with_losses([1.0, 2.0, 3.0, 9.0])
    examples = [build.costing(0, 1, 2), build.costing(3)]

    def run(model):
        theirs = trainer(
            model(table.clone()),
            examples,
            optim="sgd",
            learning_rate=1.0,
            max_grad_norm=0.0,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=2,
        )
        ours = model(table.clone())
        options = build.training_options(1.0, optimizer=SgdOptions(kind="sgd"))
        windows = build.windows_of(examples, [2])
        (loss,) = build.run(ours, windows, options=options, micro_batch=1).losses
        moved = theirs.weights[1] - theirs.weights[0]
        return SimpleNamespace(
            theirs=theirs.logged[0],
            ours=loss,
            their_rows=moved.view_as(table)[:, 0],
            our_rows=(ours.table.detach() - table)[:, 0],
        )

    return run


def test_a_model_with_a_loss_of_its_own_gets_a_mean_of_means_from_the_trainer(
    unequal_micro_batches,
):
    """(2 + 9) / 2 = 5.5 against 15 / 4 = 3.75. The lone token moves its row of the table with one
    half of its gradient, each of the other three with a sixth; how records are grouped to fit into
    memory would decide what is learned. Per token it is a quarter each."""
    run = unequal_micro_batches(Table)
    assert run.theirs == pytest.approx(5.5, rel=1e-6)
    assert run.ours == pytest.approx(3.75, rel=1e-12)
    # The gradient of -log p(0) for the logit of 0 is p(0) - 1, with p(0) = exp(-loss).
    full = [1 - math.exp(-loss) for loss in (1.0, 2.0, 3.0, 9.0)]
    shares = (1 / 6, 1 / 6, 1 / 6, 1 / 2)
    assert run.their_rows.tolist() == pytest.approx(
        [share * gradient for share, gradient in zip(shares, full, strict=True)], rel=1e-6
    )
    assert run.our_rows.tolist() == pytest.approx([gradient / 4 for gradient in full], rel=1e-9)


def test_a_model_that_takes_the_count_of_targets_gets_our_numbers_from_the_trainer_too(
    unequal_micro_batches,
):
    run = unequal_micro_batches(CountingTable)
    assert run.theirs == pytest.approx(3.75, rel=1e-6)
    assert run.ours == pytest.approx(3.75, rel=1e-12)
    assert run.our_rows.tolist() == pytest.approx(run.their_rows.tolist(), rel=1e-9)


@pytest.fixture
def with_a_masked_batch(build, trainer):
    """Updates that cost 4 nats, nothing (every label masked), and 4 nats: theirs, and ours."""
    examples = [
        build.costing(0),
        build.example([0, 0], targets=[]),
        build.costing(0),
    ]

    def run(**arguments):
        table = build.table_with_losses([4.0], dtype=torch.float32)
        # Decay would move the weights even where the moments did not.
        theirs = trainer(
            CountingTable(table.clone()),
            examples,
            per_device_train_batch_size=1,
            learning_rate=1e-6,
            weight_decay=0.1,
            **arguments,
        )
        kept = []
        model = CountingTable(table.clone())
        ours = build.run(
            model,
            build.windows_of(examples, [1, 1, 1]),
            options=build.training_options(
                1e-6, optimizer=AdamWOptions(kind="adamw", weight_decay=0.1)
            ),
            stop=PATIENT,
            interrupted=lambda: kept.append(bits(model)) is not None,
        )
        return theirs, ours, kept

    return run


def test_the_trainer_reports_a_loss_of_zero_for_a_batch_without_targets_and_we_report_none(
    with_a_masked_batch,
):
    """0 / 0 is not a number; its filter logs the mean since the last log, which is nothing. A loss
    of zero would read as a perfect window. There was nothing to score, and the record says that."""
    theirs, ours, _ = with_a_masked_batch()
    assert math.isnan(theirs.losses[1])
    assert theirs.logged == pytest.approx([4.0, 0.0, 4.0], rel=1e-4)
    assert [update.skip for update in ours.updates] == [None, Skip.NO_TARGETS, None]
    assert ours.losses == [pytest.approx(4.0, rel=1e-4), None, pytest.approx(4.0, rel=1e-4)]


def test_without_its_filter_the_trainer_logs_no_finite_loss_any_more(with_a_masked_batch):
    """What is not a number stays so when it is taken from itself to start anew."""
    theirs, _, _ = with_a_masked_batch(logging_nan_inf_filter=False)
    assert [math.isfinite(loss) for loss in theirs.logged] == [True, False, False]


def test_the_trainer_steps_on_a_batch_without_targets_and_we_do_not(with_a_masked_batch):
    """A gradient of exactly zero still moves AdamW's weights, by its momentum and by decay."""
    theirs, _, ours = with_a_masked_batch()
    assert not torch.equal(theirs.weights[2], theirs.weights[1])
    assert torch.equal(ours[1], ours[0])
    assert not torch.equal(ours[2], ours[1])
