from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sweeper.trial.device import DeviceMissing, fence, given_device


@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_slot_without_a_gpu_computes_on_the_cpu(environ):
    assert given_device(environ) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this host has a GPU")
def test_a_gpu_that_is_not_there_is_never_replaced_by_the_cpu():
    with pytest.raises(DeviceMissing, match="'GPU-5a' for 1 ranks, but torch sees 0 GPUs"):
        given_device({"CUDA_VISIBLE_DEVICES": "GPU-5a"})


@pytest.mark.parametrize(("limit", "fraction"), [(250, 0.25), (2000, 1.0)])
def test_the_allocator_is_fenced_at_the_limit_as_a_part_of_the_device(monkeypatch, limit, fraction):
    """torch's two functions stand for a GPU of 1000 bytes."""
    fenced = []
    device = torch.device("cuda", 1)
    gpu = SimpleNamespace(total_memory=1000)
    monkeypatch.setattr(torch.cuda, "get_device_properties", {device: gpu}.get)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda *given: fenced.append(given)
    )

    fence(device, limit_bytes=limit)

    assert fenced == [(fraction, device)]


@pytest.mark.parametrize(("device", "limit"), [("cpu", 250), ("cuda", None)])
def test_without_a_limit_or_a_gpu_there_is_no_fence(monkeypatch, device, limit):
    monkeypatch.delattr(torch.cuda, "set_per_process_memory_fraction")

    fence(torch.device(device), limit_bytes=limit)


@pytest.mark.gpu
def test_a_real_allocator_refuses_what_is_above_the_limit():
    device = torch.device("cuda", 0)
    fence(device, limit_bytes=64 << 20)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(128 << 20, dtype=torch.uint8, device=device)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
