"""What only a GPU can show: its scaler, its bfloat16, its memory, its attention kernels."""

import pytest
import torch
from torch.amp import GradScaler

from sweeper.records import Reason, Skip
from sweeper.training.leak import refuse_leak
from sweeper.training.loss import Objective

pytestmark = pytest.mark.gpu

TOO_HIGH = 2.0**40
"""Scaled by it, no gradient of the tiny model fits into float16, whose largest value is 65504."""


@pytest.fixture
def model(build):
    return build.tiny_llama().to("cuda")


@pytest.fixture
def windows(build):
    return build.windows_of(build.random_examples(48), sizes=[4] * 12)


def test_float16_begins_with_torch_s_scale_and_finds_one_that_fits(build, model, windows):
    run = build.run(model, windows, options=build.training_options(precision="float16"))
    assert run.outcome.reason is Reason.BUDGET_REACHED
    assert run.updates[0].loss_scale == 65536.0
    assert all(update.ran for update in run.updates[-6:])


def test_float16_halves_a_scale_that_is_too_high_until_gradients_fit(build, model, windows):
    run = build.run(
        model,
        windows,
        options=build.training_options(precision="float16"),
        scaler=GradScaler("cuda", init_scale=TOO_HIGH),
    )
    skipped = [update for update in run.updates if not update.ran]
    assert [update.skip for update in skipped] == [Skip.SCALER_OVERFLOW] * len(skipped)
    assert [update.loss_scale for update in run.updates[:3]] == [2.0**40, 2.0**39, 2.0**38]
    assert run.updates[-1].target_tokens_applied < run.updates[-1].target_tokens_read


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_lower_precision_follows_float32_as_far_as_its_digits_go(build, windows, precision):
    """bfloat16 has 8 significant bits, float16 11: a loss near ln 64 = 4.2 is kept to 2 %."""
    losses = {
        name: build.run(
            build.tiny_llama().to("cuda"),
            windows,
            options=build.training_options(rate=1e-3, precision=name),
        ).losses
        for name in ("float32", precision)
    }
    assert losses[precision] == pytest.approx(losses["float32"], rel=0.02)


def test_the_peak_is_that_of_the_device(build, model, windows):
    torch.cuda.reset_peak_memory_stats()
    run = build.run(model, windows)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    peak = run.updates[-1].peak_memory_bytes
    assert peak == torch.cuda.max_memory_allocated()
    assert peak > 4 * weights  # weights, gradients and two moments


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_documents_do_not_leak(build, attention, precision):
    model = build.tiny_llama(attn_implementation=attention).to("cuda")
    refuse_leak(Objective(model, precision))
