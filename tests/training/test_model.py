"""Loading a checkpoint, and the message when it cannot be loaded."""

import json
import shutil

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file, save_file

from sweeper.errors import ModelError
from sweeper.training.model import is_folder, load_model, sketch_model
from sweeper.training.options import ModelOptions

CPU = torch.device("cpu")


@pytest.fixture
def copy(checkpoint, tmp_path):
    return shutil.copytree(checkpoint, tmp_path / "model")


def fault_of(path, **options):
    with pytest.raises(ModelError) as caught:
        load_model(ModelOptions(path=str(path), **options), device=CPU)
    (fault,) = caught.value.faults
    assert fault.where == "model.path"
    return fault


def test_a_checkpoint_is_loaded_to_the_bit(build, checkpoint):
    model = load_model(ModelOptions(path=str(checkpoint)), device=CPU)
    expected = build.tiny_llama().state_dict()
    assert all(torch.equal(model.state_dict()[name], expected[name]) for name in expected)
    assert not model.training


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)],
)
def test_base_weights_come_in_the_dtype_asked_for(dtype, expected, checkpoint):
    model = load_model(ModelOptions(path=str(checkpoint), dtype=dtype), device=CPU)
    assert {parameter.dtype for parameter in model.parameters()} == {expected}


@pytest.mark.parametrize(
    ("attention", "expected"), [("auto", "sdpa"), ("sdpa", "sdpa"), ("eager", "eager")]
)
def test_attention_is_the_one_asked_for(attention, expected, checkpoint):
    model = load_model(ModelOptions(path=str(checkpoint), attention=attention), device=CPU)
    assert model.config._attn_implementation == expected


def test_a_missing_folder(tmp_path):
    fault = fault_of(tmp_path / "nowhere")
    assert fault.what == "there is no such model folder"
    assert fault.got == str(tmp_path / "nowhere")


def test_a_folder_that_is_no_checkpoint_says_all_it_lacks(tmp_path):
    fault = fault_of(tmp_path)
    assert fault.what == (
        "the folder is no model checkpoint: it lacks config.json and weights (model.safetensors)"
    )


def test_a_folder_without_weights(copy):
    (copy / "model.safetensors").unlink()
    assert "it lacks weights" in fault_of(copy).what


def test_weights_that_were_cut_short(copy):
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    fault = fault_of(copy)
    assert fault.what.startswith("the model cannot be loaded: SafetensorError")
    assert fault.hint == "Check that the files are complete and of a causal language model."


def test_weights_that_are_missing_are_not_drawn_at_random(copy):
    tensors = load_file(copy / "model.safetensors")
    del tensors["lm_head.weight"]
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    fault = fault_of(copy)
    assert fault.what == "the checkpoint lacks weights, which would be drawn at random"
    assert fault.got == f"{copy} without lm_head.weight"


def test_a_vocabulary_that_was_resized_in_the_weights_alone(copy):
    tensors = load_file(copy / "model.safetensors")
    tensors["model.embed_tokens.weight"] = torch.zeros(70, 32)
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    fault = fault_of(copy)
    assert fault.what == "the checkpoint's weights have other shapes than its config.json says"
    assert fault.got == f"{copy} with model.embed_tokens.weight [70, 32] instead of [64, 32]"


def test_a_vocabulary_larger_than_the_tokenizers_is_fine(build, tmp_path):
    """Many models fill up to a multiple of 64; the surplus rows are never read."""
    build.tiny_llama(vocab_size=128).save_pretrained(tmp_path)
    model = load_model(ModelOptions(path=str(tmp_path)), device=CPU)
    assert len(model.get_input_embeddings().weight) == 128


def test_an_architecture_that_nobody_knows(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"model_type": "abacus"}))
    assert fault_of(copy).what.startswith("the model cannot be loaded: ValueError")


def test_a_hub_model_that_is_not_in_the_cache_while_offline(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    fault = fault_of("nobody/no-such-model", revision="v1")
    assert fault.got == "nobody/no-such-model at v1"
    assert fault.what == "the hub cannot be reached, and its cache does not have the whole model"
    assert "set HF_HOME to a cache that has the model" in fault.hint


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/models/tiny", True), ("./tiny", True), ("owner/name", False), ("gpt2", False)],
)
def test_a_path_is_told_from_a_hub_id_by_its_look(path, expected):
    assert is_folder(path) is expected


def test_a_sketch_has_the_shape_and_no_weights(checkpoint, build):
    sketch = sketch_model(ModelOptions(path=str(checkpoint)))
    shapes = {name: p.shape for name, p in build.tiny_llama().named_parameters()}
    assert {name: p.shape for name, p in sketch.named_parameters()} == shapes
    assert {p.device.type for p in sketch.parameters()} == {"meta"}


def test_a_sketch_of_an_unknown_architecture_is_refused(copy):
    (copy / "config.json").write_text('{"model_type": "abacus"}')
    with pytest.raises(ModelError, match="the model cannot be loaded"):
        sketch_model(ModelOptions(path=str(copy)))


@pytest.mark.parametrize("asked", [{"quantization": "nf4"}, {"attention": "flash_attention_2"}])
def test_what_this_machine_cannot_do_is_refused_before_anything_is_read(asked):
    with pytest.raises(ModelError) as caught:
        load_model(ModelOptions(path="/nowhere", **asked), device=CPU)
    (fault,) = caught.value.faults
    assert fault.where in {"model.quantization", "model.attention"}


@pytest.mark.parametrize("attention", ["auto", "sdpa", "eager"])
def test_a_sketch_has_the_attention_asked_for(attention, checkpoint):
    sketch = sketch_model(ModelOptions(path=str(checkpoint), attention=attention))
    assert sketch.config._attn_implementation == {"auto": "sdpa"}.get(attention, attention)
