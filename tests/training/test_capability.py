"""What is refused for want of a package or of a GPU."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.capability import installed, refuse_missing_device, refuse_missing_packages
from sweeper.training.options import ModelOptions

CPU = torch.device("cpu")
BOTH = ModelOptions(path="/m", quantization="nf4", attention="flash_attention_2")

without_packages = pytest.mark.skipif(
    installed("bitsandbytes") is not None or installed("flash-attn") is not None,
    reason="the packages are installed here",
)


@without_packages
def test_missing_packages_are_named_together_with_how_to_get_them():
    with pytest.raises(ModelError) as caught:
        refuse_missing_packages(BOTH)
    first, second = caught.value.faults
    assert first.what == "quantization needs the package bitsandbytes, which is not installed"
    assert "pip install sweeper[quantization]" in first.hint
    assert second.what == "flash attention needs the package flash-attn, which is not installed"
    assert second.expected == "one of auto, sdpa, eager"


def test_what_needs_a_gpu_is_refused_on_a_cpu_with_the_reason():
    with pytest.raises(ModelError) as caught:
        refuse_missing_device(BOTH, CPU)
    first, second = caught.value.faults
    assert (first.where, first.got) == ("model.quantization", "nf4 on cpu")
    assert "on a CPU, bitsandbytes loses gradients after an evaluation" in first.what
    assert (second.where, second.got) == ("model.attention", "flash_attention_2 on cpu")


def test_on_a_gpu_nothing_is_refused():
    refuse_missing_device(BOTH, torch.device("cuda"))


@pytest.mark.parametrize("attention", ["auto", "sdpa", "eager"])
def test_plain_settings_need_neither(attention):
    options = ModelOptions(path="/m", attention=attention)
    refuse_missing_packages(options)
    refuse_missing_device(options, CPU)


def test_a_distribution_is_looked_up_by_its_version():
    assert installed("torch") == torch.__version__
    assert installed("no-such-distribution") is None
