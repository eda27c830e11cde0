"""The shape of a model, found without its weights."""

import pytest
from transformers import BloomConfig, BloomForCausalLM

from sweeper.errors import ModelError
from sweeper.training.inspection import inspect
from sweeper.training.options import LoraOptions, ModelOptions
from sweeper.training.report import InspectionRequest


def request(path, lora=None):
    return InspectionRequest(
        model=ModelOptions(path=str(path)), tune="lora" if lora else "full", lora=lora
    )


def test_the_report_on_an_adapter(checkpoint, build):
    report = inspect(request(checkpoint, LoraOptions(rank=4, targets=("q_proj", "v_proj"))))
    assert report.parameters == build.tiny_llama().num_parameters()
    assert report.trainable_parameters == 896
    assert len(report.adapted_modules) == 4
    assert (report.embedding_rows, report.max_positions) == (64, 64)
    assert not report.tied_embeddings


def test_the_report_on_full_tuning(checkpoint):
    report = inspect(request(checkpoint))
    assert report.trainable_parameters == report.parameters
    assert report.adapted_modules == ()


def test_tied_embeddings_are_seen(build, tmp_path):
    build.tiny_llama(tie_word_embeddings=True).save_pretrained(tmp_path / "tied")
    assert inspect(request(tmp_path / "tied")).tied_embeddings


def test_a_model_that_takes_no_positions_is_refused_before_packing_costs_anything(tmp_path):
    config = BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=2)
    BloomForCausalLM(config).save_pretrained(tmp_path / "bloom")
    asked = request(tmp_path / "bloom")
    assert inspect(asked).embedding_rows == 64
    with pytest.raises(ModelError, match="the model takes no position_ids"):
        inspect(asked.model_copy(update={"is_packed": True}))


def test_a_model_that_can_be_packed_is_reported_as_without_packing(checkpoint):
    asked = request(checkpoint)
    assert inspect(asked.model_copy(update={"is_packed": True})) == inspect(asked)


def test_targets_are_checked(checkpoint):
    with pytest.raises(ModelError, match="Did you mean v_proj"):
        inspect(request(checkpoint, LoraOptions(targets=("q_proj", "vproj"))))
