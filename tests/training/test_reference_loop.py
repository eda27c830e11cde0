"""The loop against a plain one, written from torch alone: the same numbers, record by record.

The reference runs each record by itself, without padding, through the whole model, and divides the
sum of token losses by the window's targets. Any way of cutting a window into micro-batches has to
give its numbers.
"""

import functools
import math
from dataclasses import dataclass

import pytest
import torch

from sweeper.training.options import AdamWOptions, ScheduleOptions, SgdOptions, Warmup

UPDATES = 10
WARMUP = 3
PEAK = {"adamw": 3e-3, "sgd": 0.3}
OPTIONS = {
    "adamw": AdamWOptions(kind="adamw", weight_decay=0.1),
    "sgd": SgdOptions(kind="sgd", momentum=0.9, weight_decay=0.01),
}
CLIP_NORM = 1.0
FLOAT64_TOLERANCE = 1e-10
FLOAT32_TOLERANCE = 2e-6
"""Relative, for losses. A token loss ends a chain of about 30 float32 operations (2 layers of
projections, attention and norms, then head and log-softmax), each rounded by at most 2**-24, which
adds up to 30 x 2**-24 = 1.8e-6 at worst. What rounding does to the weights adds far less: in each
of 10 updates it shifts the loss by about rate x gradient x 1e-7."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    losses: torch.Tensor
    norms: torch.Tensor
    weights: torch.Tensor

    def difference(self, other):
        """Returns the largest absolute difference in any loss, norm or weight."""
        pairs = (
            (self.losses, other.losses),
            (self.norms, other.norms),
            (self.weights, other.weights),
        )
        return max(float((a - b).abs().max()) for a, b in pairs)


def rate_at(update, peak):
    if update <= WARMUP:
        return peak * update / WARMUP
    return peak * (1 + math.cos(math.pi * (update - WARMUP) / (UPDATES + 1 - WARMUP))) / 2


def loss_sum(model, example):
    token_ids = torch.tensor(example.token_ids, dtype=torch.int64)
    logits = model(input_ids=token_ids[None]).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], token_ids[1:], reduction="none")
    return losses[torch.tensor(example.supervised[1:])].sum()


def plain_optimizer(model, kind, peak):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    decay = OPTIONS[kind].weight_decay
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]
    if kind == "adamw":
        return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.999), eps=1e-8)
    return torch.optim.SGD(groups, lr=peak, momentum=0.9)


def clip_and_step(model, optimizer):
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()
    return norm


def reference(model, windows, kind, fault=None, micro_batch=3):
    """Runs the plain loop; with a fault, a loop that makes one well-known mistake."""
    peak = PEAK[kind]
    optimizer = plain_optimizer(model, kind, peak)
    losses, norms = [], []
    for update, window in enumerate(windows, start=1):
        shift = 1 if fault == "rate off by one update" else 0
        for group in optimizer.param_groups:
            group["lr"] = rate_at(update - shift, peak)
        optimizer.zero_grad()
        examples = list(window.examples)
        batches = [examples[i : i + micro_batch] for i in range(0, len(examples), micro_batch)]
        total = 0.0
        for batch in batches:
            divisor = window.target_tokens
            if fault == "mean of means":
                divisor = sum(e.target_tokens for e in batch) * len(batches)
            if fault == "gradients zeroed per micro-batch":
                optimizer.zero_grad()
            loss = sum(loss_sum(model, e) for e in batch) / divisor
            loss.backward()
            total += loss.item()
            if fault == "update per micro-batch":
                norm = clip_and_step(model, optimizer)
                optimizer.zero_grad()
        if fault != "update per micro-batch":
            norm = clip_and_step(model, optimizer)
        losses.append(total)
        norms.append(norm.item())
    return trace(model, losses, norms)


def trace(model, losses, norms):
    weights = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    return Trace(
        losses=torch.tensor(losses, dtype=torch.float64),
        norms=torch.tensor(norms, dtype=torch.float64),
        weights=weights,
    )


@pytest.fixture(scope="module")
def scenarios(build):
    """(a) every window is the whole set; (b) windows of four, the last one of two."""
    whole = build.random_examples(7)
    return {
        "whole set": build.windows_of(whole * UPDATES, [7] * UPDATES),
        "short last window": build.windows_of(build.random_examples(38), [4] * 9 + [2]),
    }


@pytest.fixture(scope="module")
def references(build, scenarios):
    return {
        (name, kind): reference(build.tiny_llama().double(), windows, kind)
        for name, windows in scenarios.items()
        for kind in OPTIONS
    }


@pytest.fixture(scope="module")
def ours(build, scenarios):
    @functools.cache
    def make(name, kind, micro_batch, dtype=torch.float64):
        model = build.tiny_llama().to(dtype)
        options = build.training_options(
            PEAK[kind],
            schedule=ScheduleOptions(kind="cosine", warmup=Warmup(updates=WARMUP)),
            optimizer=OPTIONS[kind],
            clip_norm=CLIP_NORM,
        )
        run = build.run(model, scenarios[name], options=options, micro_batch=micro_batch)
        return trace(model, run.losses, [update.gradient_norm for update in run.updates])

    return make


SCENARIOS = pytest.mark.parametrize("scenario", ["whole set", "short last window"])
OPTIMIZERS = pytest.mark.parametrize("kind", ["adamw", "sgd"])


@SCENARIOS
@OPTIMIZERS
@pytest.mark.parametrize("micro_batch", [1, 3, 4, 7])
def test_ten_updates_agree_with_a_plain_loop_to_1e_10(
    scenario, kind, micro_batch, ours, references
):
    found = ours(scenario, kind, micro_batch)
    assert found.difference(references[scenario, kind]) < FLOAT64_TOLERANCE


@SCENARIOS
@OPTIMIZERS
def test_in_float32_the_losses_agree_within_what_rounding_explains(
    scenario, kind, ours, references
):
    found = ours(scenario, kind, 3, torch.float32).losses
    expected = references[scenario, kind].losses
    assert torch.allclose(found, expected, rtol=FLOAT32_TOLERANCE, atol=0)


@SCENARIOS
@OPTIMIZERS
@pytest.mark.parametrize(
    "fault",
    [
        "mean of means",
        "rate off by one update",
        "update per micro-batch",
        "gradients zeroed per micro-batch",
    ],
)
def test_the_agreement_breaks_when_the_plain_loop_makes_a_known_mistake(
    scenario, kind, fault, build, scenarios, ours
):
    """A thousand times above both tolerances: neither comparison could pass with the mistake."""
    found = ours(scenario, kind, 3)
    wrong = reference(build.tiny_llama().double(), scenarios[scenario], kind, fault)
    assert found.difference(wrong) > 1000 * FLOAT64_TOLERANCE
    assert ((found.losses - wrong.losses) / wrong.losses).abs().max() > 1000 * FLOAT32_TOLERANCE
