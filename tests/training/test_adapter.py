"""LoRA adapters: what is matched, what they start from, what is refused."""

import math

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt, unfreeze
from sweeper.training.options import LoraOptions
from sweeper.training.trainable import count, digest

QV = LoraOptions(rank=4, alpha=8, targets=("q_proj", "v_proj"))


def test_the_adapted_modules_are_told_in_the_models_order(build):
    adapted = adapt(build.tiny_llama(), QV, seed=0)
    assert adapted.modules == (
        "model.layers.0.self_attn.q_proj",
        "model.layers.0.self_attn.v_proj",
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.self_attn.v_proj",
    )


def test_all_linear_means_every_linear_layer_but_the_head(build):
    adapted = adapt(build.tiny_llama(), LoraOptions(), seed=0)
    assert len(adapted.modules) == 14
    assert not any("lm_head" in name for name in adapted.modules)


def test_an_adapter_has_rank_times_both_sizes_parameters(build):
    """q: 4 (32 + 32) = 256, v: 4 (32 + 16) = 192; two layers of both: 896."""
    assert count(adapt(build.tiny_llama(), QV, seed=0).tensors) == 896


def test_a_string_is_a_pattern_for_the_whole_name(build):
    lora = LoraOptions(targets=r".*layers\.1.*\.(q_proj|v_proj)")
    assert adapt(build.tiny_llama(), lora, seed=0).modules == (
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.self_attn.v_proj",
    )


def test_a_name_of_something_that_can_carry_no_adapter_is_refused(build):
    with pytest.raises(ModelError, match="the adapter cannot be put on") as caught:
        adapt(build.tiny_llama(), LoraOptions(targets=("mlp",)), seed=0)
    (fault,) = caught.value.faults
    assert fault.got == "('mlp',)"


def test_what_an_adapter_starts_from_depends_on_the_seed_alone(build):
    """Not on what was drawn before, nor on the order of the targets."""
    first = digest(adapt(build.tiny_llama(), QV, seed=1).tensors)
    torch.rand(17)
    turned = QV.model_copy(update={"targets": ("v_proj", "q_proj")})
    assert digest(adapt(build.tiny_llama(), turned, seed=1).tensors) == first
    assert digest(adapt(build.tiny_llama(), QV, seed=2).tensors) != first


