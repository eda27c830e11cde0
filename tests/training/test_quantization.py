"""Base weights in four bits: what is loaded, what stays as declared, what is trained."""

import json
import shutil

import pytest
import torch
from transformers import LlamaConfig

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt
from sweeper.training.capability import installed
from sweeper.training.environment import describe_environment
from sweeper.training.model import load_model, sketch_model
from sweeper.training.options import LoraOptions, ModelOptions
from sweeper.training.quantization import (
    quantization_arguments,
    quantization_of,
    refuse_quantized,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")

CUDA = torch.device("cuda")
NF4 = {"quantization": "nf4", "dtype": "bfloat16"}

needs_package = pytest.mark.skipif(
    installed("bitsandbytes") is None, reason="needs the package bitsandbytes"
)


@pytest.fixture
def loaded(build, tmp_path):
    """A model of the sizes that four bits are stored in, on the GPU."""
    build.tiny_llama(hidden_size=64, intermediate_size=128).save_pretrained(tmp_path)
    return load_model(ModelOptions(path=str(tmp_path), **NF4), device=CUDA)


def test_without_quantization_nothing_is_said_of_it():
    options = ModelOptions(path="/m")
    assert quantization_arguments(options, dtype=torch.float32, device=CUDA) == {}


def test_a_plain_model_has_no_format(build):
    assert quantization_of(build.tiny_llama()) is None


@pytest.mark.parametrize("method", ["gptq", "bitsandbytes"])
def test_a_checkpoint_that_is_quantized_already_is_refused(method, checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="quantized already") as caught:
        sketch_model(ModelOptions(path=str(folder)))
    assert caught.value.faults[0].got == method


def test_an_original_checkpoint_passes():
    refuse_quantized(LlamaConfig(), "model.path")


@pytest.mark.gpu
@needs_package
def test_linear_layers_but_the_head_are_in_four_bits_and_the_rest_as_declared(loaded):
    dtypes = {name: p.dtype for name, p in loaded.named_parameters()}
    quantized = {name for name, dtype in dtypes.items() if dtype == torch.uint8}
    assert len(quantized) == 14
    assert all("_proj" in name for name in quantized)
    assert set(dtypes.values()) == {torch.uint8, torch.bfloat16}
    assert {p.device.type for p in loaded.parameters()} == {"cuda"}
    assert quantization_of(loaded) == "nf4"


@pytest.mark.gpu
@needs_package
def test_an_adapter_over_four_bits_is_float32_and_every_part_of_it_is_trained(loaded, build):
    adapted = adapt(loaded, LoraOptions(rank=4), seed=0)
    assert {p.dtype for p in adapted.tensors.values()} == {torch.float32}
    windows = build.windows_of(build.random_examples(8), [4, 4])
    run = build.run(adapted.model, windows, held_out=(build.held_out(build.random_examples(2)),))
    assert run.outcome.reason == "budget_reached"
    assert run.notices == []
    assert all(p.norm() > 0 for name, p in adapted.tensors.items() if "lora_B" in name)


@pytest.mark.gpu
@needs_package
def test_gradients_are_the_same_before_and_after_an_evaluation(loaded, build):
    """What bitsandbytes does not keep to on a CPU."""
    model = adapt(loaded, LoraOptions(rank=4), seed=0).model.train()
    token_ids = torch.arange(16, device=CUDA)[None]

    def gradients():
        model.zero_grad()
        model(token_ids, labels=token_ids).loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.requires_grad]

    before = gradients()
    with torch.no_grad():
        model.eval()(token_ids)
    model.train()
    assert all(torch.equal(*pair) for pair in zip(before, gradients(), strict=True))


@pytest.mark.gpu
@needs_package
def test_the_format_and_the_package_are_on_record(loaded, build):
    adapted = adapt(loaded, LoraOptions(rank=4), seed=0)
    fields = describe_environment(adapted.model, build.training_options(), micro_batch=4)
    assert (fields["quantization"], fields["dtype"]) == ("nf4", "bfloat16")
    assert fields["bitsandbytes"] == installed("bitsandbytes")
    assert fields["trainable_dtype"] == "float32"
