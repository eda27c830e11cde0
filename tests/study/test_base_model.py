"""What a base model is called by people who do not have this machine."""

import json

import pytest

from sweeper.study.base_model import BaseModel, base_model
from sweeper.training.options import ModelOptions


def of_folder(folder, config):
    (folder / "config.json").write_text(config)
    return base_model(ModelOptions(path=str(folder)))


def test_a_hub_id_comes_with_the_commit_that_was_read():
    found = base_model(ModelOptions(path="mice/tiny-llama", revision="ab" * 20))
    assert found == BaseModel(hub_id="mice/tiny-llama", revision="ab" * 20, is_from_folder=False)


def test_a_folder_is_called_what_its_configuration_says_it_came_from(tmp_path):
    found = of_folder(tmp_path, json.dumps({"_name_or_path": "mice/tiny-llama"}))
    assert found == BaseModel(hub_id="mice/tiny-llama", revision=None, is_from_folder=True)


@pytest.mark.parametrize(
    "config",
    [
        "{}",
        "no json",
        "[]",
        json.dumps({"_name_or_path": None}),
        json.dumps({"_name_or_path": ""}),
        json.dumps({"_name_or_path": "/home/eve/model"}),
        json.dumps({"_name_or_path": "./model"}),
        json.dumps({"_name_or_path": "../mice/model"}),
        json.dumps({"_name_or_path": "a/b/c"}),
        json.dumps({"_name_or_path": "gpt2"}),
        json.dumps({"_name_or_path": "mice/model\nlicense: mit"}),
    ],
)
def test_anything_else_is_no_name(tmp_path, config):
    found = of_folder(tmp_path, config)
    assert found == BaseModel(hub_id=None, revision=None, is_from_folder=True)


def test_a_folder_that_is_gone_has_no_name(tmp_path):
    assert base_model(ModelOptions(path=str(tmp_path / "gone"))).hub_id is None