def test_adapting_leaves_the_random_state_alone(build):
    model = build.tiny_llama()
    before = torch.get_rng_state()
    adapt(model, QV, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_fresh_adapter_changes_no_output(build):
    model = build.tiny_llama()
    token_ids = torch.arange(8)[None]
    before = model(token_ids).logits
    adapted = adapt(model, QV, seed=0)
    assert torch.equal(adapted.model(token_ids).logits, before)


def test_what_an_adapter_adds_is_b_times_a_times_the_scale(build):
    """B = [1; 2], A = [3, 4], scale 2: [[6, 8], [12, 16]] in the corner of the weight's change."""
    adapted = adapt(build.tiny_llama(), LoraOptions(rank=1, alpha=2, targets=("q_proj",)), seed=0)
    module = adapted.model.get_submodule("base_model.model.model.layers.0.self_attn.q_proj")
    with torch.no_grad():
        module.lora_B["default"].weight[:2, 0] = torch.tensor([1.0, 2.0])
        module.lora_A["default"].weight[0, :2] = torch.tensor([3.0, 4.0])
        x = torch.zeros(2, 32)
        x[0, 0], x[1, 1] = 1.0, 1.0
        added = module(x) - module.base_layer(x)
    assert torch.allclose(added[:, :2].T, torch.tensor([[6.0, 8.0], [12.0, 16.0]]))


def test_adapters_on_bfloat16_weights_are_float32(build):
    adapted = adapt(build.tiny_llama().bfloat16(), QV, seed=0)
    assert {tensor.dtype for tensor in adapted.tensors.values()} == {torch.float32}


def test_everything_but_the_adapter_is_frozen(build):
    adapted = adapt(build.tiny_llama(), QV, seed=0)
    trained = [name for name, p in adapted.model.named_parameters() if p.requires_grad]
    assert all("lora_" in name for name in trained)
    assert list(adapted.tensors) == trained


def test_a_rank_of_its_own_gives_a_module_matrices_of_that_rank(build):
    """q with rank 8: 8 (32 + 32) = 512; v with rank 4: 4 (32 + 16) = 192; two layers."""
    lora = QV.model_copy(update={"rank_pattern": {"q_proj": 8}})
    adapted = adapt(build.tiny_llama(), lora, seed=0)
    assert count(adapted.tensors) == 2 * (512 + 192)
    shapes = {name: list(p.shape) for name, p in adapted.tensors.items() if "layers.0" in name}
    assert list(shapes.values()) == [[8, 32], [32, 8], [4, 32], [16, 4]]


def test_what_a_pattern_changes_in_one_module_leaves_the_settings_alone(build):
    """peft changes what it is handed; the same settings serve the next trial."""
    lora = QV.model_copy(
        update={"rank_pattern": {"q_proj": 8}, "modules_to_save": ("norm", "lm_head")}
    )
    before = lora.model_dump_json()
    adapt(build.tiny_llama(), lora, seed=0)
    assert lora.model_dump_json() == before


DORA = QV.model_copy(update={"dora": True})


def test_dora_starts_at_the_base_models_output_and_trains_magnitudes(build):
    """32 magnitudes for q, 16 for v, in two layers."""
    token_ids = torch.arange(8)[None]
    adapted = adapt(build.tiny_llama(), DORA, seed=0)
    assert torch.equal(adapted.model(token_ids).logits, build.tiny_llama()(token_ids).logits)
    magnitudes = [p for name, p in adapted.tensors.items() if "lora_magnitude_vector" in name]
    assert sum(p.numel() for p in magnitudes) == 2 * (32 + 16)


def test_the_magnitudes_of_dora_are_the_norms_of_the_weights_rows(build):
    model = build.tiny_llama()
    norms = model.model.layers[1].self_attn.v_proj.weight.norm(dim=1)
    adapted = adapt(model, DORA, seed=0)
    name = "base_model.model.model.layers.1.self_attn.v_proj.lora_magnitude_vector.default.weight"
    assert torch.allclose(adapted.tensors[name], norms, rtol=1e-6)


def test_what_dora_adds_turns_a_row_and_sets_its_length(build):
    """W = identity, B A = 1 in the corner right of it, magnitude 2: (1, 1) / sqrt 2 x 2."""
    lora = LoraOptions(rank=1, alpha=1, targets=("q_proj",), dora=True)
    model = build.tiny_llama()
    torch.nn.init.eye_(model.model.layers[0].self_attn.q_proj.weight)
    adapted = adapt(model, lora, seed=0)
    module = adapted.model.get_submodule("base_model.model.model.layers.0.self_attn.q_proj")
    with torch.no_grad():
        module.lora_A["default"].weight.zero_()[0, 1] = 1.0
        module.lora_B["default"].weight[0, 0] = 1.0
        module.lora_magnitude_vector["default"].weight[0] = 2.0
        rows = module(torch.eye(32)[:2]).T
    assert rows[0].tolist() == pytest.approx([math.sqrt(2), math.sqrt(2)])
    assert rows[1].tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize("lora", [DORA, QV.model_copy(update={"modules_to_save": ("norm",)})])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_whatever_is_trained_over_short_weights_is_float32(lora, dtype, build):
    adapted = adapt(build.tiny_llama().to(dtype), lora, seed=0)
    assert {tensor.dtype for tensor in adapted.tensors.values()} == {torch.float32}


HEAD = QV.model_copy(update={"modules_to_save": ("lm_head",)})


def test_a_module_trained_whole_is_a_copy_beside_the_frozen_one(build):
    model = build.tiny_llama()
    adapted = adapt(model, HEAD, seed=0)
    assert adapted.saved == ("lm_head",)
    assert count(adapted.tensors) == 896 + 64 * 32
    copy = adapted.tensors["base_model.model.lm_head.modules_to_save.default.weight"]
    frozen = model.lm_head.original_module.weight
    assert torch.equal(copy, frozen)
    assert copy.data_ptr() != frozen.data_ptr()
    assert not frozen.requires_grad


def test_a_name_to_be_trained_whole_means_whole_names_not_their_ends(build):
    """peft would take `norm` for `input_layernorm` and `post_attention_layernorm` too."""
    lora = QV.model_copy(update={"modules_to_save": ("norm",)})
    adapted = adapt(build.tiny_llama(), lora, seed=0)
    assert adapted.saved == ("model.norm",)
    assert count(adapted.tensors) == 896 + 32


@pytest.mark.parametrize("asked", [("lm_head",), ("embed_tokens",), ("lm_head", "embed_tokens")])
def test_tied_embeddings_are_trained_whole_as_the_one_tensor_that_they_are(asked, build):
    lora = QV.model_copy(update={"modules_to_save": asked})
    model = build.tiny_llama(tie_word_embeddings=True)
    adapted = adapt(model, lora, seed=0)
    assert count(adapted.tensors) == 896 + 64 * 32
    assert adapted.saved == ("model.embed_tokens", "lm_head")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("targets", [("q_proj", "lm_head"), ("embed_tokens",), ".*embed_tokens"])
def test_an_adapter_on_one_of_two_tied_modules_is_refused(targets, build):
    with pytest.raises(ModelError, match="would part the input embedding from the head"):
        adapt(build.tiny_llama(tie_word_embeddings=True), LoraOptions(targets=targets), seed=0)


def test_embeddings_that_are_not_tied_can_carry_an_adapter(build):
    lora = LoraOptions(rank=4, targets=("embed_tokens", "lm_head"))
    assert count(adapt(build.tiny_llama(), lora, seed=0).tensors) == 2 * 4 * (64 + 32)


def test_full_tuning_trains_every_weight(build):
    model = build.tiny_llama()
    model.requires_grad_(requires_grad=False)
    adapted = unfreeze(model)
    assert adapted.modules == ()
    assert count(adapted.tensors) == model.num_parameters()


def test_full_tuning_trains_tied_embeddings_once(build):
    """64 x 32 fewer than with a head of its own."""
    untied, tied = build.tiny_llama(), build.tiny_llama(tie_word_embeddings=True)
    assert count(unfreeze(untied).tensors) - count(unfreeze(tied).tensors) == 64 * 32
