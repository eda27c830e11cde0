from __future__ import annotations

import pytest
import torch

from sweeper.trial.device import DeviceMissing, given_device


@pytest.mark.parametrize("environ", [{}, {"CUDA_VISIBLE_DEVICES": ""}])
def test_a_slot_without_a_gpu_computes_on_the_cpu(environ):
    assert given_device(environ) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this host has a GPU")
def test_a_gpu_that_is_not_there_is_never_replaced_by_the_cpu():
    with pytest.raises(DeviceMissing, match="'GPU-5a' for 1 ranks, but torch sees 0 GPUs"):
        given_device({"CUDA_VISIBLE_DEVICES": "GPU-5a"})
