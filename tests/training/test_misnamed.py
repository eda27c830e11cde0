"""What is said of a name that means nothing."""

import pytest

from sweeper.errors import ModelError
from sweeper.training.options import LoraOptions
from sweeper.training.targets import choose


def fault_of(model, **settings):
    with pytest.raises(ModelError) as caught:
        choose(model, LoraOptions(**settings))
    (fault,) = caught.value.faults
    return fault


def test_a_pattern_that_is_no_whole_name_is_explained(build):
    fault = fault_of(build.tiny_llama(), targets="q_proj|v_proj")
    assert fault.what == "the target pattern matches no module of the model"
    assert "whole names such as model.layers.0.self_attn.q_proj" in fault.expected
    assert fault.hint == r"Write `.*\.(q_proj|v_proj)`, or the list [q_proj, v_proj]."


def test_a_pattern_in_a_list_is_explained(build):
    fault = fault_of(build.tiny_llama(), targets=(".*q_proj",))
    assert fault.hint == "A list holds names; write a pattern as a string instead of a list."


def test_a_broken_pattern_is_refused(build):
    fault = fault_of(build.tiny_llama(), targets="(q_proj")
    assert fault.what.startswith("the target pattern is no regular expression")


def test_an_empty_list_is_refused(build):
    fault = fault_of(build.tiny_llama(), targets=())
    assert fault.what == "the list of targets is empty"


def test_a_dotted_name_is_compared_with_whole_names(build):
    fault = fault_of(build.tiny_llama(), targets=("model.layers.0.self_attn.qproj",))
    assert fault.hint == "Did you mean model.layers.0.self_attn.q_proj?"


def test_modules_with_weights_are_offered_for_training_whole(build):
    fault = fault_of(build.tiny_llama(), modules_to_save=("head_lm_x",))
    assert fault.expected == (
        "one of embed_tokens, q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj,"
        " input_layernorm, post_attention_layernorm, norm, lm_head"
    )
