"""Saved adapters come back bit by bit, and nothing else does."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt
from sweeper.training.options import LoraOptions
from sweeper.training.saved import load_saved_adapter
from sweeper.training.saving import save
from sweeper.training.trainable import digest

LORA = LoraOptions(rank=2, alpha=4, targets=("q_proj", "v_proj"))


def trained(model, lora, *, seed=3):
    """An adapted model whose every trainable tensor was moved."""
    adapted = adapt(model, lora, seed=seed)
    with torch.no_grad():
        for parameter in adapted.tensors.values():
            parameter.add_(torch.full_like(parameter, 0.25))
    return adapted


@pytest.mark.parametrize(
    "lora",
    [
        pytest.param(LORA, id="lora"),
        pytest.param(LORA.model_copy(update={"dora": True}), id="dora"),
        pytest.param(
            LORA.model_copy(update={"modules_to_save": ("lm_head",)}), id="a whole module"
        ),
    ],
)
def test_a_saved_adapter_is_put_back_to_the_bit(build, tmp_path, lora):
    before = trained(build.tiny_llama(), lora)
    save(before.model, tmp_path / "adapter", tokenizer=None)
    after = adapt(build.tiny_llama(), lora, seed=8)
    assert digest(after.tensors) != digest(before.tensors)

    load_saved_adapter(after, tmp_path / "adapter")

    assert digest(after.tensors) == digest(before.tensors)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"targets": ("q_proj",)}, id="fewer modules"),
        pytest.param({"targets": ("q_proj", "k_proj", "v_proj")}, id="more modules"),
    ],
)
def test_an_adapter_of_other_settings_is_refused(build, tmp_path, other):
    save(trained(build.tiny_llama(), LORA).model, tmp_path / "adapter", tokenizer=None)
    another = adapt(build.tiny_llama(), LORA.model_copy(update=other), seed=3)

    with pytest.raises(ModelError, match="not one for this model and these settings"):
        load_saved_adapter(another, tmp_path / "adapter")


def test_a_file_that_was_cut_is_refused(build, tmp_path):
    adapted = trained(build.tiny_llama(), LORA)
    save(adapted.model, tmp_path / "adapter", tokenizer=None)
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:100])

    with pytest.raises(ModelError, match="cannot be read"):
        load_saved_adapter(adapted, tmp_path / "adapter")
