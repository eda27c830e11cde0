"""An adapter that becomes one with its base: the same numbers, saved and loaded by itself."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from sweeper.training.adapter import adapt
from sweeper.training.options import LoraOptions
from sweeper.trial.export.exporting import merged

TOKENS = torch.arange(12).reshape(2, 6)


def llama(*, tied):
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            tie_word_embeddings=tied,
        )
    )


def trained(model):
    """Moves every trainable tensor away from where it started."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


@pytest.mark.parametrize(
    ("tied", "lora"),
    [
        (False, {}),
        (False, {"dora": True, "rslora": True}),
        (False, {"modules_to_save": ("lm_head",)}),
        (True, {}),
        (True, {"modules_to_save": ("lm_head",)}),
        (True, {"modules_to_save": ("embed_tokens",)}),
    ],
)
def test_the_merged_model_gives_the_same_after_it_was_loaded_by_itself(tmp_path, tied, lora):
    adapted = trained(adapt(llama(tied=tied), LoraOptions(rank=4, **lora), seed=0).model)
    before = logits(adapted)

    merged(adapted, dtype="float32").save_pretrained(tmp_path)

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert not any("lora" in name for name, _ in loaded.named_parameters())
    torch.testing.assert_close(logits(loaded), before, atol=1e-5, rtol=0)


@pytest.mark.filterwarnings("ignore")  # peft warns of the very thing
def test_a_head_that_has_left_its_embedding_is_saved_as_a_tensor_of_its_own(tmp_path):
    config = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"])
    adapted = trained(get_peft_model(llama(tied=True), config))
    before = logits(adapted)

    merged(adapted, dtype="float32").save_pretrained(tmp_path)

    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert loaded.config.tie_word_embeddings is False
    torch.testing.assert_close(logits(loaded), before, atol=1e-5, rtol=0)


def test_it_is_held_in_the_dtype_of_its_base():
    adapted = trained(adapt(llama(tied=False), LoraOptions(rank=4), seed=0).model)

    model = merged(adapted, dtype="bfloat16")

    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}


def test_weights_that_are_not_finite_are_not_merged():
    adapted = trained(adapt(llama(tied=False), LoraOptions(rank=4), seed=0).model)
    with torch.no_grad():
        next(p for p in adapted.parameters() if p.requires_grad).fill_(float("nan"))

    with pytest.raises(ValueError, match="NaNs detected"):
        merged(adapted, dtype="float32")
