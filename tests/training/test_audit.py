"""What is trained, by how much, and by which setting."""

import pytest
import torch
from torch import nn

from sweeper.errors import ModelError
from sweeper.training.adapter import AdaptedModel, adapt, unfreeze
from sweeper.training.audit import audit
from sweeper.training.options import LoraOptions

Q = "model.layers.0.self_attn.q_proj"
V = "model.layers.0.self_attn.v_proj"


@pytest.mark.parametrize(
    ("rank", "rslora", "expected"),
    [
        (8, False, 2.0),
        (16, False, 1.0),
        (64, False, 0.25),
        (8, True, 5.65685424949238),
        (16, True, 4.0),
        (64, True, 2.0),
    ],
)
def test_scaling_is_alpha_over_rank_or_over_its_root(rank, rslora, expected, build):
    """Alpha 16: 16/8, 16/16, 16/64, and with the root 16/sqrt 8 = 4 sqrt 2, 16/4, 16/8."""
    lora = LoraOptions(rank=rank, alpha=16, targets=("q_proj",), rslora=rslora)
    found = audit(adapt(build.tiny_llama(), lora, seed=0)).scaling
    assert found == pytest.approx({Q: expected, Q.replace("0", "1"): expected}, rel=1e-14)


@pytest.mark.parametrize(
    ("changes", "q", "v"),
    [
        ({}, 2.0, 2.0),
        ({"dora": True}, 2.0, 2.0),
        ({"rank_pattern": {"q_proj": 8}}, 1.0, 2.0),
        ({"alpha_pattern": {"q_proj": 4.0}}, 1.0, 2.0),
        ({"rank_pattern": {"q_proj": 8}, "alpha_pattern": {"q_proj": 4.0}}, 0.5, 2.0),
        ({"rank_pattern": {"q_proj": 16}, "rslora": True}, 2.0, 4.0),
    ],
)
def test_patterns_change_the_scaling_of_the_modules_that_they_match(changes, q, v, build):
    """Rank 4 and alpha 8 elsewhere: 8/4 = 2, with the root 8/2 = 4; q: 8/8, 4/4, 4/8, 8/4."""
    lora = LoraOptions(rank=4, alpha=8, targets=("q_proj", "v_proj"), **changes)
    found = audit(adapt(build.tiny_llama(), lora, seed=0)).scaling
    assert (found[Q], found[V]) == (q, v)


def test_the_settings_are_told_with_what_they_mean(build):
    lora = LoraOptions(targets=("q_proj",), modules_to_save=("lm_head",))
    found = audit(adapt(build.tiny_llama(), lora, seed=0))
    assert found.matched["lora.targets: q_proj"] == (Q, Q.replace("0", "1"))
    assert found.matched["lora.modules_to_save: lm_head"] == ("lm_head",)


@pytest.mark.parametrize(
    ("targets", "layers", "expected"),
    [
        (("q_proj",), 1, 65_536),
        (("v_proj",), 1, 40_960),
        (("q_proj", "v_proj"), 32, 3_407_872),
    ],
)
def test_adapters_of_rank_8_on_a_large_model_have_so_many_weights(targets, layers, expected, build):
    """q: 8 (4096 + 4096); v: 8 (4096 + 1024); 32 layers of both: 32 x 106,496."""
    with torch.device("meta"):
        model = build.tiny_llama(
            hidden_size=4096,
            intermediate_size=64,
            num_attention_heads=32,
            num_key_value_heads=8,
            num_hidden_layers=layers,
        )
    found = audit(adapt(model, LoraOptions(rank=8, targets=targets), seed=0))
    assert found.trainable_parameters == expected


def test_full_tuning_has_no_scaling_and_counts_a_tied_tensor_once(build):
    found = audit(unfreeze(build.tiny_llama(tie_word_embeddings=True)))
    assert (found.matched, found.scaling) == ({}, {})
    assert found.trainable_parameters == build.tiny_llama().num_parameters() - 64 * 32


def test_two_trainable_tensors_over_one_storage_are_found_whoever_made_them(build):
    """The transposed views that peft makes of tied adapters: both would be updated."""
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False))
    model[1].weight = nn.Parameter(model[0].weight.data.T)
    with pytest.raises(ModelError, match="share storage, so each update would be made twice"):
        audit(AdaptedModel(model=model, modules=(), tensors={}))
