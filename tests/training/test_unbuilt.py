"""Settings that cannot be honoured yet are refused, all of them at once."""

import pytest

from sweeper.errors import ModelError
from sweeper.training.options import LoraOptions, ModelOptions
from sweeper.training.unbuilt import refuse_lora, refuse_model, refuse_training


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"quantization": "nf4"}, "model.quantization"),
        ({"attention": "flash_attention_2"}, "model.attention"),
    ],
)
def test_model_settings(changes, where):
    with pytest.raises(ModelError, match=where):
        refuse_model(ModelOptions(path="/m", **changes))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"dora": True}, "lora.dora"),
        ({"rslora": True}, "lora.rslora"),
        ({"rank_pattern": {"q_proj": 8}}, "lora.rank_pattern"),
        ({"alpha_pattern": {"q_proj": 4.0}}, "lora.alpha_pattern"),
        ({"modules_to_save": ("lm_head",)}, "lora.modules_to_save"),
    ],
)
def test_adapter_settings(changes, where):
    with pytest.raises(ModelError, match=where):
        refuse_lora(LoraOptions(**changes))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"gradient_checkpointing": True}, "training.gradient_checkpointing"),
        ({"tf32": True}, "training.tf32"),
        ({"precision": "float16"}, "training.precision"),
    ],
)
def test_training_settings(changes, where, build):
    with pytest.raises(ModelError, match=where):
        refuse_training(build.training_options(**changes))


def test_several_come_in_one_answer():
    with pytest.raises(ModelError) as caught:
        refuse_lora(LoraOptions(dora=True, rslora=True))
    assert [fault.where for fault in caught.value.faults] == ["lora.dora", "lora.rslora"]


def test_the_defaults_pass(build):
    refuse_model(ModelOptions(path="/m"))
    refuse_lora(LoraOptions())
    refuse_training(build.training_options())
