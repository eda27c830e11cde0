"""What a trial ran on."""

import pytest
import torch

from sweeper.training.adapter import adapt
from sweeper.training.environment import describe_environment
from sweeper.training.optimizer import make_optimizer
from sweeper.training.options import AdamWOptions, LoraOptions, SgdOptions


def test_the_fields_say_what_may_change_the_last_bit(build, monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    fields = describe_environment(build.tiny_llama(), build.training_options(), micro_batch=4)
    assert fields["torch"] == torch.__version__
    assert (fields["device"], fields["dtype"], fields["precision"]) == ("cpu", "float32", "float32")
    assert (fields["threads"], fields["micro_batch"], fields["ranks"]) == ("1", "4", "1")
    assert (fields["deterministic"], fields["tf32"]) == ("no", "no")
    assert (fields["trainable_dtype"], fields["optimizer_dtype"]) == ("float32", "float32")
    assert fields["loss_scaling"] == "no"
    assert fields["attention"] == "sdpa"
    assert fields["mkl_cbwr"] == "COMPATIBLE"
    assert not {"onednn_max_cpu_isa", "quantization", "flash_attention"} & set(fields)
    assert {"cpu", "cpu_capability", "python", "transformers", "peft"} <= set(fields)


def test_determinism_is_read_from_torch_not_from_a_wish(build):
    torch.use_deterministic_algorithms(True)
    try:
        fields = describe_environment(build.tiny_llama(), build.training_options(), micro_batch=4)
    finally:
        torch.use_deterministic_algorithms(False)
    assert fields["deterministic"] == "yes"


def test_loss_scaling_goes_with_float16(build):
    options = build.training_options(precision="float16")
    fields = describe_environment(build.tiny_llama(), options, micro_batch=4)
    assert (fields["dtype"], fields["precision"]) == ("float32", "float16")
    assert fields["loss_scaling"] == "yes"


def test_an_adapter_over_bfloat16_weights_has_a_dtype_of_its_own(build):
    adapted = adapt(build.tiny_llama().bfloat16(), LoraOptions(targets=("q_proj",)), seed=0)
    fields = describe_environment(adapted.model, build.training_options(), micro_batch=4)
    assert (fields["dtype"], fields["precision"]) == ("bfloat16", "bfloat16")
    assert (fields["trainable_dtype"], fields["optimizer_dtype"]) == ("float32", "float32")


@pytest.mark.parametrize(
    "options", [AdamWOptions(kind="adamw"), SgdOptions(kind="sgd", momentum=0.9)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_optimizers_moments_have_the_dtype_of_what_is_trained(options, dtype):
    weight = torch.nn.Parameter(torch.ones(2, 2, dtype=dtype))
    weight.grad = torch.ones_like(weight)
    optimizer = make_optimizer({"w": weight}, options)
    optimizer.step()
    moments = [each for name, each in optimizer.state[weight].items() if name != "step"]
    assert {moment.dtype for moment in moments} == {dtype}
