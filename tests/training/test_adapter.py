"""LoRA adapters: what is matched, what they start from, what is refused."""

import pytest
import torch

from sweeper.errors import ModelError
from sweeper.training.adapter import adapt, unfreeze
from sweeper.training.options import LoraOptions
from sweeper.training.trainable import count, digest

QV = LoraOptions(rank=4, alpha=8, targets=("q_proj", "v_proj"))


def faults_of(model, targets):
    with pytest.raises(ModelError) as caught:
        adapt(model, LoraOptions(targets=targets), seed=0)
    return caught.value.faults


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


def test_every_listed_name_must_match_and_all_that_do_not_are_named_at_once(build):
    faults = faults_of(build.tiny_llama(), ("q_proj", "vproj", "FAKE"))
    assert [fault.got for fault in faults] == ["vproj", "FAKE"]
    assert faults[0].where == "lora.targets"
    assert faults[0].hint == "Did you mean v_proj?"
    assert "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj" in faults[1].expected


def test_a_pattern_that_is_no_whole_name_is_explained(build):
    (fault,) = faults_of(build.tiny_llama(), "q_proj|v_proj")
    assert fault.what == "the target pattern matches no module of the model"
    assert "whole names such as model.layers.0.self_attn.q_proj" in fault.expected
    assert fault.hint == r"Write `.*\.(q_proj|v_proj)`, or the list [q_proj, v_proj]."


def test_a_pattern_in_a_list_is_explained(build):
    (fault,) = faults_of(build.tiny_llama(), (".*q_proj",))
    assert fault.hint == "A list holds names; write a pattern as a string instead of a list."


def test_a_broken_pattern_is_refused(build):
    (fault,) = faults_of(build.tiny_llama(), "(q_proj")
    assert fault.what.startswith("the target pattern is no regular expression")


def test_an_empty_list_is_refused(build):
    (fault,) = faults_of(build.tiny_llama(), ())
    assert fault.what == "the list of targets is empty"


def test_a_name_of_something_that_can_carry_no_adapter_is_refused(build):
    (fault,) = faults_of(build.tiny_llama(), ("mlp",))
    assert fault.what.startswith("the adapter cannot be put on")
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


@pytest.mark.parametrize(
    ("rank", "alpha", "expected"), [(8, 16, 2.0), (16, 16, 1.0), (64, 16, 0.25)]
)
def test_the_adapter_is_scaled_by_alpha_over_rank(rank, alpha, expected, build):
    lora = LoraOptions(rank=rank, alpha=alpha, targets=("q_proj",))
    adapted = adapt(build.tiny_llama(), lora, seed=0)
    module = adapted.model.get_submodule("base_model.model.model.layers.0.self_attn.q_proj")
    assert module.scaling == {"default": expected}


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


def test_variants_that_are_not_built_are_refused(build):
    with pytest.raises(ModelError, match=r"lora\.dora"):
        adapt(build.tiny_llama(), LoraOptions(dora=True), seed=0)


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
